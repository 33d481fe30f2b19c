"""Measure transport on the additive model at clients that nobody made, with and without confidence.

    python scripts/measure_states.py FOLDER  # 39 states, five draws of 1,125 rows: ten minutes

The study `states` has other methods, too; `targets` has Adult and COMPAS.
"""

import sys
import warnings

import pandas as pd
import torch

import pfedfair as pff

TARGET = 0.05


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
    states(sys.argv[1])
