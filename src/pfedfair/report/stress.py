"""The table of clients whose people differ: is the target kept, and at what price?"""

from __future__ import annotations

import json

import pandas as pd
from rich.table import Table

from pfedfair import metrics
from pfedfair.paper.stress import OWN, TARGET
from pfedfair.report import tables

LEGEND = (
    "mean, worst: over clients, of accuracy in percent (↑) and DDP (↓) on each client's own test "
    "rows.",
    f"within: clients with both groups in the test whose DDP is at most {TARGET:g} there; not "
    "above: whose 95 % interval allows that (small clients' always do).",
    "± : half of the 95 % interval of the mean over seeds (Student t).",
)


def runs(results: pd.DataFrame) -> pd.DataFrame:
    """One row per run: what `metrics.over_clients` says, and the part of clients that kept."""
    each = metrics.over_clients(results)
    known = results[results["ddp"].notna()]
    keys = [*metrics.RUN, "seed"]
    known = known.assign(within=known["ddp"] <= TARGET, kept=known["ddp_low"] <= TARGET)
    shares = known.groupby(keys, sort=False)[["within", "kept"]].mean()
    return each.merge(shares.reset_index(), on=keys)


def grid(results: pd.DataFrame, title: str) -> Table:
    """Lay methods against accuracy, DDP and how many clients kept the target."""
    measures = ["mean_accuracy", "mean_ddp", "worst_ddp", "within", "kept"]
    table = tables.grid(title)
    for heading in (
        "method",
        "level",
        "mean\naccuracy % ↑",
        "mean\nDDP ↓",
        "worst\nDDP ↓",
        "within ↑",
        "not\nabove ↑",
    ):
        table.add_column(heading, no_wrap=True)
    for _, row in tables.over_seeds(runs(results), metrics.RUN, measures).iterrows():
        table.add_row(
            row["method"],
            tables.level(row["method"], row["config"]),
            tables.accuracy(row["mean_accuracy"], row["mean_accuracy_half"]),
            *(tables.ddp(row[m], row[f"{m}_half"]) for m in ("mean_ddp", "worst_ddp")),
            f"{100 * row['within']:.0f} %",
            f"{100 * row['kept']:.0f} %",
        )
    return table


def verdict(results: pd.DataFrame) -> str:
    """Say whether leaning on others costs accuracy against a rule from own people only."""
    part = runs(results[results["method"] == "transport"])
    about = part["config"].map(json.loads)
    usual = part[[a["kappa"] is None and a["confidence"] is None for a in about]]
    own = part[[a["kappa"] == OWN for a in about]]
    pair = usual.merge(own, on="seed", suffixes=("", "_own"), validate="one_to_one")
    mean, low, high = metrics.mean_interval(
        (pair["mean_accuracy"] - pair["mean_accuracy_own"]).to_numpy()
    )
    return (
        f"transport less transport with own people only, mean accuracy: {100 * mean:+.2f} points "
        f"[{100 * low:+.2f}, {100 * high:+.2f}]"
    )
