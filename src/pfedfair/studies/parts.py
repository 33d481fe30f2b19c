"""What the views of several studies are put together from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import pandas as pd

from pfedfair.criteria import MEASURES
from pfedfair.experiment import FRONTIER
from pfedfair.studies import summary, words
from pfedfair.studies.rows import CONSTANT
from pfedfair.studies.view import Column, Picture, Table, View

Claim = tuple[str, str, str]  # a method, a rival, a measure in which the method is better
HEADINGS = {
    "underrepresented": "under-rep.\nclients",
    "overrepresented": "over-rep.\nclients",
    "worst": "worst of\nclients",
    "joint_worst": "worst\nin both",
    "mean": "mean of\nclients",
}
CLAIMS = (
    "What the paper claims, on these results (methods are compared seed by seed; in brackets the "
    "95 % interval of the difference):"
)
BEST = "best thresholds on FedAvg's scores"


def view(
    title: str,
    results: pd.DataFrame,
    tables: Iterable[Table],
    pictures: Iterable[Picture] = (),
    legend: Iterable[str] | None = None,
    rows: pd.DataFrame | None = None,
    files: dict[str, pd.DataFrame] | None = None,
) -> View:
    """A view with what all have: the summary `rows` and every client's numbers as files too."""
    held = summary.held_out(results)
    gap = summary.gap_of(results)
    clients = summary.by_client(held[held["method"] != FRONTIER])
    rows = summary.summary(held) if rows is None else rows
    kept = {"summary.csv": rows, "clients.csv": clients}
    kept = {name: frame.drop(columns=["model", "level"]) for name, frame in kept.items()}
    detail = [client_table(part, gap) for part in summary.parts(clients)]
    return View(
        title=title,
        tables=(*tables, *detail),
        pictures=tuple(pictures),
        legend=usual_legend(gap) if legend is None else tuple(legend),
        notes=collapsed(results),
        files=kept | (files or {}),
    )


def rows_of(rows: pd.DataFrame, part: pd.DataFrame) -> pd.DataFrame:
    """The rows of a summary that are about one data set and partition."""
    keys = ["dataset", "partition"]
    return rows[(rows[keys] == part[keys].iloc[0]).all(axis=1)]


def usual_legend(gap: str) -> tuple[str, ...]:
    """What the numbers of `summary_table` are."""
    return (words.ACCURACY, MEASURES[gap].words, *words.WHO, words.SURE)


def collapsed(results: pd.DataFrame) -> tuple[str, ...]:
    """Which methods have models that predict one class for everybody."""
    gone = results[results["collapsed"] & (results["method"] != CONSTANT)]
    where = gone.groupby(["dataset", "method"]).size().reset_index(name="n")
    each = ", ".join(f"{row.method} on {row.dataset} ({row.n})" for row in where.itertuples())
    return (f"models that predict one class for everybody: {each}.",) if each else ()


# --- tables ---------------------------------------------------------------------------------------


def method_columns(label: Callable[[pd.Series], str] | None = None) -> tuple[Column, Column]:
    """The columns that say which method a row is of, and where on its curve."""
    return (
        Column("method", label or (lambda row: words.narrow(row["method"]))),
        Column("eta or\nlimit", lambda row: words.narrow(row["level"], 7)),
    )


def measured(
    heading: str, name: str, say: Callable[[float, float], str], between: str = " "
) -> Column:
    """A column of a measure and its half-width over seeds."""

    def cell(row: pd.Series) -> str:
        return say(row[name], row[f"{name}_half"]).replace(" ", between)

    return Column(heading, cell)


def summary_table(
    part: pd.DataFrame,
    rows: pd.DataFrame,
    printed: pd.DataFrame | None = None,
    claims: Sequence[Claim] = (),
    label: Callable[[pd.Series], str] | None = None,
) -> Table:
    """Methods against kinds of client; the paper's figures, if any, below ours.

    `rows` are the rows of `summary.summary` of the results `part`.
    """
    gap = summary.gap_of(part)
    if printed is not None:
        rows = rows.merge(printed, on="method", how="left", suffixes=("", "_printed"))

    def cell(who: str, row: pd.Series) -> str:
        right, wrong = f"{who}_accuracy", f"{who}_{gap}"
        ours = words.percent(row[right], row[f"{right}_half"])
        text = f"{ours}\n{words.rate(row[wrong], row[f'{wrong}_half'])}"
        paper = row.get(f"{right}_printed", float("nan"))
        if paper == paper:
            text += f"\n{words.percent(paper)} {words.rate(row[f'{wrong}_printed'])}"
        return text

    def name(row: pd.Series) -> str:
        text = label(row) if label else words.narrow(row["method"])
        there = row.get("mean_accuracy_printed", float("nan"))
        return text + ("\n" * (2 - text.count("\n")) + " paper" if there == there else "")

    columns = [Column(HEADINGS[who], partial(cell, who)) for who in summary.WHO]
    return Table(
        heading=f"{words.heading(part)}: accuracy % ↑ and {gap.upper()} ↓",
        frame=rows,
        columns=(*method_columns(name), *columns),
        keys=2,
        lines_heading=CLAIMS if claims else "",
        lines=judged(part, claims),
    )


def client_table(rows: pd.DataFrame, gap: str) -> Table:
    """Every client's numbers, from `summary.by_client`."""
    columns = [
        Column("client", lambda row: str(row["client"])),
        Column("role", lambda r: r["role"]),
    ]
    columns.append(measured("accuracy % ↑", "accuracy", words.percent))
    for name, heading in ((gap, f"{gap.upper()} ↓"), ("npr_s0", "NPR S=0"), ("npr_s1", "NPR S=1")):
        columns.append(measured(heading, name, words.rate))
    where = f"{rows['dataset'].iloc[0]}, {rows['client'].nunique()} clients"
    return Table(
        heading=f"{where}: client by client (NPR: rate of negative predictions in a group)",
        frame=rows,
        columns=(*method_columns(), *columns),
        keys=3,
        detail=True,
    )


# --- claims ---------------------------------------------------------------------------------------


def judged(results: pd.DataFrame, claims: Sequence[Claim]) -> tuple[str, ...]:
    """Say of each claim whether it holds, every method at the fair end of its curve."""
    there = set(results["method"])
    claims = [claim for claim in claims if {claim[0], claim[1]} <= there]
    runs = summary.fairest(summary.over_clients(results)) if claims else results
    return tuple(verdict(runs, claim) for claim in claims)


def verdict(runs: pd.DataFrame, claim: Claim) -> str:
    """Say in one line whether a claim holds."""
    method, rival, measure = claim
    mean, low, high = summary.paired(runs, *claim)
    who, _, what = measure.rpartition("_")
    if what == "accuracy":
        numbers = f"{words.points(mean, low, high)} percentage points"
        return (
            f"{word(low > 0, high < 0)}: {method} has higher {who} accuracy than {rival}: {numbers}"
        )
    numbers = f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"
    said = f"{method} has lower {who} {what.upper()} than {rival}: {numbers}"
    return f"{word(high < 0, low > 0)}: {said}"


def word(good: bool, bad: bool, neither: str = "no clear difference") -> str:
    """What became of a claim."""
    return "holds" if good else "does not hold" if bad else neither


# --- pictures -------------------------------------------------------------------------------------


def trade_off(
    name: str,
    results: pd.DataFrame,
    rows: pd.DataFrame,
    who: Sequence[str] | None = None,
    marks: pd.DataFrame | None = None,
) -> Picture:
    """Error against gap, a curve over levels for each method, with intervals over seeds.

    A panel for each data set, partition and kind of client, or other `who`; there the constant
    classifier, which is far above the others, is a note in the corner. `marks` (dataset, role,
    method, x, y) are the paper's.
    """
    gap = summary.gap_of(results)
    there = set(results["role"])
    shown = [role for role in summary.ROLES if role in there] if who is None else who
    curves, dots, notes = [], [], []
    for part in summary.parts(results):
        here = rows_of(rows, part).sort_values("eta", kind="stable")
        for one in shown:
            x, y = f"{one}_{gap}", f"{one}_accuracy"
            title = f"{words.setting(part)}: {one}{'' if who is None else ' of clients'}"
            flat = here["method"] == CONSTANT
            if who is not None and flat.any():
                error = 100 * (1 - here.loc[flat, y].mean())
                text = f"constant classifier: {gap.upper()} 0, error {error:.1f} %"
                notes.append({"panel": title, "text": text})
            drawn = here if who is None else here[~flat]
            curves.append(pd.DataFrame({
                "panel": title,
                "method": drawn["method"],
                "label": drawn["method"].replace(FRONTIER, BEST),
                "mark": drawn["method"] == FRONTIER,
                "x": drawn[x], "x_half": drawn[f"{x}_half"].fillna(0),
                "y": 100 * (1 - drawn[y]), "y_half": 100 * drawn[f"{y}_half"].fillna(0),
            }))  # fmt: skip
            if marks is not None:
                same = (marks["dataset"] == part["dataset"].iloc[0]) & (marks["role"] == one)
                dots.append(marks[same].assign(panel=title))
    frames = {
        "curves": pd.concat(curves, ignore_index=True),
        "marks": pd.concat(dots) if dots else pd.DataFrame(columns=["panel", "method", "x", "y"]),
        "notes": pd.DataFrame(notes, columns=["panel", "text"]),
    }
    said = {"x": f"{gap.upper()} ↓", "y": "error % ↓"}
    if who is None:
        said["title"] = "Error and unfairness of every method (lower left is better)"
    across = len(shown) if who is None else 2
    return Picture(name=name, kind="curves", frames=frames, words=said, across=across)
