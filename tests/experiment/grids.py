"""A small grid of runs."""

import pfedfair as pff
from pfedfair.experiment import Source, Spec

PLAN = pff.partition.fixed_shares()


def grid(rounds=3, seeds=2):
    return [
        Spec(Source("compas"), PLAN, method, pff.make(method, eta, rounds=rounds), seed)
        for method, eta in (("constant", 0.9), ("fedavg-kde", 0.5), ("pfedfair", 0.9))
        for seed in range(seeds)
    ]
