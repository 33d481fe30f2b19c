"""What the views of several studies are put together from."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from pfedfair.experiments import FRONTIER
from pfedfair.metrics.criteria import MEASURES
from pfedfair.metrics.intervals import FEWEST
from pfedfair.studies import summary, words
from pfedfair.studies.rows import BEST, CONSTANT
from pfedfair.studies.view import Column, Picture, Table

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
CAME_OUT = "What came out (seed by seed, in brackets the 95 % interval):"


def usual_legend(gap: str) -> tuple[str, ...]:
    """What the numbers of `summary_table` are."""
    return (words.ACCURACY, *measures(gap), *words.WHO, words.SURE)


def measures(gap: str) -> tuple[str, ...]:
    """What a gap is, and the frontier, which is there for DDP."""
    mark = f"{FRONTIER}: {BEST}, set on the held-out rows themselves: no method, but a mark."
    return (MEASURES[gap].words, mark) if gap == "ddp" else (MEASURES[gap].words,)


def collapsed(results: pd.DataFrame) -> tuple[str, ...]:
    """Which methods have models that predict one class for everybody, or for all held-out rows."""
    meant = results["method"] == CONSTANT
    later = results.get("one_decision", results["collapsed"]) & ~results["collapsed"]
    kinds = "models that predict one class for everybody", "the same on held-out rows only"
    lines = []
    for which, what in zip((results["collapsed"], later), kinds, strict=True):
        where = results[which & ~meant].groupby(["dataset", "method"]).size().reset_index(name="n")
        each = ", ".join(f"{row.method} on {row.dataset} ({row.n})" for row in where.itertuples())
        lines += [f"{what}: {each}."] if each else []
    return tuple(lines)


def few_people(results: pd.DataFrame) -> tuple[str, ...]:
    """Say for how many clients the gap is unknown, as a group has too few rows."""
    gap = summary.gap_of(results)
    people = results.get(f"{gap}_people", pd.Series(0, index=results.index))
    lines = []
    for part in summary.parts(results[people.between(1, FEWEST - 1)]):
        few, n = part["client"].nunique(), summary.rows_of(results, part)["client"].nunique()
        what = (
            f"{words.TOO_FEW} for the {gap.upper()} of {few} of {n} clients, {words.setting(part)}"
        )
        lines.append(f"{what}; in worst and mean they count all the same.")
    return tuple(lines)


def claims(what: str) -> list[Claim]:
    """What the paper claims about one of its tables or figures, from ``claims.csv``."""
    every = pd.read_csv(Path(__file__).with_name("claims.csv"), index_col="study")
    return list(every[every.index == what].itertuples(index=False, name=None))


def printed(what: str, dataset: str, clients: int = 5) -> pd.DataFrame:
    """The paper's accuracies (fractions) and DDPs, from ``printed.csv``, by method and client."""
    every = pd.read_csv(Path(__file__).with_name("printed.csv"), dtype={"who": str})
    every["accuracy"] /= 100
    keys = ["study", "dataset", "clients"]
    same = (every[keys] == [what, dataset, clients]).all(axis=1)
    return every[same].drop(columns=keys).set_index(["method", "who"])


def measured(heading: str, name: str, between: str = " ") -> Column:
    """A column of a measure and its half-width over seeds."""
    return Column(heading, lambda row: words.measure(row, name, half=True).replace(" ", between))


def difference(to: str, name: str) -> Column:
    """A column of differences to a method, of accuracies or errors, with their intervals."""

    def cell(row: pd.Series) -> str:
        mean, half = row[name], row[f"{name}_half"]
        if row["method"] == to or mean != mean:
            return "-"
        return words.points(mean, mean - half, mean + half, between="\n")

    return Column(f"difference\nto {to}", cell)


LEVEL = Column("eta or\nlimit", lambda row: words.narrow(row["level"], 7), between=" ")
METHOD_AND_LEVEL = (Column("method", lambda row: words.narrow(row["method"])), LEVEL)


def summary_table(part: pd.DataFrame, rows: pd.DataFrame, what: str = "") -> Table:
    """Methods against kinds of client; with the paper's figures and claims, if `what` has any.

    `rows` are the rows of `summary.summary` of the results `part`; they may have a `label`.
    """
    gap = summary.gap_of(part)
    paper = printed(what, part["dataset"].iloc[0], part["client"].nunique())

    def cell(who: str, row: pd.Series) -> str:
        text = "\n".join(
            words.measure(row, f"{who}_{name}", half=True) for name in ("accuracy", gap)
        )
        key = row["method"], who
        return text + (f"\n{words.both(paper.loc[key])}" if key in paper.index else "")

    def name(row: pd.Series) -> str:
        text = str(row.get("label", words.narrow(row["method"])))
        there = row["method"] in paper.index
        return text + ("\n" * (2 - text.count("\n")) + " paper" if there else "")

    columns = [Column(HEADINGS[who], partial(cell, who)) for who in summary.WHO]
    return Table(
        heading=f": accuracy % ↑ and {gap.upper()} ↓",
        frame=rows,
        columns=(Column("method", name), LEVEL, *columns),
        keys=2,
        lines_heading=CLAIMS,
        lines=judged(part, claims(what)),
    )


def client_table(rows: pd.DataFrame, gap: str) -> Table:
    """Every client's numbers, from `summary.by_client`."""

    def cell(row: pd.Series) -> str:
        few = words.few(row, f"{gap}_people")
        return words.TOO_FEW if few else words.measure(row, gap, half=True)

    columns = [measured("accuracy % ↑", "accuracy"), Column(f"{gap.upper()} ↓", cell)]
    columns += [measured(f"NPR S={z}", f"npr_s{z}") for z in (0, 1)]
    columns = [*METHOD_AND_LEVEL, Column("client", "{client}"), Column("role", "{role}"), *columns]
    where = f"{rows['dataset'].iloc[0]}, {rows['client'].nunique()} clients"
    heading = f"{where}: client by client (NPR: rate of negative predictions in a group)"
    return Table(heading=heading, frame=rows, columns=tuple(columns), keys=3, detail=True)


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
    is_single = low != low  # one seed has no interval
    good, bad, than = low > 0, high < 0, f"higher {who} accuracy"
    many = words.points(mean, low, high)
    numbers = f"{f'{100 * mean:+.1f}' if is_single else many} percentage points"
    if what != "accuracy":
        good, bad, than = bad, good, f"lower {who} {what.upper()}"
        numbers = f"{mean:+.3f}" + ("" if is_single else f" [{low:+.3f}, {high:+.3f}]")
    became = "one seed cannot tell" if is_single else word(good, bad)
    return f"{became}: {method} has {than} than {rival}: {numbers}"


def word(good: bool, bad: bool, neither: str = "no clear difference") -> str:
    """What became of a claim."""
    return "holds" if good else "does not hold" if bad else neither


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
    lines, notes, panels = [], [], {}
    for part in summary.parts(results):
        here = summary.rows_of(rows, part).sort_values("eta", kind="stable")
        flat = here["method"] == CONSTANT
        for one in shown:
            whose = "" if part["client"].nunique() == 1 else f": {one}"
            title = words.setting(part) + whose + (" of clients" if whose and who else "")
            panels[part["dataset"].iloc[0], one] = title
            if who is not None and flat.any():
                error = 100 * (1 - here.loc[flat, f"{one}_accuracy"].mean())
                text = f"constant classifier: {gap.upper()} 0, error {error:.1f} %"
                notes.append({"panel": title, "text": text})
            drawn = here if who is None else here[~flat]
            lines.append(curve(drawn, title, f"{one}_{gap}", f"{one}_accuracy"))
    labels = {"x": f"{gap.upper()} ↓", "y": "error % ↓"}
    if who is None:
        labels["title"] = "Error and unfairness of every method (lower left is better)"
    across = len(shown) if who is None else 2
    if marks is not None:
        marks = marks.assign(
            panel=[panels[key] for key in zip(marks["dataset"], marks["role"], strict=True)]
        )
    return curves_picture(name, lines, labels, marks, notes, across)


def by_role(results: pd.DataFrame, rows: pd.DataFrame) -> list[Picture]:
    """The trade-off of each kind of client, ``tradeoff.png``."""
    return [trade_off("tradeoff", results, rows)]


def curve(rows: pd.DataFrame, panel: str, x: str, y: str) -> pd.DataFrame:
    """The points of each method in a panel, errors in percent in the place of accuracies."""
    value, half = rows[y], rows[f"{y}_half"].fillna(0)
    if y.endswith("accuracy"):
        value, half = 100 * (1 - value), 100 * half
    return pd.DataFrame({
        "panel": panel,
        "method": rows["method"],
        "label": rows["method"].replace(FRONTIER, BEST),
        "mark": rows["method"] == FRONTIER,
        "x": rows[x], "x_half": rows.get(f"{x}_half", 0 * rows[x]).fillna(0),
        "y": value, "y_half": half,
    })  # fmt: skip


def curves_picture(
    name: str,
    curves: list[pd.DataFrame],
    labels: dict[str, str],
    marks: pd.DataFrame | None = None,
    notes: Sequence[dict[str, str]] = (),
    across: int = 2,
) -> Picture:
    """Curves, the paper's marks, and notes in the corners of panels."""
    frames = {
        "curves": pd.concat(curves, ignore_index=True),
        "marks": pd.DataFrame(marks, columns=["panel", "method", "x", "y"]),
        "notes": pd.DataFrame(notes, columns=["panel", "text"]),
    }
    return Picture(name=name, kind="curves", frames=frames, words=labels, across=across)
