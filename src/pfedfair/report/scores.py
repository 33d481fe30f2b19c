"""Tables of trade-off scores: which method has the best curve, and by how much."""

from __future__ import annotations

import pandas as pd
from rich.table import Table
from scipy.stats import t

from pfedfair import metrics, tradeoff
from pfedfair.experiment import FRONTIER
from pfedfair.report import tables

REFERENCE = "pfedfair"  # the method whose trade-off the paper calls the best


def legend(gap: str = "ddp") -> tuple[str, ...]:
    """What the numbers of the table are."""
    name = gap.upper()
    mark = "frontier: thresholds set on the held-out rows themselves. No method, but a mark."
    return (
        f"area: the worst client's error in percent, mean over limits on its {name} from 0 to 0.2; "
        "lower is better (↓).",
        f"less {REFERENCE}'s: the difference, paired by seed, with its 95 % interval. (The line "
        "that judges them all widens the intervals for their number.)",
        f"{name} ≤ c: the worst client's accuracy in percent (higher is better) at the point of "
        "the curve that the validation rows choose for that limit; below it the worst "
        f"{name} that was reached.",
        mark if gap == "ddp" else tables.GAP[gap],
    )


def summary(results: pd.DataFrame) -> pd.DataFrame:
    """Trade-off scores over seeds, a row per data set, partition and method, the least area first.

    ``less`` is the area less pFedFair's, ``more_C`` the accuracy at the limit C less pFedFair's,
    paired by seed; NaN if pFedFair is not among the methods.
    """
    runs = tradeoff.scores(results)
    split = ["dataset", "partition", "seed"]
    compared = {"area": "less"} | {f"accuracy_{c:g}": f"more_{c:g}" for c in tradeoff.LIMITS}
    theirs = runs.loc[runs["method"] == REFERENCE, [*split, *compared]]
    runs = runs.merge(theirs, on=split, how="left", suffixes=("", "_reference"))
    for measure, difference in compared.items():
        runs[difference] = runs[measure] - runs.pop(f"{measure}_reference")
    measures = [c for c in runs.columns if c not in tradeoff.CURVE]
    found = tables.over_seeds(runs, ["dataset", "partition", "method"], measures)
    place = found.groupby(["dataset", "partition"], sort=False).ngroup()
    order = found.assign(place=place).sort_values(["place", "area"], kind="stable").index
    return found.loc[order].reset_index(drop=True)


def grid(results: pd.DataFrame, title: str) -> Table:
    """Lay methods against their trade-off scores, the best first."""
    rows = summary(results)
    gap = metrics.gap_of(results)
    table = tables.grid(title)
    table.add_column("method", no_wrap=True)
    table.add_column("area ↓", no_wrap=True)
    table.add_column(f"less {REFERENCE}'s", no_wrap=True)
    for limit in tradeoff.LIMITS:
        table.add_column(f"{gap.upper()} ≤ {limit:g}", no_wrap=True)
    for _, row in rows.iterrows():
        table.add_row(row["method"], *(cell.replace("; ", "\n") for cell in _cells(row, gap)))
    return table


def _cells(row: pd.Series, gap: str) -> list[str]:
    cells = [f"{tables.accuracy(row['area'])}; ±{tables.accuracy(row['area_half'])}"]
    if row["method"] == REFERENCE or row["less"] != row["less"]:
        cells.append("-")
    else:
        low, high = (100 * (row["less"] + sign * row["less_half"]) for sign in (-1, 1))
        cells.append(f"{100 * row['less']:+.1f}; [{low:+.1f}, {high:+.1f}]")
    for limit in tradeoff.LIMITS:
        right, within = f"accuracy_{limit:g}", f"{gap}_{limit:g}"
        reached = tables.ddp(row[within], row[f"{within}_half"]).replace("0.", ".")
        cells.append(f"{tables.accuracy(row[right], row[f'{right}_half'])}; {reached}")
    return cells


def verdict(results: pd.DataFrame) -> str:
    """Say in a line or two whether pFedFair has the best trade-off on these results.

    With so many rivals one would be better by chance: intervals are widened for their number
    (Bonferroni).
    """
    rows = summary(results)
    if REFERENCE not in set(rows["method"]):
        return "The method with the least area comes first."
    rows = rows[~rows["method"].isin([REFERENCE, FRONTIER])]
    free = rows["seeds"] - 1  # degrees of freedom
    half = rows["less_half"] * t.ppf(1 - 0.025 / len(rows), free) / t.ppf(0.975, free)
    better = list(rows.loc[rows["less"] + half < 0, "method"])
    worse = list(rows.loc[rows["less"] - half > 0, "method"])
    alike = [m for m in rows["method"] if m not in better + worse]
    word = "does not hold" if better else "open" if alike else "holds"
    parts = [("better", better), ("not to be told apart", alike), ("worse", worse)]
    named = "; ".join(f"{what}: {', '.join(names)}" for what, names in parts if names)
    return f"{word:>13}: {REFERENCE} has the best trade-off (area). {named[:1].upper()}{named[1:]}."


def markdown(results: pd.DataFrame) -> str:
    """Write the scores as Markdown, a table for each data set and partition."""
    text = []
    gap = metrics.gap_of(results)
    for _, part in results.groupby(["dataset", "partition"], sort=False):
        limits = [f"{gap.upper()} ≤ {limit:g}" for limit in tradeoff.LIMITS]
        text += [f"## {tables.heading(part)}", "", verdict(part).strip(), ""]
        text += ["| " + " | ".join(["method", "area ↓", f"less {REFERENCE}'s", *limits]) + " |"]
        text += ["|" + "---|" * (3 + len(limits))]
        for _, row in summary(part).iterrows():
            cells = [cell.replace("; ", " / ") for cell in _cells(row, gap)]
            text.append("| " + " | ".join([f"`{row['method']}`", *cells]) + " |")
        text.append("")
    return "\n".join([*text, *(f"- {line}" for line in legend(gap))]) + "\n"


def points(results: pd.DataFrame) -> pd.DataFrame:
    """Every point of every curve over seeds, for pictures: the worst client's gap and accuracy."""
    shown = ("worst_accuracy", f"worst_{metrics.gap_of(results)}")
    runs = metrics.over_clients(results[results["protocol"] != "validation"])
    table = tables.over_seeds(runs, metrics.RUN, shown)
    settings = ["dataset", "partition"]
    clients = results.groupby(settings)["client"].nunique().rename("clients")
    table = table.merge(clients, left_on=settings, right_index=True, how="left")
    both = zip(table["method"], table["config"], strict=True)
    table["level"] = [tables.level(method, config) for method, config in both]
    measures = [f"{m}{end}" for m in shown for end in ("", "_half")]
    return table[["dataset", "clients", "method", "level", *measures, "seeds"]]
