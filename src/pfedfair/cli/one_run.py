"""Commands about one run: train, personalise, theory."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from pfedfair import report
from pfedfair._util import terminal
from pfedfair._util.errors import InputError
from pfedfair._util.files import read_json
from pfedfair.cli import images, options, pages
from pfedfair.cli.options import DataOptions, OneMethod, Protocol, Quiet, Seed, Settings, unfold
from pfedfair.data.tables.reading import read_table
from pfedfair.engines.local import one_thread
from pfedfair.experiments import FRONTIER_LIMITS, Spec, claim, rows_of, write_results
from pfedfair.methods import defaults
from pfedfair.report.document import NAME
from pfedfair.runs import Run, measured_rows, newcomer, prepare, run_training
from pfedfair.runs.callbacks import Callback, Training
from pfedfair.runs.model import UnseenWarning
from pfedfair.studies import judgement, one_run
from pfedfair.theory import cost_of_one_model


@unfold
@one_thread()
def train(
    data_options: DataOptions,
    method: OneMethod,
    settings: Settings,
    seed: Seed = 0,
    protocol: Protocol = None,
    out: Annotated[Path | None, "Folder for models, results and the page, report.html."] = None,
    certify: Annotated[
        bool,
        "Certify the target at every client whose rows allow it: distribution-free, at all of them "
        "jointly, with the method's confidence level (0.95); trains up to ten times more.",
    ] = False,
    live: pages.IsLive = False,
    quiet: Quiet = False,
) -> None:
    """Train one method and show what every client got.

    Example: pfedfair train adult --method pfedfair --eta 0.9 --out runs/first
    """
    name = method.name(data_options)
    data_options = data_options.suited(name)
    plan = data_options.plan()
    algorithm = method.make(data_options, plan, settings)
    protocol = options.checked_protocol(protocol)
    aware = data_options.aware(settings.blind)
    spec = Spec(data_options.source, plan, name, algorithm, seed, protocol, aware)
    federation = data_options.federate(plan, seed, settings.blind)
    measured_rows(federation.partition, protocol)
    training = prepare(federation, algorithm, seed, certify=certify)
    if live and out is None:
        raise InputError("--live writes the page to the folder of --out: name one.")
    card = {"part": "train", "runs": [spec.describe()]}
    if out is not None:
        claim(out, card, write=live)
    if not quiet:
        for note in images.notes_on(federation.data, plan, federation.partition):
            terminal.say(f"Note: {note}")
        for line in federation.words():
            terminal.say(f"{line}.")
        terminal.say(federation.describe())
        if reason := method.reason(data_options):
            terminal.say(reason)
        terminal.say(defaults.words(data_options.dataset, name, algorithm))
    title = f"{name} on {federation.data.name}"
    watch = [pages.Watch(out, title)] if live and out is not None else []
    run = replace(_train(training, title, quiet, watch), command=options.command_line()).record
    results, rules = rows_of(run, spec), run.rules(protocol)
    judged = judgement.of_run(run, results, rules)
    view = one_run.of_run(run, judged)
    if out is not None:
        claim(out, card)
        run.save(out)
        write_results(out, results, rules)
        report.history.write(run.history, out)
        pages.of_one_run(run, judged, view, out, quiet).save(out / NAME)
    if not quiet:
        report.terminal.show(view, terminal.console)
        if run.doubts:
            terminal.say(f"Note: {run.doubts}")
        if out is not None:
            terminal.say(
                f"Saved to {out}: models, predictions, results, history.csv and the page, {NAME}."
            )
        else:
            terminal.say("Not saved: name a folder with --out.")


@unfold
def personalise(
    run: Annotated[Path, typer.Argument(help="A folder that train --method transport wrote.")],
    input: Annotated[Path, "The new client's rows: a table such as .csv, .parquet, .xlsx."],
    name: Annotated[str, "The new client's name."] = "newcomer",
    target_ddp: options.TargetDDP = None,
    confidence: options.Confidence = None,
    certify: Annotated[
        bool, "Certify the target for this client, from rows that were not in training."
    ] = False,
    out: Annotated[Path | None, "Folder for its model."] = None,
    quiet: Quiet = False,
) -> None:
    """Give a client that was not in training its fair rule, from its own rows without labels.

    Example: pfedfair personalise runs/first --input new-site.csv --out runs/new-site
    """
    with terminal.notes(quiet):
        people = read_table(input)
    changes = options.typed(target_ddp=target_ddp, confidence=confidence)
    if out is not None:
        options.new_folder(out)
    with terminal.notes(quiet):
        model = newcomer.personalise(run, people, name, out, certify=certify, **changes)
    if not quiet:
        with warnings.catch_warnings():  # the same as above
            warnings.simplefilter("ignore", UnseenWarning)
            rates = newcomer.rates(model, people, read_json(run / "run.json")["sensitive_column"])
        view = one_run.newcomer(model, rates, f"{name}: {len(people)} rows")
        report.terminal.show(view, terminal.console)
        if certify:
            level = model.predictor.rule.facts["certificate_level"]
            terminal.say(f"Certified with {100 * level:g} % confidence.")
        if out is not None:
            terminal.say(f"Saved to {out}: model.safetensors, run.json")


@unfold
def theory(
    data_options: DataOptions, seed: Seed = 0, rounds: options.Rounds = None, quiet: Quiet = False
) -> None:
    """Say what one fair model must cost each client, and the best that thresholds can do.

    Example: pfedfair theory adult
    """
    plan = data_options.plan()
    federation = data_options.federate(plan, seed)
    name = defaults.trainer(data_options.dataset)
    algorithm = data_options.make(plan, name, options.typed(rounds=rounds))
    if not federation.table.task.binary:
        raise InputError("Both propositions are for two groups and two classes.")
    if data_options.weight is not None:
        raise InputError("Both propositions are for rows that count alike: leave out --weight.")
    measured_rows(federation.partition, None)
    run = _train(prepare(federation, algorithm, seed), f"{name} on {federation.data.name}", quiet)
    if not quiet:
        cost = cost_of_one_model(federation.partition)
        heading = f"{federation.data.name}, seed {seed}"
        view = one_run.theory(run.frontier(FRONTIER_LIMITS), cost, heading)
        report.terminal.show(view, terminal.console)


def _train(training: Training, title: str, quiet: bool, watch: Sequence[Callback] = ()) -> Run:
    """Train with a progress bar; on one thread, so that weights are the same on every machine.

    Scores are so, too, and waiting for other threads takes longer than the work of one.
    """
    done = 0.0
    with terminal.progress(title, 1.0, quiet) as advance, terminal.notes(quiet), one_thread():

        def on_work(part: float) -> None:
            nonlocal done
            done += part
            advance(done, "")

        return run_training(training, on_work, watch)
