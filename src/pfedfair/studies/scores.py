"""The trade-off of every method in one table: Adult with 5, 20 and 50 clients, COMPAS with 5.

Not in the paper, which judges its method's trade-off as the best from the plotted curves.
"""

from collections.abc import Sequence
from functools import partial

import pandas as pd

from pfedfair.experiments import FRONTIER
from pfedfair.partition import fixed_shares
from pfedfair.studies import parts, summary, tradeoff, words
from pfedfair.studies.rows import WITH_TARGET, of_clients
from pfedfair.studies.study import Cell, Study, cells_of
from pfedfair.studies.view import Column, Picture, Table

REFERENCE = "pfedfair"  # the method whose trade-off the paper calls the best
ETAS = (0.0, 0.6, 0.9, 0.97)
FEWER_ETAS = (0.0, 0.9, 0.97)
# Numbers of clients (None: the paper's five) and the etas to try there.
SETTINGS: dict[str, dict[int | None, tuple[float, ...]]] = {
    "adult": {None: ETAS, 20: FEWER_ETAS, 50: FEWER_ETAS},
    "compas": {None: ETAS},
}
SETTINGS |= {f"{name}-additive": etas for name, etas in SETTINGS.items()}
VALIDATION = 0.2
AREA = Column("area ↓", lambda row: words.percent(row["area"], row["area_half"]).replace(" ", "\n"))


def cells(dataset: str) -> list[Cell]:
    """Return all methods for clients, each measured on validation rows and on held-out rows."""
    rows = (*of_clients(), *WITH_TARGET, FRONTIER)
    return [
        cell
        for n, etas in SETTINGS[dataset].items()
        for cell in cells_of(rows, fixed_shares(n, validation=VALIDATION), n, etas, True)
    ]


def legend(gap: str) -> tuple[str, ...]:
    """Return the legend of the table."""
    name = gap.upper()
    return (
        f"area: the worst client's error in percent, mean over limits on its {name} from 0 to "
        f"{tradeoff.WIDTH:g}; lower is better (↓).",
        f"difference to {REFERENCE}: of the areas, seed by seed, with its 95 % interval. (The line "
        "that judges them all widens the intervals for their number.)",
        f"{name} ≤ c: the worst client's accuracy in percent (higher is better) at the point of "
        "the curve that the validation rows choose for that limit; below it the worst "
        f"{name} that was reached.",
        *parts.measures(gap),
        words.HALF_WIDTH,
    )


def over_methods(results: pd.DataFrame) -> pd.DataFrame:
    """Return trade-off scores over seeds of a data set and partition, the least area first.

    ``less`` is the area less pFedFair's, ``more_C`` the accuracy at the limit C less pFedFair's,
    paired by seed; NaN if pFedFair is not among the methods.
    """
    each = tradeoff.scores(results)
    compared = {"area": "less"} | {f"accuracy_{c:g}": f"more_{c:g}" for c in tradeoff.LIMITS}
    reference = each.loc[each["method"] == REFERENCE, ["seed", *compared]]
    each = each.merge(reference, on="seed", how="left", suffixes=("", "_reference"))
    for measure, difference in compared.items():
        each[difference] = each[measure] - each.pop(f"{measure}_reference")
    measures = [c for c in each.columns if c not in tradeoff.CURVE]
    found = summary.over_seeds(each, ["dataset", "partition", "method"], measures)
    return found.sort_values("area", kind="stable", ignore_index=True)


def at_limits(gap: str) -> tuple[Column, ...]:
    """Return columns of the worst client's accuracy and gap at each limit."""

    def at(limit: float, row: pd.Series) -> str:
        return "\n".join(
            words.measure(row, f"{name}_{limit:g}", half=True) for name in ("accuracy", gap)
        )

    return tuple(Column(f"{gap.upper()} ≤ {c:g}", partial(at, c)) for c in tradeoff.LIMITS)


def score_table(part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    """Return methods against their trade-off scores, the best first."""
    scored = over_methods(part)
    return Table(
        frame=scored,
        columns=(
            Column("method", "{method}"),
            AREA,
            parts.difference(REFERENCE, "less"),
            *at_limits(summary.gap_of(part)),
        ),
        lines_heading="Result:",
        lines=(verdict(scored),),
    )


def verdict(rows: pd.DataFrame) -> str:
    """Return whether pFedFair has the best trade-off.

    Intervals are widened for the number of rivals (Bonferroni).
    """
    from scipy.stats import t  # takes long to load

    if REFERENCE not in set(rows["method"]):
        return "The method with the least area comes first."
    rows = rows[~rows["method"].isin([REFERENCE, FRONTIER])]
    freedom = rows["seeds"] - 1  # degrees of freedom
    half = rows["less_half"] * t.ppf(1 - 0.025 / len(rows), freedom) / t.ppf(0.975, freedom)
    better = list(rows.loc[rows["less"] + half < 0, "method"])
    worse = list(rows.loc[rows["less"] - half > 0, "method"])
    alike = [m for m in rows["method"] if m not in better + worse]
    named = "; ".join(
        f"{what}: {', '.join(names)}"
        for what, names in (("better", better), ("no clear difference", alike), ("worse", worse))
        if names
    )
    claim = f"{REFERENCE} has the best trade-off (area). {named[:1].upper()}{named[1:]}."
    return f"{parts.word(not better and not alike, bool(better), 'not clear')}: {claim}"


def files(
    results: pd.DataFrame, rows: pd.DataFrame, tables: Sequence[Table]
) -> dict[str, pd.DataFrame]:
    """Return the scores, and every point of every curve: the worst client's gap and accuracy."""
    scored = pd.concat([table.frame for table in tables], ignore_index=True)
    keys = ["dataset", "partition"]
    clients = results.groupby(keys)["client"].nunique().rename("clients")
    shown = [name for name in map(str, rows) if name.startswith("worst_")]
    points = rows.merge(clients, left_on=keys, right_index=True, how="left")
    points = points[["dataset", "clients", "method", "level", *shown, "seeds"]]
    return {"scores.csv": scored, "points.csv": points}


def pictures(results: pd.DataFrame, rows: pd.DataFrame) -> list[Picture]:
    """Return the worst client's trade-off, a picture for each data set and partition."""
    settings = list(summary.parts(results))
    number = len(settings)
    names = [f"scores-{k}" for k in range(1, number + 1)] if number > 1 else ["scores"]
    named = zip(names, settings, strict=True)
    return [parts.trade_off(name, part, rows, ("worst",)) for name, part in named]


STUDY = Study(
    title="Trade-off scores of all methods",
    cells=cells,
    table=score_table,
    datasets=("adult", "compas", "adult-additive", "compas-additive"),
    pictures=pictures,
    files=files,
    legend=legend,
    in_paper=False,
)
