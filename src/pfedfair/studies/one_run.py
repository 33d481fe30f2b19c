"""The view of one run: its clients, their rules, a new client, and the theory's bounds."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from pfedfair import rules as rule_kinds
from pfedfair._util.notebook import abbreviate
from pfedfair.data import Dataset
from pfedfair.data.tables import missing_groups
from pfedfair.methods import Method
from pfedfair.metrics.criteria import CRITERIA, MEASURES
from pfedfair.metrics.intervals import FEWEST
from pfedfair.rules import Rule
from pfedfair.rules.thresholds import PARTS, threshold
from pfedfair.runs import PersonalModel, Run
from pfedfair.runs.model import Saved
from pfedfair.studies import cautions, summary, verdicts, words
from pfedfair.studies.decisions import differing
from pfedfair.studies.view import Column, Table, View

Names = Sequence[str]
MOST, SHOWN = 100, 50  # clients that a table shows; of more, so many
CLIENT = Column("client", "{client}")
ROLE = Column("role", lambda row: row["role"].removesuffix("represented"))
SHARE = Column("share\nS=1", "{share_s1:.2f}")
COST = (
    "cost: the loss of accuracy by the rule, in percentage points, relative to the likeliest label "
    "by the same scores."
)
CONSTANT = (
    "constant: the accuracy of one decision for all rows, the most frequent label of a client's "
    "training rows."
)
UNKNOWN_COST = "To see what fairness costs, also train without it: compare --etas 0,0.9."
FACTS_OF = ("known_to", "certainty_cost")
FACTS = (
    Column("gap's\nhalf-width", "±{known_to:.3f}"),
    Column("confidence\npoints", lambda row: f"{100 * row['certainty_cost']:+.1f}"),
)
FACTS_LEGEND = (
    "gap's half-width: of the 95 % interval of the client's gap, as its rows determine it. "
    "confidence: the change of accuracy by --confidence, by the calibrated scores."
)
NPR = (
    "NPR: negative prediction rate, the share of a group that is predicted the first label; few: "
    f"fewer than {FEWEST} rows of the group."
)
THEORY = (
    "cost: the least cost of a single fair model to the client in accuracy, in percentage points, "
    "if labels were a function of X and S (Proposition 1; with noisy labels it is less).",
    "DDP ≤ c: the accuracy in percent of a FedAvg model's decisions with the best thresholds by "
    "group for a DDP of at most c (Proposition 2), set and measured on the held-out rows.",
)


def of_models(found: Saved, results: pd.DataFrame, frame: pd.DataFrame) -> View:
    """Return the view of a run of an older version, of which only the models can be read."""
    rule = rule_kinds.from_dict(found.about["rule"], found.tensors["rule"][0])
    return view(results, frame, found.about["group_names"], found.about["label_names"], rule)


def of_run(run: Run, results: pd.DataFrame, frame: pd.DataFrame) -> View:
    """Return the view of a run; from its rows follow more reasons why a target is exceeded."""
    data, protocol = run.federation.data, str(results["protocol"].iloc[0])
    above = np.flatnonzero(judged(results, frame).found == verdicts.ABOVE)
    differs = differing(run, above.tolist(), protocol)
    rule, excluded = run.fitted.rules[0], run.columns["left_out"]
    found = view(results, frame, data.group_names, data.label_names, rule, differs, excluded)
    return replace(found, more=(*without_sensitive(data), *found.more))


def without_sensitive(data: Dataset) -> list[str]:
    """Return how many rows are left out as S is missing, if any."""
    n, column = data.without_sensitive, data.sensitive_column
    return [f"{missing_groups.words(n, data.table_rows, column)}."] if n else []


def judged_run(run: Run, results: pd.DataFrame) -> "Judged":
    """Judge a run by its rows, and by its rules only where these are needed."""
    above = judged(results, pd.DataFrame()).found == verdicts.ABOVE
    differs = differing(run, np.flatnonzero(above).tolist(), str(results["protocol"].iloc[0]))
    known_to = [rule.facts["known_to"] if is_above and "known_to" in rule.facts else words.NAN
                for is_above, rule in zip(above, run.fitted.rules, strict=True)]  # fmt: skip
    return judged(results, pd.DataFrame({"known_to": known_to}), differs)


class Judged(NamedTuple):
    """Every client's verdict and its reason, and the sentence on all of them.

    Without a target the verdicts and reasons are None.
    """

    found: np.ndarray
    why: list[str | None]
    sentence: str


def judged(
    results: pd.DataFrame, frame: pd.DataFrame, differs: Mapping[int, str] | None = None
) -> Judged:
    """Judge a run by its results and its rules `frame`; for `differs` see `verdicts.reasons`."""
    gap, target = summary.gap_of(results), results["target_ddp"].iloc[0]
    apart = verdicts.apart(results, gap)
    if target != target:
        unknown: list[str | None] = [None] * len(results)
        largest = verdicts.largest(results, gap)
        return Judged(np.array(unknown), unknown, f"{largest} {apart}".rstrip())
    known_to = frame["known_to"].to_list() if "known_to" in frame else None
    found = verdicts.verdicts(results, target, gap)
    why = verdicts.reasons(results, list(found), target, gap, known_to, differs)
    names = results["client"].astype(str).to_list()
    sentence = verdicts.sentence(names, list(found), why, target, gap)
    return Judged(found, why, f"{sentence} {apart}".rstrip())


def view(
    results: pd.DataFrame,
    frame: pd.DataFrame,
    groups: Names,
    labels: Names,
    rule: Rule,
    differs: Mapping[int, str] | None = None,
    excluded: Mapping[str, str] | None = None,
) -> View:
    """Return every client of a run, its rules `frame`, and the verdicts on a target if it has one.

    `rule` is one of the clients', for what all have in common; `differs` as in
    `verdicts.reasons`; `excluded` are columns that are no inputs, and why.
    """
    if "constant" in frame:  # not in runs of older versions
        results = results.assign(constant=frame["constant"].to_numpy())
    first, gap = results.iloc[0], summary.gap_of(results)
    shown = gaps(gap, groups, labels)
    heading = f"{first['method']} on {first['dataset']}, seed {first['seed']}"
    heading += f", {level}" if (level := level_of(first)) else ""
    if first["seconds"] == first["seconds"]:
        heading += f", {first['seconds']:.1f} s"
    tables = [clients(results, heading, shown, worst(results, gap))]
    legend = [*legend_of(first["protocol"], results["n_test"].min(), shown, groups)]
    legend += no_better(results)
    if rule.numbers.numel():
        tables.append(rules(frame, groups, gap, worst(results, gap)))
        legend += [*rule.words(labels, ()), COST]
        legend += [FACTS_LEGEND] if set(FACTS_OF) <= set(frame) else []
    judgement = judged(results, frame, differs)
    if first["target_ddp"] == first["target_ddp"]:
        config = json.loads(first["config"])
        lines = verdicts.target_words(results, first["target_ddp"], gap, config)
        tables[-1] = replace(tables[-1], lines_heading="The target:", lines=lines)
    return View(
        sentence=judgement.sentence,
        more=tuple(cost_words(frame, first.get("eta", 0.0), rule)),
        tables=tuple(tables),
        legend=tuple(legend),
        cautions=(*cautions.cautions(results, groups), *cautions.left_out(excluded or {})),
        differs=differs or {},
    )


def small_columns(results: pd.DataFrame) -> list[str]:
    """Return the columns of results to show in a notebook."""
    named = ("accuracy", summary.gap_of(results))
    return ["client", "role", "n_train", *(f"{n}{end}" for n in named for end in words.ENDS)]


def level_of(row: pd.Series) -> str:
    """Return the fairness level of a run in words; "" if its method has none."""
    return words.level(row["level"]) if row["level"] else ""


def sites(frame: pd.DataFrame, data: Dataset, algorithm: Method, heading: str) -> View:
    """Return the view of every site's measurements in a deployment."""
    gap = CRITERIA[algorithm.criterion].measure
    shown = gaps(gap, data.group_names, data.label_names)
    legend = legend_of("own", 0, shown, data.group_names)
    few = ((cautions.FEW, text) for text in cautions.held_out(frame, data.group_names))
    same = ((cautions.COLLAPSED, text) for text in cautions.one_decision(frame))
    apart = ((cautions.FEW, text) for text in [verdicts.apart(frame, gap)] if text)
    table = clients(frame, heading, shown)
    return View(tables=(table,), legend=legend, cautions=(*few, *apart, *same))


def gaps(gap: str, groups: Names, labels: Names) -> list[str]:
    """Return the gaps to show: all, but DDP only for two groups, two classes and DDP as target."""
    return [gap] if len(groups) == len(labels) == 2 and gap == "ddp" else list(MEASURES)


def legend_of(protocol: str, rows: int, gaps: Names, groups: Names) -> tuple[str, ...]:
    """Return the legend of `clients`."""
    held = f"all {rows} held-out rows, weighted to its shares of the groups"
    held = held if protocol == "pool" else "its own held-out rows"
    names = ", ".join(f"S={z}: {name}" for z, name in enumerate(groups))
    return (
        f"In brackets: 95 % interval. Each client is measured on {held}.",
        "role: under(represented) is a client whose largest group is not the largest of all "
        "clients' rows. rows: training rows. ↑ higher is better, ↓ lower is better.",
        *(MEASURES[gap].words for gap in gaps),
        *([NPR] if len(gaps) == 1 else []),
        f"Groups: {names}.",
    )


def no_better(results: pd.DataFrame) -> list[str]:
    """Describe the constant classifier, and name the clients whose models do not beat it."""
    if "constant" not in results:
        return []
    low = results.loc[results["accuracy"] <= results["constant"], "client"].astype(str).tolist()
    text = f"No more accurate than that: client {abbreviate(low)}." if low else ""
    return [f"{CONSTANT} {text}".rstrip()]


def cost_words(frame: pd.DataFrame, eta: float, rule: Rule) -> list[str]:
    """Describe what fairness cost in accuracy, or how to find out."""
    if rule.numbers.numel():
        mean, worst = 100 * frame["cost"].mean(), 100 * frame["cost"].max()
        lost = f"{mean:.1f} points of accuracy" if mean >= 0.05 else "no accuracy"
        most = f", {worst:.1f} points at the worst client" if worst >= 0.05 else ""
        most = most if len(frame) > 1 else ""
        return [f"Fairness cost {lost} on average{most}."]
    return [UNKNOWN_COST] if eta > 0 else []


def worst(results: pd.DataFrame, gap: str) -> np.ndarray:
    """Return the positions of the clients to show: all, or of many those with the largest gaps."""
    if len(results) <= MOST:
        return np.arange(len(results))
    order = np.argsort(-results[gap].fillna(-1.0).to_numpy(), kind="stable")
    return np.asarray(order[:SHOWN])


def clients(
    frame: pd.DataFrame, heading: str, gaps: Names = ("ddp",), which: np.ndarray | None = None
) -> Table:
    """Return every client of a run with its intervals, or the clients `which`.

    Shares and negative prediction rates are for two groups and one gap.
    """
    if which is not None and len(which) < len(frame):
        heading += f": {SHOWN} of {len(frame):,} clients, those with the largest gaps"
        frame = frame.iloc[which]
    one = len(gaps) == 1
    named = {"accuracy": "accuracy % ↑"} | {gap: f"{gap.upper()} ↓" for gap in gaps}
    columns = [
        Column(head, partial(words.interval, name=name, between=" " if one else "\n"))
        for name, head in named.items()
    ]
    if one:
        rates = [Column(f"NPR\nS={z}", partial(_npr, z)) for z in (0, 1)]
        columns = [SHARE, *columns, *rates]
    if "constant" in frame:
        position = 2 if one else 1  # after the accuracy
        columns.insert(position, Column("constant\n%", lambda row: words.percent(row["constant"])))
    columns = [CLIENT, ROLE, Column("rows", "{n_train}"), *columns]
    return Table(heading=heading, frame=frame, columns=tuple(columns))


def _npr(z: int, row: pd.Series) -> str:
    return "few" if words.is_few(row, f"n_test_s{z}") else words.measure(row, f"npr_s{z}")


def rules(
    frame: pd.DataFrame, groups: Names, gap: str = "ddp", which: np.ndarray | None = None
) -> Table:
    """Return every client's gap by its rule, the rule's cost, and its thresholds if it has some.

    For `which` see `clients`.
    """
    frame = frame if which is None else frame.iloc[which]

    def cell(z: int, row: pd.Series) -> str:
        return threshold(*(row[f"{part}_s{z}"] for part in PARTS))

    shown = [z for z in range(len(groups)) if f"low_s{z}" in frame]
    columns = (
        CLIENT,
        Column(f"{gap.upper()} reached", partial(words.interval, name=gap)),
        Column("accuracy\n%", partial(words.measure, name="accuracy")),
        Column("cost\npoints", lambda row: f"{100 * row['cost']:+.1f}"),
        *(FACTS if set(FACTS_OF) <= set(frame) else ()),
        *(Column(f"threshold\n{groups[z]}", partial(cell, z)) for z in shown),
    )
    return Table(heading="The decision rules", frame=frame, columns=columns)


def newcomer(model: PersonalModel, rates: pd.DataFrame, heading: str) -> View:
    """Return the groups of a new client: their rows, and their rates of decisions."""
    decisions = rates.columns[2:]

    def rate(label: str, row: pd.Series) -> str:
        if words.is_few(row, "rows"):
            return words.TOO_FEW
        return f"{100 * row[label]:.1f}" if row["rows"] else "n/a"

    shown = decisions[1:] if len(decisions) == 2 else decisions
    columns = [Column(f"{label} %", partial(rate, label)) for label in shown]
    notes = []
    absent = list(rates.loc[rates["rows"] == 0, "group"])
    if absent:
        notes.append(f"no rows of {', '.join(absent)}: the target does not hold for such rows.")
    if (rates[rates["rows"] > 0].iloc[:, 2:] == 1).all().any():
        notes.append("all rows get the same decision: no other is within the target.")
    columns = [Column("group", "{group}"), Column("rows", "{rows:g}"), *columns]
    table = Table(heading=heading, frame=rates, columns=tuple(columns))
    return View(tables=(table,), legend=tuple(model.words())).noting(notes)


def decided(rates: pd.DataFrame, model: PersonalModel, heading: str, drawn: int) -> View:
    """Return the decisions on the rows of a file, by group where S is an input of the model."""

    def rate(label: str, row: pd.Series) -> str:
        return f"{100 * row[label]:.1f}" if row["rows"] else "n/a"

    columns = [Column(f"{label} %", partial(rate, label)) for label in rates.columns[2:]]
    columns = [Column("rows", "{rows:,}"), *columns]
    if model.task.aware:
        columns = [Column("group", "{group}"), *columns]
    else:
        rates = rates.iloc[:1]
    legend = [f"{drawn:,} of them randomised."] if drawn else []
    table = Table(heading=heading, frame=rates, columns=tuple(columns))
    return View(tables=(table,), legend=tuple(legend))


def theory(frontier: pd.DataFrame, cost: np.ndarray, heading: str) -> View:
    """Return the least cost of one fair model for each client, and the frontier's accuracies."""
    about = ["client", "role", "share_s1"]
    best = frontier.pivot(index=about, columns="target_ddp", values="accuracy")
    frame = best.loc[list(dict.fromkeys(frontier["client"]))].reset_index().assign(cost=100 * cost)

    def cell(limit: float, row: pd.Series) -> str:
        return words.percent(row[limit])

    limits = sorted(map(float, frontier["target_ddp"].unique()))
    columns = [Column("any\nDDP" if c >= 1 else f"DDP\n≤ {c:g}", partial(cell, c)) for c in limits]
    columns = [CLIENT, ROLE, SHARE, Column("cost\npoints", "{cost:.1f}"), *columns]
    table = Table(heading=heading, frame=frame, columns=tuple(columns))
    return View(tables=(table,), legend=THEORY)
