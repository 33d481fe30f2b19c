"""Tables of one run: its clients, their rules, a new client, and what the theory says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd
import torch

from pfedfair.model import PersonalModel
from pfedfair.networks import Thresholds
from pfedfair.studies import words
from pfedfair.studies.view import Column, Table

RULE = ("low", "high", "chance", "below")  # of `pfedfair.networks.Thresholds`


def _client(row: pd.Series) -> str:
    return str(row["client"])


def clients(frame: pd.DataFrame, heading: str, gaps: Sequence[str] = ("ddp",)) -> Table:
    """Every client of one run, with its bootstrap intervals.

    Shares and negative prediction rates are for two groups and one gap.
    """
    between = " " if len(gaps) == 1 else "\n"
    columns = [
        Column("client", _client),
        Column("role", lambda row: words.SHORT_ROLE[row["role"]]),
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


def rules(frame: pd.DataFrame, groups: Sequence[str], heading: str, gap: str = "ddp") -> Table:
    """The gap that every client's rule reached, what it cost, and the rule if it is thresholds."""

    def threshold(z: int, row: pd.Series) -> str:
        return say_threshold(*(row[f"{end}_s{z}"] for end in RULE))

    shown = [z for z in range(len(groups)) if f"low_s{z}" in frame]
    return Table(
        heading=heading,
        frame=frame,
        columns=(
            Column("client", _client),
            Column(f"{gap.upper()} reached", lambda row: words.interval(row, gap)),
            Column("accuracy\n%", lambda row: words.percent(row["accuracy"])),
            Column("cost\npoints", lambda row: f"{100 * row['cost']:+.1f}"),
            *(Column(f"threshold\n{groups[z]}", partial(threshold, z)) for z in shown),
        ),
    )


def say_threshold(low: float, high: float, chance: float, below: float) -> str:
    """A threshold on the score, or the two ends of a bin in which lots are drawn.

    >>> say_threshold(0.5, 0.5, 0.0, 0.0), say_threshold(0.5, 0.502, 0.3, 0.125)
    ('0.500', '0.500-0.502, or lot 12 %')
    """
    lot = f", or lot {100 * below:.0f} %" if below > 0 else ""
    if min(low, high) > 0.999:
        return lot.removeprefix(", or ") or "nobody"
    if max(low, high) < 0.001:
        return "everybody"
    if low < 0.001 and chance > 0:
        return f"{high:.3f}, or lot {100 * chance:.0f} %"
    return f"{low:.3f}{lot}" if high == low else f"{low:.3f}-{high:.3f}{lot}"


def rule_words(labels: Sequence[str], thresholds: bool = True) -> list[str]:
    """Explain `rules`."""
    if not thresholds:
        return [
            "The rule is a table: the chance of every decision for each combination of scores",
            "(Run.network.rule(Run.fitted.theta)); it has no thresholds to show.",
        ]
    return [
        f"Predict {labels[1]} if the score is above the threshold of the person's group;",
        "between two numbers, by lot; below a threshold with a lot, for so many of a hundred.",
    ]


def target_words(frame: pd.DataFrame, target: float, gap: str = "ddp") -> str:
    """Say whether the target was reached, client by client."""
    known = frame[frame[gap].notna()]
    within = (known[gap] <= target).sum()
    above = list(known.loc[known[f"{gap}_low"] > target, "client"].astype(str))
    what = f"Target, {gap.upper()} at most {target:g}"
    text = f"{what}: {within} of {len(known)} clients are within it"
    if not above:
        return text + ", and none is surely above it (95 % interval)."
    return f"{text}; surely above it (95 % interval): {', '.join(above)}."


def newcomer(model: PersonalModel, rates: pd.DataFrame, heading: str) -> Table:
    """The groups of a new client: their numbers, thresholds and rates of decisions."""
    decisions = rates.columns[2:]
    columns = [
        Column("group", lambda row: str(row["group"])),
        Column("rows", lambda row: f"{row['rows']:g}"),
    ]
    if isinstance(model.network, Thresholds):  # TODO(merge): the rule's own words
        rule = model.network.rule(model.theta[None])[0]
        ends = [torch.sigmoid(one[:2]).tolist() + one[2:].tolist() for one in rule]
        rates = rates.assign(threshold=[say_threshold(*end) for end in ends])
        columns.append(Column("threshold", lambda row: row["threshold"]))

    def rate(label: str, row: pd.Series) -> str:
        return f"{100 * row[label]:.1f}" if row["rows"] else "n/a"

    shown = decisions[1:] if len(decisions) == 2 else decisions
    columns += [Column(f"{label} %", partial(rate, label)) for label in shown]
    return Table(heading=heading, frame=rates, columns=tuple(columns))


def theory(frame: pd.DataFrame, heading: str) -> Table:
    """What one fair model must cost each client, and the frontier's accuracies."""

    def best(limit: str, row: pd.Series) -> str:
        return words.percent(row[limit])

    limits = [c for c in frame.columns if c not in ("client", "role", "share_s1", "cost")]
    return Table(
        heading=heading,
        frame=frame,
        columns=(
            Column("client", _client),
            Column("role", lambda row: words.SHORT_ROLE[row["role"]]),
            Column("share\nS=1", lambda row: f"{row['share_s1']:.2f}"),
            Column("cost\npoints", lambda row: f"{100 * row['cost']:.1f}"),
            *(
                Column("any\nDDP" if float(c) >= 1 else f"DDP\n≤ {float(c):g}", partial(best, c))
                for c in limits
            ),
        ),
    )
