"""A grid of runs: check it, group runs that share a training, do those without a checkpoint."""

import json
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from pfedfair import __version__
from pfedfair._util.errors import InputError, option
from pfedfair._util.files import atomic, exclusive, read_json, sweep, write_json, write_parquet
from pfedfair.data import Dataset
from pfedfair.data.task import Task
from pfedfair.experiments import pool
from pfedfair.experiments.cluster import Crew
from pfedfair.experiments.results import read_run, rows_of, write_results
from pfedfair.experiments.spec import Spec, Unit, load_source
from pfedfair.methods.base import training_settings
from pfedfair.runs import CollapseWarning, check_model, measured_rows, train

CARD, RESULTS, RUNS = "experiment.json", "results.parquet", "runs"  # in an experiment's folder
OnWork = Callable[[float, int], None]  # called with the work and the number of runs done so far


def run_experiment(
    specs: Sequence[Spec],
    out: Path,
    jobs: int | None = None,
    on_work: OnWork = lambda work, runs: None,
    part: str | None = None,
    runs: Path | None = None,
    cluster: str | None = None,
) -> pd.DataFrame:
    """Do all runs that are not in `out` yet, then write and return the results.

    Parameters
    ----------
    jobs
        Processes, each with one thread; by default one per core. The results do not depend on it.
        On a running cluster: how many trainings it gets at once; by default many.
    on_work
        Called with the work and the number of runs done so far, in units of `Spec.work`.
    part
        The table or figure of the paper, for the folder's card.
    runs
        The folder of finished runs; by default ``out/runs``. Experiments may share one.
    cluster
        The address ``host:port`` of a Ray cluster that does the runs, whose token is in the
        environment; "local" starts one here. The results do not depend on it.
    """
    return prepare(specs, out, jobs, part, runs, cluster)(on_work)


def prepare(
    specs: Sequence[Spec],
    out: Path,
    jobs: int | None = None,
    part: str | None = None,
    runs: Path | None = None,
    cluster: str | None = None,
    notes: Sequence[str] = (),
    command: str = "",
) -> Callable[[OnWork], pd.DataFrame]:
    """Check the runs, then claim `out`; return the function that does them.

    `notes` on the data and the `command` are stored in the folder's card. For the other parameters
    see `run_experiment`.
    """
    crew = Crew(cluster) if cluster else None
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs must be at least 1, got {jobs}.")
    if len({spec.key for spec in specs}) < len(specs):
        raise InputError("The same run is asked for twice.")
    for spec in specs:
        data = load_source(spec.source)
        groups, classes = len(data.group_names), len(data.label_names)
        aware = data.aware if spec.sensitive_as_input is None else spec.sensitive_as_input
        spec.algorithm.check(Task(groups, classes, aware))
        check_model(data)
    for source, plan, seed, protocol, validated in dict.fromkeys(
        (spec.source, spec.plan, spec.seed, spec.protocol, spec.validated) for spec in specs
    ):
        partition = plan.split(load_source(source), seed)
        measured_rows(partition, protocol)
        if validated:
            measured_rows(partition, "validation")
    about: dict[str, Any] = {"version": __version__, "part": part}
    about |= {"runs": [spec.describe() for spec in specs]}
    about |= {"notes": list(notes)} if notes else {}
    claim(out, about | ({"command": command} if command else {}))
    return partial(_run, specs, out, runs or out / RUNS, jobs, crew)


def _run(
    specs: Sequence[Spec],
    out: Path,
    runs: Path,
    jobs: int | None,
    crew: Crew | None,
    on_work: OnWork,
) -> pd.DataFrame:
    """Do the runs that have no file in `runs`; write all results to `out`."""
    with exclusive(runs):
        files = [runs / f"{spec.key}.parquet" for spec in specs]
        missing = [spec for spec, file in zip(specs, files, strict=True) if not file.exists()]
        before = sum(spec.work for spec in specs) - sum(spec.work for spec in missing)

        def report(work: float, done: int) -> None:
            on_work(before + work, len(specs) - len(missing) + done)

        report(0.0, 0)
        try:
            if crew and any(spec.trains for spec in missing):
                crew.spread(group(missing), jobs, report, partial(_write, runs))
            else:
                pool.spread(partial(_train_and_write, runs), group(missing), jobs, report)
        except Exception:  # not Ctrl-C, after which the same command goes on
            if not (out / RESULTS).exists():  # a corrected command may have the folder
                (out / CARD).unlink(missing_ok=True)
            raise
        results = pd.concat(map(read_run, files, specs), ignore_index=True)
        write_results(out, results)
        return results


def group(specs: Sequence[Spec]) -> list[Unit]:
    """Group runs into units of work: one training serves all runs of a unit."""
    units: dict[Hashable, list[Spec]] = {}
    for spec in specs:
        about = spec.source, spec.plan, spec.seed, spec.sensitive_as_input
        units.setdefault((*about, training_settings(spec.algorithm)), []).append(spec)
    return [tuple(unit) for unit in units.values()]


def results_of(
    unit: Unit, data: Dataset, on_work: Callable[[float], None]
) -> Iterator[pd.DataFrame]:
    """Train for the first run of a unit; yield the rows of the results of each run."""
    first = unit[0]
    federation = data.federate(first.plan, first.seed, first.sensitive_as_input)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)  # the column "collapsed" has it
        trained = train(federation, first.algorithm, first.seed, on_work=on_work, measure_every=0)
    for spec in unit:
        run = trained
        if spec.algorithm != first.algorithm:
            names = first.algorithm.dial.retargets
            run = trained.retarget(**{name: getattr(spec.algorithm, name) for name in names})
        yield rows_of(run, spec)


def _train_and_write(runs: Path, unit: Unit, on_work: Callable[[float], None]) -> None:
    results = results_of(unit, load_source(unit[0].source), on_work)
    for spec, rows in zip(unit, results, strict=True):
        write_parquet(runs / f"{spec.key}.parquet", rows)


def _write(runs: Path, spec: Spec, content: bytes) -> None:
    with atomic(runs / f"{spec.key}.parquet") as temporary:
        temporary.write_bytes(content)


def claim(out: Path, description: dict[str, Any], write: bool = True) -> None:
    """Make `out` the home of this experiment, or refuse if it is another's.

    Without `write` the folder is made, and stays empty. Finished runs of an experiment that failed
    may be used by any experiment that has the same runs.
    """
    if out.is_dir():
        sweep(out)  # a first process may have been killed while it wrote the card
    card = out / CARD
    description = json.loads(json.dumps(description))
    if card.exists():
        existing = read_json(card)
        if existing | {"command": ""} != description | {"command": ""}:
            raise InputError(
                f"{out} holds another experiment: choose another {option('out')}, or delete that "
                "folder."
            )
    elif out.exists() and not (out.is_dir() and all(map(_is_runs, out.iterdir()))):
        raise InputError(
            f"{out} exists and is not an experiment of pfedfair: choose another {option('out')}."
        )
    else:
        out.mkdir(parents=True, exist_ok=True)
        if write:
            write_json(card, description)


def _is_runs(path: Path) -> bool:
    """Return whether a path is the folder of finished runs of an experiment that failed."""
    if path.name != RUNS or not path.is_dir():
        return False
    return all(file.suffix == ".parquet" and file.is_file() for file in path.iterdir())
