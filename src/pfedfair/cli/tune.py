"""The command that finds settings for a data set: tune."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pfedfair import terminal
from pfedfair.cli import options
from pfedfair.cli.options import Jobs, People, Quiet, unfold
from pfedfair.files import atomic
from pfedfair.studies import tune as search


@unfold
def tune(
    people: People,
    methods: Annotated[
        str | None, typer.Option(help="Names with commas between; all if left out.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds: 100, 101, ...")] = 2,
    out: Annotated[Path, typer.Option(help="Folder for the trials; a second call resumes.")] = Path(
        "runs/tune"
    ),
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Find settings of methods for a data set, on rows set aside from the training rows.

    Every method gets twelve trials. The best settings are written to OUT/tuned.toml; give them to
    train with --set, or put them into the project's defaults.

    Example: pfedfair tune people.csv --label hired --sensitive sex --client site --methods pfedfair
    """
    plan = people.plan()
    names = options.unique(methods.split(",")) if methods else search.tuned_methods()
    with terminal.progress(f"trials on {people.data}", 1.0, quiet) as advance:

        def on_work(work: float, done: int, total: int) -> None:
            advance(work, f"{done}/{total} runs")

        seeds = options.at_least_one("--seeds", seeds)
        table, text = search.tune(people.source, plan, names, seeds, out, jobs, on_work)
    with atomic(out / "tuned.toml") as beside:
        beside.write_text(text)
    with atomic(out / "trials.csv") as beside:
        table.to_csv(beside, index=False)
    if not quiet:
        terminal.say(text)
        terminal.say(f"Written to {out}: tuned.toml, trials.csv")
