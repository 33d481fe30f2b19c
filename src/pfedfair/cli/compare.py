"""Commands that do many runs, or show them: compare, reproduce, report."""

import time
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from pfedfair._util import terminal
from pfedfair._util.errors import InputError, known
from pfedfair.cli import images, options, pages
from pfedfair.cli.options import (
    Cluster,
    DataOptions,
    Jobs,
    Protocol,
    Quiet,
    Seeds,
    Settings,
    unfold,
)
from pfedfair.experiments import Spec, prepare
from pfedfair.experiments.grid import RUNS
from pfedfair.methods import METHODS
from pfedfair.methods.defaults import takes, trainer
from pfedfair.report import show
from pfedfair.report.document import NAME
from pfedfair.studies import STUDIES, comparison
from pfedfair.studies.page import of_results
from pfedfair.studies.rows import CONSTANT


@unfold
def compare(
    data_options: DataOptions,
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
        float, "Part of the training rows to validate on; then methods get a score."
    ] = 0.0,
    out: Annotated[Path, "Folder for results; a second call resumes."] = Path("runs/compare"),
    jobs: Jobs = None,
    cluster: Cluster = None,
    live: pages.IsLive = False,
    quiet: Quiet = False,
) -> None:
    """Compare methods at the same fairness, over seeds: which is clearly the best, if any is.

    With fewer than three seeds none is ranked. Methods without eta have a limit of
    their own instead. With --validation 0.2 each method gets a trade-off score, its
    points chosen on the validation rows. A setting (--penalty, --set) goes to the
    methods that have it.

    Example: pfedfair compare compas --methods fedavg-kde,pfedfair --seeds 5
    """
    plan = data_options.plan(validation)
    names = options.names(f"{CONSTANT},{methods}")
    for name in names:
        known("method", name, METHODS)
    try:
        values = [float(eta) for eta in options.names(etas or "0,0.3,0.6,0.9")]
    except ValueError:
        raise InputError(f"--etas must be numbers with commas between, got '{etas}'.") from None
    if etas and not any(METHODS[name].fair for name in names):
        raise InputError("--etas means nothing to these methods: leave it out.")
    options.checked_protocol(protocol)
    given = settings.given()
    for key in given:
        if not any(takes(name, key, given) for name in names):
            raise InputError(f"'{key.replace('_', '-')}' means nothing to these methods.")
    runs = []
    for name in names:
        own = {key: value for key, value in given.items() if takes(name, key, given)}
        for level in METHODS[name].levels(values):
            average = METHODS[name].kind.dial.average
            is_set = ({*level, "target_ddp"} - {*average}) & set(own)  # to one value
            more = {} if is_set else level
            runs.append((name, data_options.make(plan, name, more | own), False))
    runs = options.unique(runs)
    data = data_options.dataset
    two = len(data.group_names) == len(data.label_names) == 2 and data.weight is None
    if two and given.get("criterion", "dp") == "dp":
        rounds, scores = options.typed(rounds=given.get("rounds")), trainer(data)
        runs.append((scores, data_options.make(plan, scores, rounds), True))
    aware = data_options.aware(settings.blind)
    specs = [
        Spec(data_options.source, plan, name, algorithm, seed, protocol, aware,
             validation > 0, frontier)
        for name, algorithm, frontier in runs
        for seed in range(options.at_least("--seeds", seeds))
    ]  # fmt: skip
    part = plan.split(data, 0)
    notes = (*images.notes_on(data, plan, part), *part.notes)
    title = f"{len(names)} methods on {data_options.data}"
    results = run_with_progress(specs, out, jobs, cluster, quiet, title, notes=notes, live=live)
    view = comparison(results).noting(notes)
    show(view, out, quiet, of_results(results, view, "comparison", out, options.command_line()))


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
    cluster: Cluster = None,
    live: pages.IsLive = False,
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
        title = f"{name} on {' and '.join(dict.fromkeys(spec.source.name for spec in specs))}"
        results = run_with_progress(
            specs, folder, jobs, cluster, quiet, title, name, runs, notes, live
        )
        view = study.view(results).noting(notes)
        page = of_results(results, view, "study", folder, options.command_line())
        show(view, folder, quiet, page)
        if not quiet:
            terminal.say(f"{study.title}: {time.monotonic() - began:.0f} s")


@unfold
def report(
    folder: Annotated[
        Path, typer.Argument(help="A folder of train, compare, reproduce, audit, or of a site.")
    ],
    open: Annotated[bool, "Open the page in a browser."] = False,
    out: Annotated[Path | None, "Where to write the page; by default report.html beside."] = None,
    sent: Annotated[
        Path | None, "Of a site on Flower: its audit-dir, the copies of what it sent."
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Make the report page, report.html; show tables and figures again.

    Example: pfedfair report runs/compas --open
    """
    if out is not None and out.is_dir():
        raise InputError(f"--out {out} is a folder: name a file, such as {out / 'report.html'}.")
    found = pages.saved(folder, sent, quiet)
    path = pages.write(found, folder, quiet, out)
    if open:
        pages.opened(path, quiet)


def run_with_progress(
    specs: list[Spec],
    out: Path,
    jobs: int | None,
    cluster: str | None,
    quiet: bool,
    title: str,
    part: str | None = None,
    runs: Path | None = None,
    notes: tuple[str, ...] = (),
    live: bool = False,
) -> pd.DataFrame:
    """Do all runs with a progress bar; return the results."""
    command = options.command_line()
    run = prepare(specs, out, jobs, part, runs, cluster, notes, command)  # may refuse: no bar yet
    n, work = len(specs), sum(spec.work for spec in specs)
    kind = "comparison" if part is None else "study"
    watch = pages.watch_runs(specs, out, runs or out / RUNS, kind, title) if live else None
    with terminal.notes(quiet), terminal.progress(title, work, quiet) as advance:

        def on_work(done: float, finished: int) -> None:
            advance(done, f"{finished}/{n} runs")
            if watch is not None:
                watch(done, work, finished)

        try:
            return run(on_work)
        except Exception:
            if live:  # a corrected command may have the folder
                (out / NAME).unlink(missing_ok=True)
            raise
