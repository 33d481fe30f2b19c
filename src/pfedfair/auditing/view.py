"""The view of an audit: tables of groups, clients and pairs, and sentences on them."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from pfedfair.metrics.criteria import MEASURES
from pfedfair.metrics.intervals import FEWEST
from pfedfair.studies import words
from pfedfair.studies.view import Column, Table, View

SHOWN = 15  # clients on a screen
FAIR_RATIO = 0.8
CONCLUSIONS = "What the intervals show:"
ROWS = Column("rows", "{accuracy_people}")
HEADS = {
    "label_rate": "label\nrate",
    "selection_rate": "selected",
    "accuracy": "accuracy % ↑",
    "balanced_accuracy": "balanced\naccuracy % ↑",
    "true_positive_rate": "TPR",
    "false_positive_rate": "FPR",
    "ddp": "DDP ↓",
    "ratio": "ratio ↑",
    "eo": "EO ↓",
    "eopp": "EOPP ↓",
    **{f"{name}_floor": f"{name.upper()}\nby chance" for name in MEASURES},
    "auc": "AUC ↑",
    "calibration": "score less\nlabel rate",
}
OF_GROUPS = (
    "label_rate", "selection_rate", "accuracy", "true_positive_rate", "false_positive_rate", "auc",
    "calibration",
)  # fmt: skip
OF_ALL = (
    "accuracy", "balanced_accuracy", "selection_rate", "ddp", "ddp_floor", "ratio", "eo",
    "eo_floor", "eopp", "eopp_floor", "auc", "calibration",
)  # fmt: skip
LEGEND = (
    "selected: the rate of positive decisions. TPR, FPR: the same among rows with the positive "
    "label, and among all other rows. label rate: the rate of the positive label.",
    "ratio: the lowest rate of positive decisions of a group over the highest; the 80 % rule asks "
    f"for {FAIR_RATIO:g} or more.",
    "balanced accuracy: the mean over labels of the share of right decisions.",
    f"{words.TOO_FEW}: fewer than {FEWEST} rows are behind the number; audit.parquet has it.",
)
OF_FLOORS = (
    "by chance: the largest gap to expect with so many groups and rows if all groups had the same "
    "rates (the noise floor).",
)
OF_SCORES = (
    "AUC: how often a row with the positive label has a higher score than one without; 0.5 is "
    "chance. score less label rate: above 0 if scores are too high.",
)


def view(
    frame: pd.DataFrame,
    calibration: pd.DataFrame,
    notes: Sequence[str],
    positive: str,
    columns: Mapping[str, Any],
) -> View:
    """Return tables of groups, of all rows, of clients, and of two columns in pairs."""
    first = frame[frame["prediction"].isin([columns["prediction"], columns["score"]])]
    overall = wide(first[first["client"] == ""])
    by_group, total = overall[overall["group"] != ""], overall[overall["group"] == ""]
    what = f"{columns['prediction']}, by {' x '.join(columns['sensitive'])}"
    groups = Table(
        heading=f"{what}: every group",
        frame=by_group,
        columns=(Column("group", "{group}"), ROWS, *_columns(by_group, OF_GROUPS)),
    )
    all_groups = Table(
        heading="All groups together",
        frame=total,
        columns=(ROWS, *_columns(total, OF_ALL)),
        lines_heading=CONCLUSIONS,
        lines=verdicts(total.iloc[0]),
    )
    tables = [groups, all_groups]
    if columns["client"]:
        tables += clients(wide(first[(first["client"] != "") & (first["group"] == "")]))
    legend = [f"In brackets: 95 % interval. Positive is {positive}."]
    if columns["against"]:
        tables.append(pairs(frame, columns))
        legend.append("difference: the second column less the first, row by row.")
    if len(calibration):
        tables.append(tenths(calibration))
    legend += [*LEGEND, *(OF_SCORES if columns["score"] else ())]
    legend += OF_FLOORS if "ddp_floor" in total else ()
    legend += [measure.words for measure in MEASURES.values()]
    shown = View(title="Audit", tables=tuple(tables), legend=tuple(legend))
    return shown.noting(notes)


def wide(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each client and group: each measure's value, interval and number of rows."""
    parts = {"": "value", "_low": "low", "_high": "high", "_people": "people"}
    keys = frame[["client", "group"]].drop_duplicates()
    index = pd.MultiIndex.from_frame(keys)
    found = {
        f"{measure}{end}": part.set_index(["client", "group"])[column].reindex(index)
        for measure, part in frame.groupby("measure", sort=False)
        for end, column in parts.items()
    }
    return pd.DataFrame(found, index=index).reset_index()


def _columns(frame: pd.DataFrame, measures: Sequence[str]) -> list[Column]:
    return [
        Column(HEADS[name], partial(FORMS.get(name, words.interval), name=name))
        for name in measures
        if name in frame
    ]


def signed(row: pd.Series, name: str) -> str:
    """Return a difference with its sign and interval, or that there are too few rows."""
    if words.is_few(row, f"{name}_people"):
        return words.TOO_FEW
    value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    return "n/a" if value != value else f"{value:+.3f} [{low:+.3f}, {high:+.3f}]"


def floor(row: pd.Series, name: str) -> str:
    """Return a noise floor."""
    return words.rate(row[name])


FORMS = {"calibration": signed} | dict.fromkeys((f"{name}_floor" for name in MEASURES), floor)


def by_chance(row: pd.Series, name: str) -> str:
    """Return the noise floor of a largest gap in words, if it has one."""
    value = row.get(f"{name}_floor", words.NAN)
    return f"; without any, {words.rate(value)} is expected by chance" if value == value else ""


def verdicts(row: pd.Series) -> tuple[str, ...]:
    """Return the conclusions from the intervals over all groups."""
    lines = []
    for name in MEASURES:
        value = row[name]
        if value != value:
            lines.append(f"{name.upper()} cannot be measured: it takes rows of two groups.")
        elif words.is_few(row, f"{name}_people"):
            lines.append(f"{name.upper()}: {words.TOO_FEW}.")
        elif row[f"{name}_low"] > 0:
            gap = words.interval(row, name)
            lines.append(f"{name.upper()}: there clearly is a gap, {gap}{by_chance(row, name)}.")
        else:
            lines.append(
                f"{name.upper()}: these rows do not show whether there is a gap; it may "
                f"be as large as {words.rate(row[f'{name}_high'])}{by_chance(row, name)}."
            )
    ratio = row["ratio"]
    if ratio == ratio and not words.is_few(row, "ratio_people"):
        clear = row["ratio_high"] < FAIR_RATIO or row["ratio_low"] >= FAIR_RATIO
        outcome = "kept" if ratio >= FAIR_RATIO else "broken"
        verdict = f"clearly {outcome}" if clear else f"{outcome}, but not clearly so"
        lines.append(f"The 80 % rule is {verdict}: {words.interval(row, 'ratio')}.")
    return tuple(lines)


def clients(frame: pd.DataFrame) -> list[Table]:
    """Return a table of all clients; of many, first those with the largest lower ends of DDP."""
    columns = (Column("client", "{client}"), ROWS, *_columns(frame, OF_ALL))
    many = len(frame) > SHOWN
    heading = f"{len(frame)} clients"
    tables = [Table(heading=heading, frame=frame, columns=columns, detail=many)]
    if many:
        worst = frame.sort_values("ddp_low", ascending=False, kind="stable").head(SHOWN)
        heading += f": the {SHOWN} with the largest lower end of DDP; the others are in audit.md"
        tables.insert(0, Table(heading=heading, frame=worst, columns=columns))
    return tables


def pairs(frame: pd.DataFrame, columns: Mapping[str, Any]) -> Table:
    """Return a table of the measures of two columns of decisions over all rows, and differences."""
    first, second = columns["prediction"], columns["against"]
    here = frame[frame["client"] == ""]
    rows = []
    for row in here[here["prediction"] == f"{second} - {first}"].itertuples():
        own = here[(here["group"] == row.group) & (here["measure"] == row.measure)]
        value = own.set_index("prediction")["value"]
        rows.append({
            "group": row.group or "all", "measure": row.measure, "people": row.people,
            "first": value[first], "second": value[second], "difference": row.value,
            "difference_low": row.low, "difference_high": row.high, "difference_people": row.people,
        })  # fmt: skip
    headings = HEADS | {"accuracy": "accuracy"} | {name: name.upper() for name in MEASURES}
    return Table(
        heading=f"{second} against {first}",
        frame=pd.DataFrame(rows),
        columns=(
            Column("group", "{group}"),
            Column("measure", lambda row: headings[row["measure"]]),
            Column(words.narrow(first, 20), lambda row: words.rate(row["first"])),
            Column(words.narrow(second, 20), lambda row: words.rate(row["second"])),
            Column("difference", partial(signed, name="difference")),
        ),
        keys=2,
        lines_heading=CONCLUSIONS,
        lines=tuple(_verdict(row, headings) for row in rows if row["group"] == "all"),
    )


def _verdict(row: Mapping[str, Any], headings: Mapping[str, str]) -> str:
    what, low, high = headings[row["measure"]], row["difference_low"], row["difference_high"]
    if row["difference"] != row["difference"]:
        return f"{what}: cannot be compared."
    if 0 < row["people"] < FEWEST:
        return f"{what}: {words.TOO_FEW}."
    if low > 0 or high < 0:
        return f"{what}: clearly {'higher' if low > 0 else 'lower'} in the second column."
    return f"{what}: no clear difference."


def tenths(calibration: pd.DataFrame) -> Table:
    """Return a table of the positive label's rate and the mean score, by tenths of the scores."""

    def cell(row: pd.Series) -> str:
        if row["people"] < FEWEST:
            return words.TOO_FEW
        low, high = words.rate(row["low"]), words.rate(row["high"])
        return f"{words.rate(row['label_rate'])} [{low}, {high}]"

    columns = (
        Column("group", "{group}"),
        Column("rows", "{people}"),
        Column("mean score", lambda row: words.rate(row["score"])),
        Column("label rate", cell),
    )
    heading = "Calibration: every group in tenths of all scores"
    return Table(heading=heading, frame=calibration, columns=columns, detail=True)
