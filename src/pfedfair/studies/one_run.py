"""The view of one run: its clients, their rules, a new client, and the theory's bounds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from pfedfair import rules as rule_kinds
from pfedfair.data import Dataset
from pfedfair.data.tables import missing_groups
from pfedfair.methods import Method
from pfedfair.metrics.criteria import CRITERIA, MEASURES
from pfedfair.metrics.intervals import FEWEST
from pfedfair.rules import Rule
from pfedfair.rules.thresholds import PARTS, threshold
from pfedfair.runs import PersonalModel, Run
from pfedfair.runs.model import Saved
from pfedfair.studies import cautions, headline, judgement, summary, verdicts, words
from pfedfair.studies.judgement import Judgement
from pfedfair.studies.view import Column, Table, View

Names = Sequence[str]
MOST, SHOWN = 50, 20  # clients that a table shows; of more, so many
CLIENT = Column("client", "{client}")
ROLE = Column("role", lambda row: row["role"].removesuffix("represented"))
COST = (
    "cost: the loss of accuracy by the rule, in percentage points, relative to the likeliest label "
    "by the same scores."
)
CONSTANT = (
    "constant: the accuracy of one decision for all rows, the most frequent label of a client's "
    "training rows."
)
UNKNOWN_COST = "To see what fairness costs, also train without it: compare --etas 0,0.9."
RATE = (
    "The rate of a decision in a group is the share of its rows that get it; few: fewer than "
    f"{FEWEST} rows."
)
RANDOM = "random %: the share of the decisions that are random draws."
FLOOR = "by chance: the largest gap to expect if all groups had the same rate, with these rows."
MORE = {
    "auc": "AUC ↑", "recall": "recall\n↑", "precision": "precision\n↑",
    "balanced_accuracy": "balanced\n% ↑",
}  # fmt: skip
EXPLAINED = "Explanations: the page, or docs/reading-numbers.md."
FEW = 20  # clients, of which the terminal shows all tables
THEORY = (
    "cost: the least cost of a single fair model to the client in accuracy, in percentage points, "
    "if labels were a function of X and S (Proposition 1; with noisy labels it is less).",
    "DDP ≤ c: the accuracy in percent of a FedAvg model's decisions with the best thresholds by "
    "group for a DDP of at most c (Proposition 2), set and measured on the held-out rows.",
)


def of_models(found: Saved, results: pd.DataFrame, frame: pd.DataFrame) -> View:
    """Return the view of a run of an older version, of which only the models can be read."""
    rule = rule_kinds.from_dict(found.about["rule"], found.tensors["rule"][0])
    judged = judgement.of_frames(results, frame)
    return view(judged, found.about["group_names"], found.about["label_names"], rule)


def of_run(run: Run, judged: Judgement) -> View:
    """Return the view of a run."""
    data = run.federation.data
    names = data.group_names, data.label_names
    found = view(judged, *names, run.fitted.rules[0], run.columns["left_out"])
    return replace(found, more=(*without_sensitive(data), *found.more))


def without_sensitive(data: Dataset) -> list[str]:
    """Return how many rows are left out as S is missing, if any."""
    n, column = data.without_sensitive, data.sensitive_column
    return [f"{missing_groups.words(n, data.table_rows, column)}."] if n else []


def view(
    judged: Judgement,
    groups: Names,
    labels: Names,
    rule: Rule,
    excluded: Mapping[str, str] | None = None,
) -> View:
    """Return every client of a run, what its rule changes, and further measures.

    `rule` is one of the clients', for what all have in common; `excluded` are columns that are no
    inputs, and why.
    """
    results, frame, claim = judged.results, judged.rules, judged.claim
    if "constant" in frame:  # not in runs of older versions
        results = results.assign(constant=frame["constant"].to_numpy())
    if claim.target == claim.target:
        results = results.assign(verdict=judged.found)
    first, ruled = results.iloc[0], bool(rule.numbers.numel())
    shown, which = gaps(claim.gap, groups, labels), worst(results, claim.gap)
    heading = f"{first['method']} on {first['dataset']}, seed {first['seed']}"
    heading += f", {level}" if (level := level_of(first)) else ""
    if first["seconds"] == first["seconds"]:
        heading += f", {first['seconds']:.1f} s"
    tables = [clients(results, heading, claim.gap, which)]
    legend = list(legend_of(results, shown, groups))
    more = cost_words(frame, first.get("eta", 0.0), rule)
    if ruled:
        tables.append(rules(judged, groups, labels[-1], which))
        legend += [*rule.words(labels, ()), COST]
    if judged.changes is not None:
        more.insert(0, headline.gains(judged.changes, claim, results, groups, labels[-1]))
    tables.append(further(results, groups, labels, shown, which))
    for k in range(1, len(tables)):
        tables[k] = replace(tables[k], detail=len(results) > FEW)
    return View(
        sentence=judged.sentence,
        more=(*more, *headline.hints(claim, judged.found)),
        tables=tuple(tables),
        legend=tuple(legend),
        explained=EXPLAINED,
        cautions=(*cautions.cautions(judged, groups), *cautions.left_out(excluded or {})),
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
    groups, labels = data.group_names, data.label_names
    shown = gaps(gap, groups, labels)
    few = ((cautions.FEW, text) for text in cautions.held_out(frame, groups))
    same = ((cautions.COLLAPSED, text) for text in cautions.one_decision(frame))
    apart = ((cautions.FEW, text) for text in [verdicts.apart(frame, gap)] if text)
    return View(
        tables=(clients(frame, heading, gap), further(frame, groups, labels, shown)),
        legend=legend_of(frame, shown, groups),
        cautions=(*few, *apart, *same),
    )


def gaps(gap: str, groups: Names, labels: Names) -> list[str]:
    """Return the gaps to show, `gap` first: all, but for two groups and classes DDP only itself."""
    only = len(groups) == len(labels) == 2 and gap == "ddp"
    return [gap] if only else [gap, *(name for name in MEASURES if name != gap)]


def legend_of(results: pd.DataFrame, gaps: Names, groups: Names) -> tuple[str, ...]:
    """Return the legend of `clients` and `further`."""
    names = ", ".join(f"S={z}: {name}" for z, name in enumerate(groups))
    where = f" Measured on {headline.place(results)}." if "protocol" in results else ""
    by_chance = f"{gaps[0]}_floor"
    return (
        f"In brackets: 95 % interval; of a gap it holds for all clients at once if the verdicts "
        f"do.{where}",
        "role: under(represented) is a client whose largest group is not the largest of all "
        "clients' rows. rows: training rows. ↑ higher is better, ↓ lower is better.",
        *(MEASURES[gap].words for gap in gaps),
        RATE,
        f"Groups: {names}.",
        *([CONSTANT] if "constant" in results else []),
        *([FLOOR] if not np.isnan(words.column(results, by_chance)).all() else []),
        *([RANDOM] if np.nan_to_num(words.column(results, "randomised")).any() else []),
    )


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
    frame: pd.DataFrame, heading: str, gap: str = "ddp", which: np.ndarray | None = None
) -> Table:
    """Return accuracy, gap and verdict of every client, or of the clients `which`."""
    if which is not None and len(which) < len(frame):
        heading += f": {SHOWN} of {len(frame):,} clients, those with the largest gaps"
        frame = frame.iloc[which]
    columns = [CLIENT, Column("rows", "{n_train:,}")]
    columns.append(Column("accuracy % ↑", partial(words.interval, name="accuracy")))
    if "constant" in frame:
        columns.append(Column("constant\n%", lambda row: words.percent(row["constant"])))
    columns.append(Column(f"{gap.upper()} ↓", partial(words.interval, name=gap)))
    if "verdict" in frame:
        columns.append(Column("verdict", "{verdict}"))
    if np.nan_to_num(words.column(frame, "randomised")).any():
        columns.append(Column("random\n%", lambda row: words.percent(row["randomised"])))
    return Table(heading=heading, frame=frame, columns=tuple(columns))


def rules(judged: Judgement, groups: Names, label: str, which: np.ndarray | None = None) -> Table:
    """Return the cost of every client's rule, what it changes, and its thresholds if it has some.

    For `which` see `clients`. Where each client has its own rows, the last row has their sums.
    """
    frame, changes = judged.rules, judged.changes
    if changes is not None:
        for z in range(len(groups)):
            frame = frame.assign(**{f"gained_s{z}": changes.gained[:, z],
                                    f"lost_s{z}": changes.lost[:, z]})  # fmt: skip
    shown = frame if which is None else frame.iloc[which]
    if changes is not None and len(frame) > 1 and judged.results["protocol"].iloc[0] != "pool":
        counted = frame.filter(regex="^(gained|lost)_s").sum()
        shown = pd.concat([shown, counted.to_frame().T.assign(client="all")], ignore_index=True)

    def cut(z: int, row: pd.Series) -> str:
        numbers = [row[f"{part}_s{z}"] for part in PARTS]
        return threshold(*numbers) if numbers[0] == numbers[0] else ""

    def change(z: int, row: pd.Series) -> str:
        return f"+{row[f'gained_s{z}']:,.0f} -{row[f'lost_s{z}']:,.0f}"

    def cost(row: pd.Series) -> str:
        return f"{100 * row['cost']:+.1f}" if row["cost"] == row["cost"] else ""

    each = range(len(groups))
    columns = (
        CLIENT,
        *(Column(f"{groups[z]}\n+ and -", partial(change, z)) for z in each if changes),
        Column("cost\npoints", cost),
        *(Column(f"threshold\n{groups[z]}", partial(cut, z)) for z in each if f"low_s{z}" in frame),
    )
    heading = f"Rows that get (+) and lose (-) the decision {label} by the rules"
    return Table(heading=heading, frame=shown, columns=columns)


def further(
    frame: pd.DataFrame, groups: Names, labels: Names, gaps: Names, which: np.ndarray | None = None
) -> Table:
    """Return every client's groups, rates of positive decisions, other gaps and measures."""
    frame = frame if which is None else frame.iloc[which]
    first, *others = gaps

    def rate(z: int, row: pd.Series) -> str:
        if words.is_few(row, f"n_test_s{z}"):
            return "few"
        return words.percent(1 - row[f"npr_s{z}"])

    columns = [CLIENT, ROLE]
    if len(groups) == 2:
        columns.append(Column(f"share\n{groups[1]}", "{share_s1:.2f}"))
    if len(labels) == 2:
        columns += [Column(f"{labels[1]} %\n{groups[z]}", partial(rate, z))
                    for z in range(len(groups))]  # fmt: skip
    more = {f"{first}_floor": f"{first.upper()}\nby chance"} | MORE
    columns += [Column(head, partial(words.measure, name=name)) for name, head in more.items()
                if not np.isnan(words.column(frame, name)).all()]  # fmt: skip
    columns += [Column(f"{gap.upper()} ↓", partial(words.interval, name=gap, between="\n"), " ")
                for gap in others]  # fmt: skip
    return Table(heading="Further measures", frame=frame, columns=tuple(columns))


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
    facts = model.predictor.rule.facts
    if facts.get("too_small"):
        ways = headline.remedies(pd.DataFrame([dict(facts)]))
        notes.append(f"these rows are too few for the target at this confidence level: {ways}.")
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
    columns = [
        CLIENT,
        ROLE,
        Column("share\nS=1", "{share_s1:.2f}"),
        Column("cost\npoints", "{cost:.1f}"),
        *columns,
    ]
    table = Table(heading=heading, frame=frame, columns=tuple(columns))
    return View(tables=(table,), legend=THEORY)
