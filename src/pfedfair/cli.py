"""The command line."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import click
import pandas as pd
import typer

from pfedfair import newcomer, options, show, terminal
from pfedfair.algorithms import ALGORITHMS
from pfedfair.data.table import read_table
from pfedfair.defaults import levels
from pfedfair.engines.stacked import one_thread
from pfedfair.errors import InputError, known
from pfedfair.experiment import (
    FRONTIER,
    FRONTIER_LIMITS,
    Spec,
    claim,
    load_source,
    prepare,
    read_results,
    run_experiment,
)
from pfedfair.files import read_json, write_parquet
from pfedfair.flower_cli import app as flower
from pfedfair.networks import Kinds
from pfedfair.options import (
    Blind,
    Categorical,
    Client,
    Clients,
    Confidence,
    Criterion,
    Data,
    Drop,
    Jobs,
    Label,
    MergeGroups,
    Partition,
    Penalty,
    Protocol,
    Quiet,
    Rounds,
    Rows,
    Seeds,
    Sensitive,
    TargetDDP,
)
from pfedfair.run import choose_network, measured_rows
from pfedfair.run import train as train_run
from pfedfair.studies import STUDIES, comparison, one_run
from pfedfair.theory import cost_of_one_model

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Train one model together, give every client its own fair version of it, "
    "and show each client what it got.",
)
app.add_typer(flower, name="flower")
INTERRUPTED = 130  # typer's exit code for Ctrl-C


@app.command()
def train(
    data: Data,
    method: Annotated[str, typer.Option(help=f"One of {', '.join(ALGORITHMS)}.")] = "pfedfair",
    eta: Annotated[float, typer.Option(help="Weight of the fairness penalty, in [0, 1).")] = 0.9,
    penalty: Penalty = "kde",
    criterion: Criterion = "dp",
    lam: Annotated[float | None, typer.Option(help="pFedFair's lambda.")] = None,
    gamma: Annotated[float | None, typer.Option(help="Strength of the Moreau tie.")] = None,
    target_ddp: TargetDDP = None,
    confidence: Confidence = None,
    clients: Clients = None,
    rows: Rows = None,
    partition: Partition = "fixed",
    label: Label = None,
    sensitive: Sensitive = None,
    client: Client = None,
    drop: Drop = None,
    categorical: Categorical = None,
    merge_groups: MergeGroups = False,
    blind: Blind = False,
    seed: Annotated[int, typer.Option(help="Root of all random numbers.")] = 0,
    rounds: Rounds = None,
    protocol: Protocol = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the models and the table.")] = None,
    quiet: Quiet = False,
) -> None:
    """Train one method and show what every client got.

    Example: pfedfair train adult --method pfedfair --eta 0.9 --out runs/first
    """
    source = options.make_source(data, label, sensitive, drop, categorical, merge_groups)
    plan = options.make_plan(partition, clients, rows, client, source=source)
    algorithm = options.make_algorithm(
        source,
        plan,
        method,
        rounds,
        eta=eta,
        penalty=penalty,
        criterion=criterion,
        lam=lam,
        gamma=gamma,
        target_ddp=target_ddp,
        confidence=confidence,
    )
    spec = Spec(
        source,
        plan,
        method,
        algorithm,
        options.checked_seed(seed),
        options.checked_protocol(protocol),
        not blind,
    )
    federation = load_source(source).federate(plan, seed, not blind)
    measured_rows(federation.partition, protocol)
    choose_network(federation, algorithm)
    card = {"train": spec.describe()}
    if out is not None:
        claim(out, card, write=False)
    if not quiet:
        terminal.say(federation.describe())
    with (
        terminal.progress(f"{method} on {federation.data.name}", 1.0, quiet) as advance,
        terminal.notes(quiet),
        one_thread(),
    ):
        done = 0.0

        def on_work(part: float) -> None:
            nonlocal done
            done += part
            advance(done, "")

        run = train_run(federation, algorithm, seed, on_work=on_work)
    table = run.table(protocol)
    if out is not None:
        claim(out, card)
        run.save(out)
        write_parquet(out / "clients.parquet", table)
    if not quiet:
        show.run(run, table, f"{method} on {federation.data.name}, seed {seed}")
        if out is not None:
            terminal.say(f"Saved to {out}: model.safetensors, run.json, clients.parquet")


@app.command()
def compare(
    data: Data,
    methods: Annotated[
        str, typer.Option(help="Names with commas between; the constant classifier joins in.")
    ] = "kde-local,fedavg-kde,pfedme-kde,pfedfair",
    etas: Annotated[
        str, typer.Option(help="Values of eta for the fair methods.")
    ] = "0,0.3,0.6,0.9",
    penalty: Penalty = "kde",
    criterion: Criterion = "dp",
    seeds: Seeds = 3,
    clients: Clients = None,
    rows: Rows = None,
    partition: Partition = "fixed",
    label: Label = None,
    sensitive: Sensitive = None,
    client: Client = None,
    drop: Drop = None,
    categorical: Categorical = None,
    merge_groups: MergeGroups = False,
    blind: Blind = False,
    rounds: Rounds = None,
    protocol: Protocol = None,
    validation: Annotated[
        float,
        typer.Option(help="Part of the training rows to set aside; then methods get a score."),
    ] = 0.0,
    out: Annotated[Path, typer.Option(help="Folder for results; a second call resumes.")] = Path(
        "runs/compare"
    ),
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Compare methods over eta and seeds: a trade-off table and figure.

    FA, FCFL, LoGoFair and transport have limits of their own in the place of eta. With
    --validation 0.2 each method gets a trade-off score, its points chosen on the rows set aside.

    Example: pfedfair compare compas --methods fedavg-kde,pfedfair --seeds 5 --out runs/compas
    """
    source = options.make_source(data, label, sensitive, drop, categorical, merge_groups)
    plan = options.make_plan(partition, clients, rows, client, validation, source)
    names = options.unique(["constant", *methods.split(",")])
    values = options.numbers(etas)
    options.checked_protocol(protocol)
    runs = [
        (
            name,
            options.make_algorithm(
                source, plan, name, rounds, penalty=penalty, criterion=criterion, **level
            ),
        )
        for name in names
        for level in levels(name, values)
    ]
    shape = load_source(source)
    if len(shape.group_names) == len(shape.label_names) == 2 and criterion == "dp":
        runs.append((FRONTIER, options.make_algorithm(source, plan, "fedavg", rounds)))
    specs = [
        Spec(source, plan, name, algorithm, seed, protocol, not blind, validation > 0)
        for name, algorithm in runs
        for seed in range(options.at_least_one(seeds))
    ]
    results = _run(specs, out, jobs, quiet, f"{len(names)} methods on {data}")
    show.results(comparison.view(results), out, quiet)


@app.command()
def reproduce(
    what: Annotated[str, typer.Argument(help=f"{', '.join(STUDIES)}, or all.")],
    datasets: Annotated[
        str | None, typer.Option(help="Names with commas between; the paper's if left out.")
    ] = None,
    seeds: Seeds = 5,
    protocol: Protocol = None,
    out: Annotated[Path | None, typer.Option(help="Folder; by default runs/WHAT.")] = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Redo a table or figure of the paper on the real data, the paper's numbers beside ours.

    "all" is all of the paper's. "scores" (the trade-off of every method; an hour and a half on two
    cores with 5 seeds), "targets" (asked for and reached) and "stress" (clients whose people
    differ) are ours.

    Example: pfedfair reproduce table1 --seeds 5 --out runs/table1
    """
    known("part of the paper", what, [*STUDIES, "all"])
    options.checked_protocol(protocol)
    out = out or Path("runs") / what
    every = [name for name, study in STUDIES.items() if study.in_paper]
    for name in every if what == "all" else [what]:
        folder = out / name if what == "all" else out
        study = STUDIES[name]
        chosen = options.unique(datasets.split(",")) if datasets else list(study.datasets)
        for one in chosen:
            known("data set", one, list(study.datasets))
        specs = study.specs(tuple(chosen), options.at_least_one(seeds), protocol)
        began = time.monotonic()
        runs = out / "runs" if what == "all" else None  # figures have many runs in common
        told = f"{name} on {' and '.join(chosen)}"
        results = _run(specs, folder, jobs, quiet, told, name, runs)
        show.results(study.view(results), folder, quiet)
        if not quiet:
            terminal.say(f"{study.title}: {time.monotonic() - began:.0f} s")


@app.command()
def theory(
    data: Data,
    clients: Clients = None,
    rows: Rows = None,
    partition: Partition = "fixed",
    label: Label = None,
    sensitive: Sensitive = None,
    client: Client = None,
    drop: Drop = None,
    categorical: Categorical = None,
    merge_groups: MergeGroups = False,
    seed: Annotated[int, typer.Option(help="Root of all random numbers.")] = 0,
    rounds: Rounds = None,
    quiet: Quiet = False,
) -> None:
    """Say what one fair model must cost each client, and the best that thresholds can do.

    Example: pfedfair theory adult
    """
    source = options.make_source(data, label, sensitive, drop, categorical, merge_groups)
    plan = options.make_plan(partition, clients, rows, client, source=source)
    federation = load_source(source).federate(plan, options.checked_seed(seed))
    algorithm = options.make_algorithm(source, plan, "fedavg", rounds)
    if federation.table.kinds != Kinds():
        raise InputError("Both propositions are for two groups and two classes.")
    measured_rows(federation.partition, None)
    with (
        terminal.progress(f"fedavg on {federation.data.name}", 1.0, quiet),
        terminal.notes(quiet),
        one_thread(),
    ):
        run = train_run(federation, algorithm, seed)
    best = run.frontier(FRONTIER_LIMITS).pivot(
        index=["client", "role", "share_s1"], columns="target_ddp", values="accuracy"
    )
    table = best.loc[list(federation.partition.names)].reset_index()
    table.insert(3, "cost", cost_of_one_model(federation.partition))
    if not quiet:
        show.table(one_run.theory(table, f"{federation.data.name}, seed {seed}"))
        terminal.say(
            "cost: what a single fair model must cost the client in accuracy, were labels a "
            "function of\nX and S (Proposition 1; with noisy labels it is less). Then the accuracy "
            "of a FedAvg model's\ndecisions with the best thresholds by group for DDP at most 0, "
            "0.02, ... (Proposition 2),\nset and measured on the held-out rows."
        )


@app.command()
def personalise(
    run: Annotated[Path, typer.Argument(help="A folder that train --method transport wrote.")],
    input: Annotated[Path, typer.Option(help="The new client's rows, .csv or .parquet.")],
    name: Annotated[str, typer.Option(help="The new client's name.")] = "newcomer",
    target_ddp: TargetDDP = None,
    confidence: Confidence = None,
    out: Annotated[Path | None, typer.Option(help="Folder for its model.")] = None,
    quiet: Quiet = False,
) -> None:
    """Give a client that was not in training its fair rule, from its own unlabelled rows.

    Example: pfedfair personalise runs/first --input new-site.csv --out runs/new-site
    """
    people = read_table(input)
    asked = {"target_ddp": target_ddp, "confidence": confidence}
    changes = {key: value for key, value in asked.items() if value is not None}
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} exists and is not empty: choose another --out.")
    model = newcomer.personalise(run, people, name, out, **changes)
    if not quiet:
        rates = newcomer.rates(model, people, read_json(run / "run.json")["sensitive_column"])
        show.newcomer(model, rates, f"{name}: {len(people)} rows")
        if out is not None:
            terminal.say(f"Saved to {out}: model.safetensors, run.json")


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="A folder with results.parquet.")],
    quiet: Quiet = False,
) -> None:
    """Make tables (Markdown, CSV) and the trade-off figure (PNG, SVG) from results.parquet."""
    results = read_results(folder)
    card = folder / "experiment.json"
    part = read_json(card).get("part") if card.exists() else None
    view = STUDIES[part].view if part in STUDIES else comparison.view
    show.results(view(results), folder, quiet)


def _run(
    specs: list[Spec],
    out: Path,
    jobs: int | None,
    quiet: bool,
    what: str,
    part: str | None = None,
    runs: Path | None = None,
) -> pd.DataFrame:
    prepare(specs, out, jobs, part)
    total = sum(spec.work for spec in specs)
    with terminal.progress(what, total, quiet) as advance:

        def on_work(work: float, done: int) -> None:
            advance(work, f"{done}/{len(specs)} runs")

        return run_experiment(specs, out, jobs, on_work, part, runs)


def main() -> None:
    """Run the command line: exit code 2 and one sentence on bad input."""
    try:
        code = app(standalone_mode=False) or 0
        if code == INTERRUPTED:
            kept = "Finished runs are kept: the same command goes on from there."
            terminal.errors.print(
                "Interrupted." if sys.argv[1] in ("train", "flower") else f"Interrupted. {kept}"
            )
            sys.stderr.flush()
            os._exit(code)  # at once: what the killed workers left undone is nobody's
        sys.exit(code)
    except click.exceptions.NoArgsIsHelpError as nothing:
        print(nothing.format_message())
    except click.ClickException as error:
        terminal.fail(error.format_message(), 2)
    except InputError as error:
        terminal.fail(str(error), 2)
    except OSError as error:
        terminal.fail(f"{error.filename or 'A file'}: {error.strerror or error}.", 2)
