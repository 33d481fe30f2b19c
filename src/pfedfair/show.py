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
from pfedfair.report import tables
from pfedfair.report.reproductions import View, verdicts
from pfedfair.run import Run

FEW = 10  # people of a group at a client
FIT = 5  # clients side by side on a screen


def results(view: View, found: pd.DataFrame, out: Path, quiet: bool) -> None:
    """Write everything to `out`; print the tables, and what became of the claims."""
    paths = report.write(found, out, view.draw, view.texts)
    if quiet:
        return
    for _, rows in found.groupby(["dataset", "partition"], sort=False):
        title = tables.heading(rows)
        terminal.console.print(view.grid(rows, f"\n{view.title}\n{title}{view.shown}"))
        lines = verdicts(view, rows)
        if lines:
            what = "What came out" if view.judge else "What the paper claims"
            terminal.say(f"\n{what}, on {title} (paired by seed, 95 % interval):")
        for line in lines:
            terminal.say(line)
    terminal.console.print("\n" + "\n".join(view.legend), highlight=False)
    gone = found[found["collapsed"] & (found["method"] != "constant")]
    if len(gone):
        where = gone.groupby(["dataset", "method"]).size().reset_index(name="n")
        each = (f"{row['method']} on {row['dataset']} ({row['n']})" for _, row in where.iterrows())
        _note(f"models that predict one class for everybody: {', '.join(each)}.")
    terminal.say(f"Written to {out}: results.parquet, " + ", ".join(p.name for p in paths))


def run(done: Run, table: pd.DataFrame, title: str) -> None:
    """Print every client of one run; its rule and its target, if it has them."""
    data, algorithm = done.federation.data, done.algorithm
    criterion, gaps = _gaps(data, algorithm)
    terminal.console.print(tables.run_grid(table, f"\n{title}, {done.seconds:.1f} s", gaps))
    kind = table["protocol"].iloc[0]
    held = f"{table['n_test'].min()}" if kind == "pool" else "each client's own"
    terminal.console.print(
        f"In brackets: 95 % bootstrap interval over the held-out rows ({held}; protocol {kind}).",
        highlight=False,
    )
    _columns(data, gaps)
    gap = GAPS[criterion]
    if isinstance(algorithm, Transport):
        rules = done.rules(kind)
        heading = "\nThe decision rules"
        terminal.console.print(tables.rule_grid(rules, data.group_names, heading, gap))
        if len(data.group_names) > 3 and "low_s0" in rules:
            grid = tables.threshold_grid(rules.head(FIT), data.group_names, "\nTheir thresholds")
            terminal.console.print(grid)
            if len(rules) > FIT:
                terminal.say(f"(the first {FIT} clients; in Python, Run.rules() has them all)")
        terminal.say("\n".join(tables.rule_words(data.label_names, "low_s0" in rules)))
        terminal.say("cost: what that loses in accuracy against the likeliest label by score.")
    if isinstance(algorithm, Transport | Targeted):
        terminal.say(tables.target_words(table, algorithm.target_ddp, gap))
        if algorithm.confidence is None and (table[gap] > algorithm.target_ddp).any():
            terminal.say(
                "It was aimed at by the best guess, which is too low for some: --confidence 0.95 "
                "aims lower,\nso that it is kept for 95 % of what a client's gap may be."
            )
    _few(done)


def sites(table: pd.DataFrame, data: Dataset, algorithm: Algorithm, title: str) -> None:
    """Print what every site of a run on Flower measured."""
    _, gaps = _gaps(data, algorithm)
    terminal.console.print(tables.run_grid(table, f"\n{title}", gaps))
    terminal.say("Each site measured its own model on its own held-out rows (95 % intervals).")
    _columns(data, gaps)


def _gaps(data: Dataset, algorithm: Algorithm) -> tuple[str, list[str]]:
    """What fairness means for a method, and the gaps to show."""
    criterion = getattr(algorithm, "method", algorithm).criterion
    two = len(data.group_names) == len(data.label_names) == 2
    return criterion, ["ddp"] if two and criterion == "dp" else list(GAPS.values())


def _columns(data: Dataset, gaps: list[str]) -> None:
    """Say what the columns of `tables.run_grid` are."""
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
    terminal.console.print(tables.newcomer_grid(model, rates, f"\n{title}"))
    terminal.say(
        "\n".join(tables.rule_words(model.label_names, isinstance(model.network, Thresholds)))
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
