"""What the commands print of their results."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from rich.markup import escape

from pfedfair import report, terminal
from pfedfair.algorithms import Targeted, Transport
from pfedfair.model import PersonalModel
from pfedfair.report import tables
from pfedfair.report.reproductions import View, verdicts
from pfedfair.run import Run


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
    data = done.federation.data
    terminal.console.print(tables.run_grid(table, f"\n{title}, {done.seconds:.1f} s"))
    kind = table["protocol"].iloc[0]
    held = f"{table['n_test'].min()}" if kind == "pool" else "each client's own"
    terminal.console.print(
        f"In brackets: 95 % bootstrap interval over the held-out rows ({held}; protocol "
        f"{kind}).\nrows: training rows. DDP: gap between the groups' rates of positive "
        "predictions.\nNPR: negative prediction rate, P(Yhat=0 | S). ↑ higher is better, "
        "↓ lower is better.\n" + escape("S=0: {}, S=1: {}".format(*data.group_names)),
        highlight=False,
    )
    if isinstance(done.algorithm, Transport):
        rules = done.rules(kind)
        terminal.console.print(tables.rule_grid(rules, data.group_names, "\nThe decision rules"))
        terminal.say("\n".join(tables.rule_words(data.label_names)))
        terminal.say("cost: what that loses in accuracy against the threshold 0.5 for all.")
    if isinstance(done.algorithm, Transport | Targeted):
        terminal.say(tables.target_words(table, done.algorithm.target_ddp))


def newcomer(model: PersonalModel, rates: pd.DataFrame, title: str) -> None:
    """Print the rule of a client that was not in training, and what it does to its rows."""
    terminal.console.print(tables.newcomer_grid(model, rates, f"\n{title}"))
    terminal.say("\n".join(tables.rule_words(model.label_names)))
    if rates["rate"].nunique() == 1 and rates["rate"].iloc[0] in (0, 1):
        _note("everybody gets the same decision: these rows do not allow more.")


def _note(text: str) -> None:
    terminal.console.print(f"[yellow]Note:[/] {escape(text)}", highlight=False)
