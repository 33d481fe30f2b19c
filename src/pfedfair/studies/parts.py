"""Common parts of the views of studies: tables, pictures, legends, verdicts on claims."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from pfedfair.experiments import FRONTIER
from pfedfair.metrics.criteria import MEASURES
from pfedfair.metrics.intervals import FEWEST
from pfedfair.studies import ranking, summary, words
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
BOUND = f"{FRONTIER}: {BEST}, set on the held-out rows: no method, but a bound."
CLAIMS = (
    "What the paper claims, on these results (methods are compared seed by seed; in brackets the "
    "95 % interval of the difference):"
)
RESULTS = "Results (seed by seed, in brackets the 95 % interval):"


def usual_legend(gap: str) -> tuple[str, ...]:
    """Return the legend of `summary_table`."""
    return (words.ACCURACY, *measures(gap), words.ROLES, words.WORST, words.HALF_WIDTH)


def measures(gap: str) -> tuple[str, ...]:
    """Return the definition of a gap, and for DDP that of the frontier."""
    return (MEASURES[gap].words, BOUND) if gap == "ddp" else (MEASURES[gap].words,)


def collapsed(results: pd.DataFrame) -> tuple[str, ...]:
    """Name the methods whose models predict one class for all rows, or for all held-out rows."""
    is_constant = results["method"] == CONSTANT
    held_out_only = results.get("one_decision", results["collapsed"]) & ~results["collapsed"]
    kinds = "models that predict one class for all rows", "the same on held-out rows only"
    lines = []
    for which, what in zip((results["collapsed"], held_out_only), kinds, strict=True):
        by_method = results[which & ~is_constant].groupby(["dataset", "method"]).size()
        methods = by_method.reset_index(name="n").itertuples()
        named = ", ".join(f"{row.method} on {row.dataset} ({row.n})" for row in methods)
        lines += [f"{what}: {named}."] if named else []
    return tuple(lines)


def few_rows(results: pd.DataFrame) -> tuple[str, ...]:
    """Describe for how many clients the gap is unknown, as a group has too few rows."""
    gap = summary.gap_of(results)
    number = results.get(f"{gap}_people", pd.Series(0, index=results.index))
    lines = []
    for part in summary.parts(results[number.between(1, FEWEST - 1)]):
        few, n = part["client"].nunique(), summary.rows_of(results, part)["client"].nunique()
        what = (
            f"{words.TOO_FEW} for the {gap.upper()} of {few} of {n} clients, {words.setting(part)}"
        )
        lines.append(f"{what}; worst and mean include them.")
    return (*lines, *_apart(results, gap))


def _apart(results: pd.DataFrame, gap: str) -> tuple[str, ...]:
    """Describe for how many clients the gap does not cover every group."""
    apart = results.get(f"{gap}_apart", pd.Series("", index=results.index)).fillna("")
    clients = results.loc[apart != "", ["dataset", "client"]].drop_duplicates()
    if not len(clients):
        return ()
    of = "1 client" if len(clients) == 1 else f"{len(clients)} clients"
    return (
        f"The {gap.upper()} of {of} does not cover groups with fewer than {FEWEST} held-out rows; "
        f"{gap}_apart in the results names them.",
    )


def claims(what: str) -> list[Claim]:
    """Return the paper's claims about one of its tables or figures, from ``claims.csv``."""
    table = pd.read_csv(Path(__file__).with_name("claims.csv"), index_col="study")
    return list(table[table.index == what].itertuples(index=False, name=None))


def printed(what: str, dataset: str, clients: int = 5) -> pd.DataFrame:
    """Return the paper's accuracies (fractions) and DDPs, from ``printed.csv``.

    They are indexed by method and client, or kind of client.
    """
    table = pd.read_csv(Path(__file__).with_name("printed.csv"), dtype={"who": str})
    table["accuracy"] /= 100
    keys = ["study", "dataset", "clients"]
    matches = (table[keys] == [what, dataset, clients]).all(axis=1)
    return table[matches].drop(columns=keys).set_index(["method", "who"])


def measured(heading: str, name: str, between: str = " ") -> Column:
    """Return a column of a measure and its half-width over seeds."""
    return Column(heading, lambda row: words.measure(row, name, half=True).replace(" ", between))


def difference(to: str, name: str) -> Column:
    """Return a column of differences to a method, of accuracies or errors, with intervals."""

    def cell(row: pd.Series) -> str:
        mean, half = row[name], row[f"{name}_half"]
        if row["method"] == to or mean != mean:
            return "-"
        return words.points(mean, mean - half, mean + half, between="\n")

    return Column(f"difference\nto {to}", cell)


LEVEL = Column("eta or\nlimit", lambda row: words.narrow(row["level"], 7), between=" ")
METHOD_AND_LEVEL = (Column("method", lambda row: words.narrow(row["method"])), LEVEL)


def summary_table(part: pd.DataFrame, rows: pd.DataFrame, what: str = "") -> Table:
    """Return methods against kinds of client; with the paper's numbers and claims on `what`.

    `rows` are the rows of `summary.summary` of the results `part`; they may have a `label`.
    """
    gap = summary.gap_of(part)
    paper = printed(what, part["dataset"].iloc[0], part["client"].nunique())

    def cell(kind: str, row: pd.Series) -> str:
        text = "\n".join(
            words.measure(row, f"{kind}_{name}", half=True) for name in ("accuracy", gap)
        )
        key = row["method"], kind
        return text + (f"\n{words.both(paper.loc[key])}" if key in paper.index else "")

    def name(row: pd.Series) -> str:
        text = str(row.get("label", words.narrow(row["method"])))
        in_paper = row["method"] in paper.index
        return text + ("\n" * (2 - text.count("\n")) + " paper" if in_paper else "")

    columns = [Column(HEADINGS[kind], partial(cell, kind)) for kind in summary.KINDS]
    return Table(
        heading=f": accuracy % ↑ and {gap.upper()} ↓",
        frame=rows,
        columns=(Column("method", name), LEVEL, *columns),
        keys=2,
        lines_heading=CLAIMS,
        lines=judged(part, claims(what)),
    )


def client_table(rows: pd.DataFrame, gap: str) -> Table:
    """Return every client's numbers, from `summary.by_client`."""

    def cell(row: pd.Series) -> str:
        is_few = words.is_few(row, f"{gap}_people")
        return words.TOO_FEW if is_few else words.measure(row, gap, half=True)

    columns = [measured("accuracy % ↑", "accuracy"), Column(f"{gap.upper()} ↓", cell)]
    columns += [measured(f"NPR S={z}", f"npr_s{z}") for z in (0, 1)]
    columns = [*METHOD_AND_LEVEL, Column("client", "{client}"), Column("role", "{role}"), *columns]
    where = f"{rows['dataset'].iloc[0]}, {rows['client'].nunique()} clients"
    heading = f"{where}: client by client (NPR: rate of negative predictions in a group)"
    return Table(heading=heading, frame=rows, columns=tuple(columns), keys=3, detail=True)


def judged(results: pd.DataFrame, claims: Sequence[Claim]) -> tuple[str, ...]:
    """Return a verdict on each claim, with every method at the fair end of its curve."""
    methods = set(results["method"])
    claims = [claim for claim in claims if {claim[0], claim[1]} <= methods]
    runs = summary.fairest(summary.over_clients(results)) if claims else results
    return tuple(verdict(runs, claim) for claim in claims)


def verdict(runs: pd.DataFrame, claim: Claim) -> str:
    """Return whether a claim holds, in one line."""
    method, rival, measure = claim
    mean, low, high = summary.paired(runs, *claim)
    kind, _, what = measure.rpartition("_")
    is_single = low != low  # one seed has no interval
    good, bad, better = low > 0, high < 0, f"higher {kind} accuracy"
    with_interval = words.points(mean, low, high)
    numbers = f"{f'{100 * mean:+.1f}' if is_single else with_interval} percentage points"
    if what != "accuracy":
        good, bad, better = bad, good, f"lower {kind} {what.upper()}"
        numbers = f"{mean:+.3f}" + ("" if is_single else f" [{low:+.3f}, {high:+.3f}]")
    outcome = "not clear with one seed" if is_single else word(good, bad)
    return f"{outcome}: {method} has {better} than {rival}: {numbers}"


def word(good: bool, bad: bool, neither: str = "no clear difference") -> str:
    """Return the verdict on a claim in words."""
    return "holds" if good else "does not hold" if bad else neither


def trade_off(
    name: str,
    results: pd.DataFrame,
    rows: pd.DataFrame,
    kinds: Sequence[str] | None = None,
    marks: pd.DataFrame | None = None,
) -> Picture:
    """Return error against gap, a curve over levels for each method, with intervals over seeds.

    A panel for each data set, partition and role of clients, or each of `kinds`. The constant
    classifier, which is far above the others, is a note in the corner; levels that decide like it
    do not stretch the axes. `marks` (dataset, role, method, x, y) are the paper's.
    """
    gap = summary.gap_of(results)
    roles = set(results["role"])
    shown = [role for role in summary.ROLES if role in roles] if kinds is None else kinds
    lines, notes, panels = [], [], {}
    for part in summary.parts(results):
        here = summary.rows_of(rows, part).sort_values("eta", kind="stable")
        is_constant = here["method"] == CONSTANT
        keys = here[ranking.ARM].itertuples(index=False, name=None)
        apart = ranking.set_apart(part)
        here = here.assign(apart=[key in apart for key in keys])
        for kind in shown:
            suffix = "" if part["client"].nunique() == 1 else f": {kind}"
            title = words.setting(part) + suffix + (" of clients" if suffix and kinds else "")
            panels[part["dataset"].iloc[0], kind] = title
            if is_constant.any():
                error = 100 * (1 - here.loc[is_constant, f"{kind}_accuracy"].mean())
                text = f"constant classifier: {gap.upper()} 0, error {error:.1f} %"
                like_it = int((here["apart"] & ~is_constant).sum())
                text += f"\n{like_it} levels decide like it" if like_it else ""
                notes.append({"panel": title, "text": text})
            lines.append(curve(here[~is_constant], title, f"{kind}_{gap}", f"{kind}_accuracy"))
    labels = {"x": f"{gap.upper()} ↓", "y": "error % ↓"}
    if kinds is None:
        labels["title"] = "Error and unfairness of every method (lower left is better)"
    across = len(shown) if kinds is None else 2
    if marks is not None:
        marks = marks.assign(
            panel=[panels[key] for key in zip(marks["dataset"], marks["role"], strict=True)]
        )
    return curves_picture(name, lines, labels, marks, notes, across)


def by_role(results: pd.DataFrame, rows: pd.DataFrame) -> list[Picture]:
    """Return the trade-off by role of clients, ``tradeoff.png``."""
    return [trade_off("tradeoff", results, rows)]


def curve(rows: pd.DataFrame, panel: str, x: str, y: str) -> pd.DataFrame:
    """Return the points of each method in a panel, with errors in percent instead of accuracies."""
    value, half = rows[y], rows[f"{y}_half"].fillna(0)
    if y.endswith("accuracy"):
        value, half = 100 * (1 - value), 100 * half
    return pd.DataFrame({
        "panel": panel,
        "method": rows["method"],
        "label": rows["method"].replace(FRONTIER, BEST),
        "mark": rows["method"] == FRONTIER,
        "apart": rows.get("apart", rows["method"] == CONSTANT),
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
    """Return a picture of curves, the paper's marks, and notes in the corners of panels."""
    frames = {
        "curves": pd.concat(curves, ignore_index=True),
        "marks": pd.DataFrame(marks, columns=["panel", "method", "x", "y"]),
        "notes": pd.DataFrame(notes, columns=["panel", "text"]),
    }
    return Picture(name=name, kind="curves", frames=frames, words=labels, across=across)
