"""What the commands print of their results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from rich.markup import escape

from pfedfair import report, terminal
from pfedfair.algorithms import Algorithm, Targeted, Transport
from pfedfair.data import Dataset
from pfedfair.metrics import GAPS
from pfedfair.model import PersonalModel
from pfedfair.networks import Thresholds
from pfedfair.run import Run
from pfedfair.studies import Table, View, one_run

FEW = 10  # people of a group at a client


def results(view: View, out: Path, quiet: bool) -> None:
    """Write everything to `out`, and print it."""
    paths = report.write(view, out)
    if not quiet:
        report.terminal.show(view, terminal.console)
        names = ", ".join(["results.parquet", *(path.name for path in paths)])
        report.terminal.say(f"Written to {out}: {names}", terminal.console)


def table(one: Table) -> None:
    report.terminal.print_table(one, terminal.console)


def run(done: Run, clients: pd.DataFrame, title: str) -> None:
    """Print every client of one run; its rule and its target, if it has them."""
    data, algorithm = done.federation.data, done.algorithm
    criterion, gaps = _gaps(data, algorithm)
    table(one_run.clients(clients, f"{title}, {done.seconds:.1f} s", gaps))
    kind = clients["protocol"].iloc[0]
    held = f"{clients['n_test'].min()}" if kind == "pool" else "each client's own"
    terminal.console.print(
        f"In brackets: 95 % bootstrap interval over the held-out rows ({held}; protocol {kind}).",
        highlight=False,
    )
    _columns(data, gaps)
    gap = GAPS[criterion]
    if isinstance(algorithm, Transport):
        rules = done.rules(kind)
        table(one_run.rules(rules, data.group_names, "The decision rules", gap))
        terminal.say("\n".join(one_run.rule_words(data.label_names, "low_s0" in rules)))
        terminal.say("cost: what that loses in accuracy against the likeliest label by score.")
    if isinstance(algorithm, Transport | Targeted):
        terminal.say(one_run.target_words(clients, algorithm.target_ddp, gap))
        if algorithm.confidence is None and (clients[gap] > algorithm.target_ddp).any():
            terminal.say(
                "It was aimed at by the best guess, which is too low for some: --confidence 0.95 "
                "aims lower,\nso that it is kept for 95 % of what a client's gap may be."
            )
    _few(done)


def sites(clients: pd.DataFrame, data: Dataset, algorithm: Algorithm, title: str) -> None:
    """Print what every site of a run on Flower measured."""
    _, gaps = _gaps(data, algorithm)
    table(one_run.clients(clients, title, gaps))
    terminal.say("Each site measured its own model on its own held-out rows (95 % intervals).")
    _columns(data, gaps)


def _gaps(data: Dataset, algorithm: Algorithm) -> tuple[str, list[str]]:
    """What fairness means for a method, and the gaps to show."""
    criterion = getattr(algorithm, "method", algorithm).criterion
    two = len(data.group_names) == len(data.label_names) == 2
    return criterion, ["ddp"] if two and criterion == "dp" else list(GAPS.values())


def _columns(data: Dataset, gaps: list[str]) -> None:
    """Say what the columns of `one_run.clients` are."""
    names = ", ".join(f"S={z}: {name}" for z, name in enumerate(data.group_names))
    meaning = "NPR: negative prediction rate, P(Yhat=0 | S). "
    if len(gaps) > 1:
        meaning = (
            "With several groups or predictions the largest counts. EO: the\nsame gap among people "
            f"of equal label; EOPP: of predicting {escape(data.label_names[-1])} among those who "
            "are.\n"
        )
    terminal.console.print(
        "rows: training rows. DDP: gap between the groups' rates of positive "
        f"predictions.\n{meaning}↑ higher is better, ↓ lower is better.\n{escape(names)}",
        highlight=False,
    )


def newcomer(model: PersonalModel, rates: pd.DataFrame, title: str) -> None:
    """Print the rule of a client that was not in training, and what it does to its rows."""
    table(one_run.newcomer(model, rates, title))
    terminal.say(
        "\n".join(one_run.rule_words(model.label_names, isinstance(model.network, Thresholds)))
    )
    absent = list(rates.loc[rates["rows"] == 0, "group"])
    if absent:
        _note(f"no rows of {', '.join(absent)}: the target does not hold for such people.")
    if (rates[rates["rows"] > 0].iloc[:, 2:] == 1).all().any():
        _note("everybody gets the same decision: these rows do not allow more.")


def _few(done: Run) -> None:
    """Say which clients have too few people of a group for its rates to be told."""
    part = done.federation.partition
    names = done.federation.data.group_names
    counts = [np.bincount(part.data.s[rows], minlength=len(names)) for rows in part.train]
    few = [
        f"{part.names[i]} ({count[z]} of {names[z]})"
        for i, count in enumerate(counts)
        for z in range(len(names))
        if 0 < count[z] < FEW
    ]
    if few:
        more = f" and {len(few) - 3} more" if len(few) > 3 else ""
        _note(f"too few people to tell a group's rates: client {', '.join(few[:3])}{more}.")


def _note(text: str) -> None:
    terminal.console.print(f"[yellow]Note:[/] {escape(text)}", highlight=False)
