"""What is shown of one run: its clients, their rules, a new client, and what the theory says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from pfedfair import rules as rule_kinds
from pfedfair.algorithms import Algorithm
from pfedfair.criteria import CRITERIA, MEASURES
from pfedfair.data import Dataset
from pfedfair.files import read_parquet
from pfedfair.rules import Rule
from pfedfair.rules.thresholds import PARTS, threshold
from pfedfair.runs import PersonalModel
from pfedfair.runs.model import read_model
from pfedfair.studies import summary, words
from pfedfair.studies.view import Column, Table, View

FEW = 10  # people of a group at a client
ROLE = {"underrepresented": "under", "overrepresented": "over"}
COST = (
    "cost: what the rule loses in accuracy, in percentage points, against the likeliest label by "
    "the same scores."
)
NPR = "NPR: negative prediction rate, the share of a group that is predicted the first label."
THEORY = (
    "cost: what a single fair model must cost the client in accuracy, in percentage points, if "
    "labels were a function of X and S (Proposition 1; with noisy labels it is less).",
    "DDP ≤ c: the accuracy in percent of a FedAvg model's decisions with the best thresholds by "
    "group for a DDP of at most c (Proposition 2), set and measured on the held-out rows.",
)


def saved(folder: Path, results: pd.DataFrame) -> View:
    """The view of a run that train kept in a folder."""
    found = read_model(folder)
    rule = rule_kinds.from_dict(found.about["rule"], found.tensors["rule"][0])
    frame = read_parquet(folder / "rules.parquet")
    return view(results, frame, found.about["group_names"], found.about["label_names"], rule)


def view(
    results: pd.DataFrame,
    frame: pd.DataFrame,
    groups: Sequence[str],
    labels: Sequence[str],
    rule: Rule,
) -> View:
    """Every client of a run; its rules `frame` and whether it kept its target, if it has them.

    `rule` is one of the clients', for what all have in common.
    """
    first = results.iloc[0]
    gap = summary.gap_of(results)
    shown = [gap] if len(groups) == len(labels) == 2 and gap == "ddp" else list(MEASURES)
    heading = f"{first['method']} on {first['dataset']}, seed {first['seed']}"
    if first["seconds"] == first["seconds"]:
        heading += f", {first['seconds']:.1f} s"
    tables = [clients(results, heading, shown)]
    legend = [*legend_of(first["protocol"], results["n_test"].min(), shown, groups)]
    if rule.numbers.numel():
        tables.append(rules(frame, groups, gap))
        legend += [*rule.words(labels, ()), COST]
    if first["target_ddp"] == first["target_ddp"]:
        lines = target_words(results, first["target_ddp"], gap, json.loads(first["config"]))
        last = tables.pop()
        tables.append(Table(**vars(last) | {"lines_heading": "The target:", "lines": lines}))
    return View(
        title="", tables=tuple(tables), legend=tuple(legend), notes=too_few(results, groups)
    )


def sites(frame: pd.DataFrame, data: Dataset, algorithm: Algorithm, heading: str) -> View:
    """What every site of a deployment measured."""
    gap = CRITERIA[algorithm.criterion].measure
    two = len(data.group_names) == len(data.label_names) == 2
    shown = [gap] if two and gap == "ddp" else list(MEASURES)
    legend = legend_of("own", 0, shown, data.group_names)
    return View(title="", tables=(clients(frame, heading, shown),), legend=legend)


def legend_of(
    protocol: str, rows: int, gaps: Sequence[str], groups: Sequence[str]
) -> tuple[str, ...]:
    """What the numbers of `clients` are."""
    held = f"all {rows} held-out rows, weighted to its shares of the groups"
    held = held if protocol == "pool" else f"its own {protocol} rows".replace("own own", "own")
    names = ", ".join(f"S={z}: {name}" for z, name in enumerate(groups))
    return (
        f"In brackets: 95 % bootstrap interval. Each client is measured on {held}.",
        "role: under(represented) is a client whose largest group is not the largest of all "
        "clients' people together. rows: training rows. ↑ higher is better, ↓ lower is better.",
        *(MEASURES[gap].words for gap in gaps),
        *([NPR] if len(gaps) == 1 else []),
        f"Groups: {names}.",
    )


def too_few(results: pd.DataFrame, groups: Sequence[str]) -> tuple[str, ...]:
    """Say which clients have too few people of a group for its rates to be told."""
    shares = results[[f"share_s{z}" for z in range(1, len(groups))]].to_numpy()
    shares = np.column_stack([1 - shares.sum(1), shares])
    people = np.rint(shares * results[["n_train"]].to_numpy()).astype(int)
    few = [
        f"{results['client'].iloc[i]} ({people[i, z]} of {groups[z]})"
        for i, z in np.argwhere((people > 0) & (people < FEW))
    ]
    more = f" and {len(few) - 3} more" if len(few) > 3 else ""
    text = f"too few people to tell a group's rates: client {', '.join(few[:3])}{more}."
    return (text,) if few else ()


# --- tables ---------------------------------------------------------------------------------------


def _client(row: pd.Series) -> str:
    return str(row["client"])


def clients(frame: pd.DataFrame, heading: str, gaps: Sequence[str] = ("ddp",)) -> Table:
    """Every client of one run, with its bootstrap intervals.

    Shares and negative prediction rates are for two groups and one gap.
    """
    between = " " if len(gaps) == 1 else "\n"
    columns = [
        Column("client", _client),
        Column("role", lambda row: ROLE[row["role"]]),
        Column("rows", lambda row: str(row["n_train"])),
        Column("accuracy % ↑", lambda row: words.interval(row, "accuracy", between)),
    ]
    for gap in gaps:
        say = partial(words.interval, name=gap, between=between)
        columns.append(Column(f"{gap.upper()} ↓", say))
    if len(gaps) == 1:
        columns.insert(3, Column("share\nS=1", lambda row: f"{row['share_s1']:.2f}"))
        columns.append(Column("NPR\nS=0", lambda row: words.rate(row["npr_s0"])))
        columns.append(Column("NPR\nS=1", lambda row: words.rate(row["npr_s1"])))
    return Table(heading=heading, frame=frame, columns=tuple(columns))


def rules(frame: pd.DataFrame, groups: Sequence[str], gap: str = "ddp") -> Table:
    """The gap that every client's rule reached, what it cost, and the rule if it is thresholds."""

    def cell(z: int, row: pd.Series) -> str:
        return threshold(*(row[f"{part}_s{z}"] for part in PARTS))

    shown = [z for z in range(len(groups)) if f"low_s{z}" in frame]
    return Table(
        heading="The decision rules",
        frame=frame,
        columns=(
            Column("client", _client),
            Column(f"{gap.upper()} reached", lambda row: words.interval(row, gap)),
            Column("accuracy\n%", lambda row: words.percent(row["accuracy"])),
            Column("cost\npoints", lambda row: f"{100 * row['cost']:+.1f}"),
            *(Column(f"threshold\n{groups[z]}", partial(cell, z)) for z in shown),
        ),
    )


def target_words(
    frame: pd.DataFrame, target: float, gap: str, config: dict[str, object]
) -> tuple[str, ...]:
    """Say whether the target was reached, client by client."""
    known = frame[frame[gap].notna()]
    within = (known[gap] <= target).sum()
    above = list(known.loc[known[f"{gap}_low"] > target, "client"].astype(str))
    text = f"{gap.upper()} at most {target:g}: {within} of {len(known)} clients are within it"
    if above:
        text += f"; clearly above it (95 % interval): {', '.join(above)}."
    else:
        text += ", and none is clearly above it (95 % interval)."
    if config.get("confidence") is not None or within == len(known):
        return (text,)
    return (
        text,
        "It was aimed at by the best guess, which is too low for some: --confidence 0.95 aims "
        "lower, so that it is kept for 95 % of what a client's gap may be.",
    )


def newcomer(model: PersonalModel, rates: pd.DataFrame, heading: str) -> View:
    """The groups of a new client: their numbers, and what the rule does to them."""
    decisions = rates.columns[2:]

    def rate(label: str, row: pd.Series) -> str:
        return f"{100 * row[label]:.1f}" if row["rows"] else "n/a"

    shown = decisions[1:] if len(decisions) == 2 else decisions
    columns = (
        Column("group", lambda row: str(row["group"])),
        Column("rows", lambda row: f"{row['rows']:g}"),
        *(Column(f"{label} %", partial(rate, label)) for label in shown),
    )
    notes = []
    absent = list(rates.loc[rates["rows"] == 0, "group"])
    if absent:
        notes.append(f"no rows of {', '.join(absent)}: the target does not hold for such people.")
    if (rates[rates["rows"] > 0].iloc[:, 2:] == 1).all().any():
        notes.append("everybody gets the same decision: these rows do not allow more.")
    table = Table(heading=heading, frame=rates, columns=columns)
    return View(title="", tables=(table,), legend=tuple(model.words()), notes=tuple(notes))


def theory(frontier: pd.DataFrame, cost: np.ndarray, heading: str) -> View:
    """What one fair model must cost each client, and the frontier's accuracies."""
    names = list(dict.fromkeys(frontier["client"]))
    best = frontier.pivot(
        index=["client", "role", "share_s1"], columns="target_ddp", values="accuracy"
    )
    limits = sorted(map(float, frontier["target_ddp"].unique()))
    frame = best.loc[names].reset_index().assign(cost=cost)

    def cell(limit: float, row: pd.Series) -> str:
        return words.percent(row[limit])

    columns = (
        Column("client", _client),
        Column("role", lambda row: ROLE[row["role"]]),
        Column("share\nS=1", lambda row: f"{row['share_s1']:.2f}"),
        Column("cost\npoints", lambda row: f"{100 * row['cost']:.1f}"),
        *(Column("any\nDDP" if c >= 1 else f"DDP\n≤ {c:g}", partial(cell, c)) for c in limits),
    )
    table = Table(heading=heading, frame=frame, columns=columns)
    return View(title="", tables=(table,), legend=THEORY)
