"""The table of targets: what was asked for, what every client got, and what it cost."""

from __future__ import annotations

import json

import pandas as pd
from rich.table import Table
from rich.text import Text

from pfedfair import metrics
from pfedfair.report import tables
from pfedfair.tradeoff import choose

SLACK = 0.015  # what a target may be exceeded by, at the worst client and on average over seeds
REFERENCE = "pfedfair"
LEGEND = (
    "worst DDP (↓): of the client with the largest; within: clients whose DDP is at most the "
    "target.",
    "worst, mean accuracy: of the clients, in percent (↑).",
    f"more than {REFERENCE}: the worst client's accuracy less {REFERENCE}'s at the same worst DDP, "
    "in points, with its 95 % interval over seeds. Its eta is chosen on the held-out rows "
    "themselves, which favours it.",
    "± : half of the 95 % interval of the mean over seeds (Student t).",
)


def runs(results: pd.DataFrame) -> pd.DataFrame:
    """One row per run with a target: what its clients got, and the difference to pFedFair."""
    each = metrics.over_clients(results)
    about = each["config"].map(json.loads)
    each["target"] = [a.get("target_ddp") for a in about]
    each["confidence"] = [a.get("confidence") for a in about]
    keys = [*metrics.RUN, "seed"]
    target = pd.Series(
        [json.loads(config).get("target_ddp", float("nan")) for config in results["config"]],
        index=results.index,
    )
    within = results.assign(within=results["ddp"] <= target).groupby(keys, sort=False)["within"]
    each = each.merge(within.mean().reset_index(), on=keys)
    curves = {
        seed: part.sort_values("eta")
        for seed, part in each[each["method"].isin([REFERENCE, "constant"])].groupby("seed")
    }
    asked = each[each["target"].notna()].copy()
    asked["more"] = [
        row["worst_accuracy"] - _at(curves[row["seed"]], row["worst_ddp"])
        for _, row in asked.iterrows()
    ]
    return asked


def _at(curve: pd.DataFrame, limit: float) -> float:
    """The best worst-client accuracy on a curve, which ends in the constant, within a limit."""
    constant = curve["method"] == "constant"
    points = pd.concat([curve[~constant], curve[constant]])
    accuracy = points["worst_accuracy"].to_numpy()
    best = choose(1 - accuracy, points["worst_ddp"].to_numpy(), limit)
    return best.at(accuracy) if best else float("nan")


def summary(results: pd.DataFrame) -> pd.DataFrame:
    """Over seeds, a row per method and target."""
    measures = ["worst_ddp", "within", "worst_accuracy", "mean_accuracy", "more"]
    keys = [*metrics.RUN, "target", "confidence"]
    return tables.over_seeds(runs(results), keys, measures)


def grid(results: pd.DataFrame, title: str) -> Table:
    """Lay methods and targets against what came of them."""
    table = tables.grid(title)
    for heading in (
        "method",
        "target",
        "worst\nDDP ↓",
        "within\n↑",
        "worst\naccuracy",
        "mean\naccuracy",
        f"more than\n{REFERENCE}",
    ):
        table.add_column(heading, no_wrap=True)
    for _, row in summary(results).iterrows():
        cells = (cell.replace(" ±", "\n±").replace(" [", "\n[") for cell in _cells(row))
        table.add_row(*(Text(cell.replace(", ", "\n", 1) if k == 1 else cell)
                        for k, cell in enumerate(cells)))  # fmt: skip
    return table


def _cells(row: pd.Series) -> list[str]:
    sure = f", {row['confidence']:.0%}" if row["confidence"] == row["confidence"] else ""
    low, high = (100 * (row["more"] + sign * row["more_half"]) for sign in (-1, 1))
    return [
        row["method"],
        f"{row['target']:g}{sure}",
        tables.ddp(row["worst_ddp"], row["worst_ddp_half"]).replace("0.", "."),
        f"{100 * row['within']:.0f} %",
        tables.accuracy(row["worst_accuracy"], row["worst_accuracy_half"]),
        tables.accuracy(row["mean_accuracy"], row["mean_accuracy_half"]),
        f"{100 * row['more']:+.1f} [{low:+.1f}, {high:+.1f}]",
    ]


def verdict(results: pd.DataFrame) -> str:
    """Say whether transport kept its targets, and whether it is as accurate as pFedFair."""
    rows = summary(results)
    rows = rows[(rows["method"] == "transport") & rows["confidence"].isna()]
    over = rows["worst_ddp"] - rows["target"]
    kept = "holds" if (over <= SLACK).all() else "does not hold"
    lines = [
        f"{kept:>13}: transport's worst DDP is at most the target + {SLACK:g}: "
        + ", ".join(f"{o:+.3f} at {t:g}" for o, t in zip(over, rows["target"], strict=True))
    ]
    for _, row in rows.iterrows():
        low, high = row["more"] - row["more_half"], row["more"] + row["more_half"]
        word = "holds" if low > 0 else "does not hold" if high < 0 else "open"
        lines.append(
            f"{word:>13}: transport is more accurate than {REFERENCE} at equal DDP, target "
            f"{row['target']:g}: {100 * row['more']:+.1f} points [{100 * low:+.1f}, "
            f"{100 * high:+.1f}]"
        )
    return "\n".join(lines)


def markdown(results: pd.DataFrame) -> str:
    """Write the tables as Markdown, one for each data set and partition."""
    text = []
    columns = ["method", "target", "worst DDP ↓", "within ↑", "worst accuracy % ↑",
               "mean accuracy % ↑", f"more than {REFERENCE}"]  # fmt: skip
    for _, part in results.groupby(["dataset", "partition"], sort=False):
        text += [f"## {tables.heading(part)}", ""]
        text += [f"- {line.strip()}" for line in verdict(part).split("\n")]
        text += ["", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
        text += ["| " + " | ".join(_cells(row)) + " |" for _, row in summary(part).iterrows()]
        text.append("")
    return "\n".join([*text, *(f"- {line}" for line in LEGEND)]) + "\n"
