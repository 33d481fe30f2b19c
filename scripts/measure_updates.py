"""What one lying site costs: its update times a factor, with and without the server's defence.

    python scripts/measure_updates.py            Adult, 3 and 5 sites, 12 rounds of FedAvg
    python scripts/measure_updates.py --seed 1

The defence is the one of `pfedfair.engines.site.checks.shorten_updates`, on the local engine.
"""

import argparse
import warnings
from dataclasses import dataclass, fields

import torch
from torch import Tensor

import pfedfair as pff
from pfedfair.engines.site.checks import shorten_updates
from pfedfair.methods import State

FACTORS = (1.0, -10.0, 10.0, -2.9)


@dataclass(frozen=True, kw_only=True)
class Lied(pff.methods.FedAvg):
    """FedAvg whose first client sends its update times `factor`."""

    factor: float = 1.0
    defended: bool = False

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        sent = messages["w"].clone()
        sent[0] = server["w"] + self.factor * (sent[0] - server["w"])
        if self.defended:
            rows = dict(enumerate(sizes.int().tolist()))
            each = {i: {"w": one} for i, one in enumerate(sent)}
            good, _ = shorten_updates(each, server, ("w",), rows)
            sent = torch.stack([good[i]["w"] for i in rows])
        return super().server_round(server, {"w": sent}, sizes)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seed", type=int, default=0)
    seed = asked.parse_args().seed
    data = pff.load("adult")
    usual = pff.make("fedavg", {"rounds": 12}, data)
    settings = {field.name: getattr(usual, field.name) for field in fields(usual)}
    print("sites  factor  accuracy %, mean of sites: no defence, defended")
    for sites in (3, 5):
        federation = data.federate(pff.partition.fixed_shares(sites), seed=seed)
        for factor in FACTORS:
            found = []
            for defended in (False, True):
                method = Lied(**settings, factor=factor, defended=defended)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", pff.CollapseWarning)
                    run = pff.train(federation, method, seed=seed)
                found.append(100 * run.table()["accuracy"].mean())
            print(f"{sites:5}  {factor:6g}  {found[0]:.1f}  {found[1]:.1f}", flush=True)


if __name__ == "__main__":
    main()
