"""A small grid of runs."""

import pfedfair as pff
from pfedfair.experiments import Source, Spec

PLAN = pff.partition.fixed_shares()


def grid(rounds=3, seeds=2):
    return [
        Spec(Source("compas"), PLAN, method, pff.make(method, {"rounds": rounds, **more}), seed)
        for method, more in (("constant", {}), ("fedavg-kde", {"eta": 0.5}), ("pfedfair", {}))
        for seed in range(seeds)
    ]
