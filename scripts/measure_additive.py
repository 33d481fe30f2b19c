"""Measure transport on additive models, faster than the studies do: a run is asked for all targets.

    python scripts/measure_additive.py targets        # Adult and COMPAS, twenty seeds: ten minutes
    python scripts/measure_additive.py states FOLDER  # 39 states, five draws of 1,125 rows: ten

The studies `targets` and `states` print the same methods with a run for each target.
"""

import sys
import warnings

import pandas as pd
import torch

import pfedfair as pff
from pfedfair.metrics import mean_interval
from pfedfair.studies.rows import at_target

TARGET = 0.05
RIVALS = {"threshold-local": 20, "logofair": 5, "fedfact": 5, "duan": 5, "pooled": 5}  # seeds


def targets() -> None:
    """The worst client at each target, and the lead over rivals at one."""
    for name, clients in (("compas", None), ("adult", None), ("adult", 20), ("adult", 50)):
        data, found = pff.load(name, model="additive"), []
        for seed in range(20):
            federation = data.federate(pff.partition.fixed_shares(clients), seed)
            run = pff.train(federation, pff.make("transport", {"target_ddp": TARGET}, data), seed)
            runs = {f"transport {t:g}": run.retarget(target_ddp=t) for t in (0.02, TARGET, 0.1)}
            for rival, seeds in RIVALS.items():
                if seed < seeds:
                    algorithm = pff.make(rival, at_target(rival, TARGET), data)
                    runs[rival] = pff.train(federation, algorithm, seed)
            for label, each in runs.items():
                table = each.table()
                worst = table["accuracy"].min(), table["ddp"].max()
                found.append((label, seed, *worst, table["accuracy"].mean()))
        columns = ["method", "seed", "worst accuracy", "worst DDP", "mean accuracy"]
        frame = pd.DataFrame(found, columns=columns).set_index(["method", "seed"])
        print(f"\n{data.name}, {clients or 5} clients")
        print(frame.groupby("method").mean().round(4).to_string())
        for rival in RIVALS:
            lead = (frame.loc[f"transport {TARGET:g}"] - frame.loc[rival]).dropna()
            for column in columns[2:4]:
                mean, low, high = mean_interval(lead[column].to_numpy())
                print(f"transport less {rival}, {column}: {mean:+.4f} [{low:+.4f}, {high:+.4f}]")


def states(folder: str) -> None:
    """How many states keep the target, on average over draws of the training rows and by draw."""
    data, found = pff.load("acs", folder=folder), []
    for seed in range(5):
        federation = data.federate(pff.partition.by_column("STATE", rows=1125), seed)
        for intercepts in ("shared", "personal"):
            asked = {"base": "newton", "base.intercepts": intercepts, "target_ddp": TARGET}
            run = pff.train(federation, pff.make("transport", asked, data), seed)
            for sure in (None, 0.95):
                table = run.retarget(confidence=sure).table()
                found.append(table.assign(seed=seed, intercepts=intercepts, sure=sure or 0.0))
    for key, part in pd.concat(found).groupby(["intercepts", "sure"]):
        mean = part.groupby("client")["ddp"].mean()
        by_draw = [(part["ddp"] <= limit).mean() for limit in (TARGET, TARGET + 0.015)]
        print(
            f"{key}: mean accuracy {100 * part['accuracy'].mean():.2f}; on average over draws "
            f"{(mean <= TARGET).sum()} states within {TARGET}, {(mean <= TARGET + 0.015).sum()} "
            f"within {TARGET + 0.015}, the largest {mean.max():.3f} ({mean.idxmax()}); by draw "
            f"{by_draw[0]:.0%} and {by_draw[1]:.0%}; one decision: {part['collapsed'].sum()}"
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", pff.CollapseWarning)
    states(sys.argv[2]) if sys.argv[1] == "states" else targets()
