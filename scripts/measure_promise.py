"""Measure whether transport keeps what a target promises: by estimate, with confidence, jointly.

    python scripts/measure_promise.py adult --clients 5 --seeds 20
    python scripts/measure_promise.py acs --data FOLDER --rows 1125 --seeds 100 --ways jointly
    python scripts/measure_promise.py benefits.parquet --label ui --sensitive sex --client state

Each client is measured as `train` does: on the pool of held-out rows where that is the default, or
on its own. z is the gap less the target, where the target is for the posterior mean, divided by the
standard deviation of both the posterior and the test; it has mean 0 and standard deviation 1 if the
posterior is right.
"""

import argparse
import warnings

import numpy as np
import pandas as pd
import torch

import pfedfair as pff

TARGET = 0.05
WAYS = {
    "estimate": {"confidence": 0.0},
    "confidence": {},
    "jointly": {"jointly": True},
    "jointly at any cost": {"jointly": True, "max_cost": 1.0},
    "random draws": {"max_randomised": 1.0},
}


def measure(run: pff.Run) -> pd.DataFrame:
    """Return the run's results, and what its rules say of themselves."""
    rules, table = run.rules(), run.table()
    gap = table["npr_s0"] - table["npr_s1"]
    variance = sum(table[f"npr_s{z}"] * (1 - table[f"npr_s{z}"]) / table[f"n_test_s{z}"]
                   for z in (0, 1))  # fmt: skip
    sd = np.sqrt((rules["known_to"] / 1.96) ** 2 + variance)
    return table.assign(
        z=(gap * np.sign(gap.mean()) - TARGET) / sd,
        within=table["ddp"] <= TARGET,
        too_small=rules["too_small"],
        cost=rules["cost"],
    )


def words(way: str, found: pd.DataFrame) -> str:
    """Describe all seeds of one way."""
    seeds = found.groupby("seed")
    z = found["z"][np.isfinite(found["z"])]
    calibrated = f"; z {z.mean():+.2f}, sd {z.std():.2f}" if way == "estimate" else ""
    able = found["within"][found["too_small"] == 0]
    return (
        f"{way}: accuracy {100 * found['accuracy'].mean():.1f}, worst client "
        f"{100 * seeds['accuracy'].min().mean():.1f}; within {TARGET}: "
        f"{found['within'].mean():.1%} of clients, {able.mean():.1%} of those not too small, "
        f"all of them in {seeds['within'].all().mean():.0%} of {len(seeds)} seeds; worst gap "
        f"{seeds['ddp'].max().mean():.3f}; randomised decisions {found['randomised'].mean():.1%}, "
        f"at most {found['randomised'].max():.1%}; too small {found['too_small'].mean():.0%}; one "
        f"decision for all {found['collapsed'].mean():.0%}{calibrated}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    for name in ("folder", "label", "sensitive", "client"):
        parser.add_argument("--data" if name == "folder" else f"--{name}", dest=name)
    for name in ("clients", "rows"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--ways", default=",".join(WAYS))
    asked = parser.parse_args()
    given = {k: v for k in ("folder", "label", "sensitive") if (v := getattr(asked, k))}
    data = pff.load(asked.data, model="additive", **given)
    column = asked.client or data.client
    if column:
        plan = pff.partition.by_column(column, rows=asked.rows, min_rows=1)
    else:
        plan = pff.partition.fixed_shares(asked.clients)
    found: dict[str, list[pd.DataFrame]] = {way: [] for way in asked.ways.split(",")}
    for seed in range(asked.seeds):
        federation = data.federate(plan, seed)
        run = pff.train(federation, "transport", seed=seed, target_ddp=TARGET, confidence=0.0)
        for way, tables in found.items():
            changes = {"confidence": 0.95, **WAYS[way]}
            tables.append(measure(run.retarget(**changes)).assign(seed=seed))
    for way, tables in found.items():
        print(words(way, pd.concat(tables)), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main()
