"""The view of `compare`, and of `report` for any folder with results: what can be ranked, first."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pandas as pd

from pfedfair._util.errors import option
from pfedfair.experiments import FRONTIER
from pfedfair.studies import parts, ranking, scores, summary, words
from pfedfair.studies.ranking import ARM, Ranking
from pfedfair.studies.rows import CONSTANT
from pfedfair.studies.study import Study, main_result
from pfedfair.studies.view import Column, Table, View

APART = "Set apart:"
RANK = "same rank: no clear difference (95 %, seed by seed, all pairs together)."
BY_AREA = "area: the worst client's mean error in percent over limits, kept on validation rows."


def comparison(results: pd.DataFrame) -> View:
    """Return the answer, a table of what is ranked, one of all levels, and the trade-off picture.

    Levels are points of a curve where there are validation rows: methods have scores.
    """
    protocols = set(results["protocol"])
    if "validation" in protocols and len(protocols) > 1:
        return SCORED.view(results)
    view, held = UNSCORED.view(results), summary.held_out(results)
    rows, each = summary.summary(held), list(summary.parts(held))
    levels = [levels_table(part, summary.rows_of(rows, part)) for part in each]
    return replace(view, tables=(*view.tables[: len(each)], *levels, *view.tables[len(each) :]))


def answers(rank: Callable[[pd.DataFrame], Ranking], results: pd.DataFrame) -> tuple[str, ...]:
    """Return the answer on each data set and partition; of a single method, its main result."""
    lines = []
    each = list(summary.parts(results))
    for part in each:
        methods = set(part["method"]) - {CONSTANT, FRONTIER}
        single = main_result(part)[0] if len(methods) == 1 else ""
        line = single or rank(part).answer
        lines.append(f"{words.setting(part)}: {line}" if len(each) > 1 else line)
    return tuple(lines)


def limit_table(part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    """Return the methods at a limit on the gap, the most accurate first."""
    found, gap = ranking.by_limit(summary.held_out(part)), summary.gap_of(part)
    return Table(
        heading=f", {gap.upper()} ≤ {found.limit:g}",
        frame=found.frame.merge(rows, on=ARM, how="left"),
        columns=(
            *RANKED,
            parts.LEVEL,
            parts.measured("worst\naccuracy %", "worst_accuracy"),
            TO_THE_BEST,
            parts.measured(f"worst\n{gap.upper()}", f"worst_{gap}"),
        ),
        keys=2,
        lines_heading=APART,
        lines=found.apart,
    )


def score_table(part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    """Return the methods and their trade-off scores, the best first."""
    found = ranking.by_area(part)
    frame = scores.over_methods(part).drop(columns="less")
    frame = frame.merge(found.frame, on="method", how="left").sort_values(
        ["rank", "area"], kind="stable", ignore_index=True
    )
    return Table(
        frame=frame,
        columns=(*RANKED, scores.AREA, TO_THE_BEST, *scores.at_limits(summary.gap_of(part))),
        keys=2,
        lines_heading=APART,
        lines=found.apart + ((parts.BOUND,) if FRONTIER in set(frame["method"]) else ()),
    )


def levels_table(part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    """Return every level of every method in one line, the constant classifier last."""
    gap = summary.gap_of(part)
    last = rows["method"] == CONSTANT
    return Table(
        heading=f"{words.heading(part)}, every level",
        frame=pd.concat([rows[~last & (rows["method"] != FRONTIER)], rows[last]]),
        columns=(
            *parts.METHOD_AND_LEVEL,
            *(
                parts.measured(f"{kind}\n{heading}", f"{kind}_{name}")
                for kind in ("worst", "mean")
                for name, heading in (("accuracy", "accuracy"), (gap, gap.upper()))
            ),
        ),
        keys=2,
    )


def legend(gap: str, scored: bool) -> tuple[str, ...]:
    """Return what is needed to read the tables; docs/reading-numbers.md has the rest."""
    other = option("validation", 0.2)
    chosen = f"level: most accurate within the limit here; on other rows: {other}."
    of = f"lowest accuracy, largest gap ({gap.upper()}) of any client"
    return (RANK, BY_AREA if scored else chosen, f"worst: {of}; ±: 95 % over seeds.")


def _rank(row: pd.Series) -> str:
    return f"{row['rank']:.0f}" if row["rank"] == row["rank"] else "-"


def _to_the_best(row: pd.Series) -> str:
    if row["rank"] != row["rank"]:
        return "-"
    return words.points(row["less"], row["less_low"], row["less_high"]) if row["less"] else "best"


RANKED = (Column("rank", _rank), Column("method", lambda row: words.narrow(row["method"])))
TO_THE_BEST = Column("difference\nto the best", _to_the_best)
UNSCORED = Study(
    title="Comparison",
    table=limit_table,
    pictures=parts.by_role,
    legend=partial(legend, scored=False),
    answer=lambda results: answers(ranking.by_limit, summary.held_out(results)),
)
SCORED = Study(
    title="Trade-off scores",
    table=score_table,
    pictures=parts.by_role,
    files=scores.files,
    legend=partial(legend, scored=True),
    answer=partial(answers, ranking.by_area),
)
