"""Commands that do many runs, or show them: compare, reproduce, report."""

import time
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from pfedfair import terminal
from pfedfair.algorithms import ALGORITHMS
from pfedfair.cli import images, options
from pfedfair.cli.options import Jobs, People, Protocol, Quiet, Seeds, Settings, unfold
from pfedfair.defaults import takes, trainer
from pfedfair.errors import InputError, known
from pfedfair.experiment import Spec, do_runs, prepare, read_results
from pfedfair.files import read_json
from pfedfair.report import show
from pfedfair.studies import STUDIES, comparison, one_run
from pfedfair.studies.rows import CONSTANT


@unfold
def compare(
    people: People,
    *,
    methods: Annotated[
        str, "Names with commas between; the constant classifier joins in."
    ] = "kde-local,fedavg-kde,pfedme-kde,pfedfair",
    etas: Annotated[
        str | None, "Values of eta for methods that have it; 0,0.3,0.6,0.9 if left out."
    ] = None,
    settings: Settings,
    seeds: Seeds = 3,
    protocol: Protocol = None,
    validation: Annotated[
        float, "Part of the training rows to set aside; then methods get a score."
    ] = 0.0,
    out: Annotated[Path, "Folder for results; a second call resumes."] = Path("runs/compare"),
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Compare methods over how fair they are, and over seeds: a table and a figure.

    Methods without eta have a limit of their own in its place. With --validation
    0.2 each method gets a trade-off score, its points chosen on the rows set
    aside. A setting (--penalty, --set) goes to the methods that have it.

    Example: pfedfair compare compas --methods fedavg-kde,pfedfair --seeds 5
    """
    plan = people.plan(validation)
    names = options.names(f"{CONSTANT},{methods}")
    for name in names:
        known("method", name, ALGORITHMS)
    try:
        values = [float(eta) for eta in options.names(etas or "0,0.3,0.6,0.9")]
    except ValueError:
        raise InputError(f"--etas must be numbers with commas between, got '{etas}'.") from None
    if etas and not any(ALGORITHMS[name].fair for name in names):
        raise InputError("--etas means nothing to these methods: leave it out.")
    options.checked_protocol(protocol)
    given = settings.given()
    for key in given:
        if not any(takes(name, key, given) for name in names):
            raise InputError(f"'{key.replace('_', '-')}' means nothing to these methods.")
    runs = []
    for name in names:
        own = {key: value for key, value in given.items() if takes(name, key, given)}
        for level in ALGORITHMS[name].levels(values):
            more = {} if {*level, "target_ddp"} & set(own) else level  # it was set to one value
            runs.append((name, people.make(plan, name, own | more), False))
    runs = options.unique(runs)
    data = people.dataset
    two = len(data.group_names) == len(data.label_names) == 2 and data.weight is None
    if two and given.get("criterion", "dp") == "dp":
        rounds, scores = options.typed(rounds=given.get("rounds")), trainer(data)
        runs.append((scores, people.make(plan, scores, rounds), True))
    specs = [
        Spec(people.source, plan, name, algorithm, seed, protocol, people.told(settings.blind),
             validation > 0, frontier)
        for name, algorithm, frontier in runs
        for seed in range(options.at_least("--seeds", seeds))
    ]  # fmt: skip
    part = plan.split(data, 0)
    notes = (*images.notes_on(data, plan, part), *part.notes)
    results = do(specs, out, jobs, quiet, f"{len(names)} methods on {people.data}", notes=notes)
    view = comparison(results)
    show(view.noting(notes), out, quiet)


@unfold
def reproduce(
    what: Annotated[str, typer.Argument(help=f"{', '.join(STUDIES)}, or all.")],
    datasets: Annotated[
        str | None, "Names with commas between; all that the study has if left out."
    ] = None,
    methods: Annotated[
        str | None, "Some rows of the study, with commas between; the constant is always there."
    ] = None,
    seeds: Seeds = 5,
    protocol: Protocol = None,
    rounds: Annotated[
        int | None, "Rounds of training; as tuned if left out. For a quick try."
    ] = None,
    data: Annotated[
        Path | None, "Where data sets are that are not bundled: faces, acs, heart."
    ] = None,
    encoder: Annotated[
        str | None, "Whose embeddings to take, if there are several, or to make."
    ] = None,
    out: Annotated[Path | None, "Folder; by default runs/WHAT."] = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Redo a table or figure of the paper on the real data, the paper's numbers beside ours.

    "all" is all of the paper's. "scores" (the trade-off of every method; up to two
    hours on two cores with 5 seeds), "targets" (asked for and reached) and "stress"
    (clients whose people differ) and "states" (clients that nobody made) are ours.
    Faces (celeba, utkface, fairface), acs and heart need --data FOLDER, where they
    are.

    Example: pfedfair reproduce table1 --seeds 5 --out runs/table1
    """
    known("study", what, [*STUDIES, "all"])
    if what == "all" and methods:
        raise InputError("--methods is for one study: not every one has the same rows.")
    options.checked_protocol(protocol)
    out = out or Path("runs") / what
    every = [name for name, study in STUDIES.items() if study.in_paper]
    for name in every if what == "all" else [what]:
        folder, study = out / name if what == "all" else out, STUDIES[name]
        chosen = options.names(datasets or "") or images.usual(study, data)
        for one in chosen:
            known("data set", one, (*study.datasets, *study.elsewhere))
        sources = [images.source(one, data, encoder) for one in chosen]
        names = options.names(methods or "")
        specs = study.specs(sources, options.at_least("--seeds", seeds), protocol, rounds, names)
        specs, notes = images.there(specs, name, needed=what != "all")
        if not specs:
            for note in () if quiet else notes:
                terminal.say(f"Note: {note}")
            continue
        began = time.monotonic()
        runs = out / "runs" if what == "all" else None  # figures have many runs in common
        told = f"{name} on {' and '.join(dict.fromkeys(spec.source.name for spec in specs))}"
        view = study.view(do(specs, folder, jobs, quiet, told, name, runs, notes))
        show(view.noting(notes), folder, quiet)
        if not quiet:
            terminal.say(f"{study.title}: {time.monotonic() - began:.0f} s")


@unfold
def report(
    folder: Annotated[Path, typer.Argument(help="A folder with results.parquet.")],
    quiet: Quiet = False,
) -> None:
    """Show the results in a folder of train, compare or reproduce again: tables and figures.

    Example: pfedfair report runs/compas
    """
    results = read_results(folder)
    card = folder / "experiment.json"
    about = read_json(card) if card.exists() else {}
    part = about.get("part")
    make = STUDIES[part].view if part in STUDIES else comparison
    view = one_run.saved(folder, results) if part == "train" else make(results)
    show(view.noting(about.get("notes", ())), folder, quiet)


def do(
    specs: list[Spec],
    out: Path,
    jobs: int | None,
    quiet: bool,
    what: str,
    part: str | None = None,
    runs: Path | None = None,
    notes: tuple[str, ...] = (),
) -> pd.DataFrame:
    """Do all runs with a progress bar; return the results."""
    jobs = prepare(specs, out, jobs, part, notes)  # what is wrong is said before there is a bar
    n, work = len(specs), sum(spec.work for spec in specs)
    with terminal.progress(what, work, quiet) as advance:
        return do_runs(specs, out, jobs, lambda w, done: advance(w, f"{done}/{n} runs"), runs)
