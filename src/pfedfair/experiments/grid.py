"""The runs of a list, each with a checkpoint."""

import json
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pandas as pd

from pfedfair import __version__
from pfedfair._util.errors import InputError, option
from pfedfair._util.files import alone, atomic, read_json, write_json, write_parquet
from pfedfair.data.task import Task
from pfedfair.experiments import pool
from pfedfair.experiments.cluster import Crew
from pfedfair.experiments.results import read_run, rows_of, write_results
from pfedfair.experiments.spec import Source, Spec, load_source
from pfedfair.federation import Federation
from pfedfair.methods.base import training_settings
from pfedfair.partition import Plan
from pfedfair.runs import CollapseWarning, Run, check_model, measured_rows, train

CARD, RESULTS, RUNS = "experiment.json", "results.parquet", "runs"  # in an experiment's folder


def execute(runs: Path, spec: Spec, on_work: Callable[[float], None]) -> None:
    """Do one run; write its rows of the results to a file in `runs`."""
    federation = _federation(spec.source, spec.plan, spec.seed, spec.sensitive_as_input)
    write_parquet(runs / f"{spec.key}.parquet", rows_of(trained(federation, spec, on_work), spec))


def trained(federation: Federation, spec: Spec, on_work: Callable[[float], None]) -> Run:
    """Train; or ask the run before, if this one differs in what needs no training (see `free`)."""
    algorithm = spec.algorithm
    for given, run in _last:
        trains_alike = training_settings(run.algorithm) == training_settings(algorithm)
        if given is federation and run.seed == spec.seed and trains_alike:
            on_work(1.0)
            return run.retarget(
                **{name: getattr(algorithm, name) for name in algorithm.dial.retargets}
            )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)  # the column "collapsed" keeps it
        run = train(federation, algorithm, spec.seed, on_work=on_work, measure_every=0)
    _last[:] = [(federation, run)] if algorithm.dial.retargets else []
    return run


_last: list[tuple[Federation, Run]] = []  # the run before, in this process, and what it was given


@lru_cache(maxsize=2)
def _federation(
    source: Source, plan: Plan, seed: int, sensitive_as_input: bool | None
) -> Federation:
    return load_source(source).federate(plan, seed, sensitive_as_input)


def run_experiment(
    specs: Sequence[Spec],
    out: Path,
    jobs: int | None = None,
    on_work: Callable[[float, int], None] = lambda work, runs: None,
    part: str | None = None,
    runs: Path | None = None,
    cluster: str | None = None,
) -> pd.DataFrame:
    """Do all runs that are not in `out` yet, then write and return the results.

    Parameters
    ----------
    jobs
        Processes, each with one thread; by default one per core. The results do not depend on it.
        On a cluster that is there, how many runs it gets at once; by default many.
    on_work
        Called with the work and the number of runs done so far, in units of `Spec.work`.
    part
        The part of the paper that this is, for the folder's card.
    runs
        The folder of finished runs; by default ``out/runs``. Experiments may share one.
    cluster
        The address ``host:port`` of a Ray cluster that does the runs, whose token is in the
        environment; "local" starts one here. Nor do the results depend on that.
    """
    crew = Crew(cluster) if cluster else None
    count = prepare(specs, out, jobs, part)
    return do_runs(specs, out, jobs if crew else count, on_work, runs, crew)


def do_runs(
    specs: Sequence[Spec],
    out: Path,
    jobs: int | None,
    on_work: Callable[[float, int], None] = lambda work, runs: None,
    runs: Path | None = None,
    crew: Crew | None = None,
) -> pd.DataFrame:
    """Do what `run_experiment` does after `prepare`."""
    runs = runs or out / RUNS
    with alone(runs):
        return _do_runs(specs, out, jobs, on_work, runs, crew)


def _do_runs(
    specs: Sequence[Spec],
    out: Path,
    jobs: int | None,
    on_work: Callable[[float, int], None],
    runs: Path,
    crew: Crew | None,
) -> pd.DataFrame:
    for left_over in runs.glob(".*"):  # of a process that was killed while writing
        left_over.unlink()
    files = [runs / f"{spec.key}.parquet" for spec in specs]
    missing = in_turn([spec for spec, file in zip(specs, files, strict=True) if not file.exists()])
    before = sum(spec.work for spec in specs) - sum(spec.work for spec in missing)

    def report(work: float, done: int) -> None:
        on_work(before + work, len(specs) - len(missing) + done)

    report(0.0, 0)
    try:
        if crew and any(spec.trains for spec in missing):
            crew.spread(missing, jobs, report, partial(_keep, runs))
        else:
            pool.spread(partial(execute, runs), missing, jobs or 1, report)
    except Exception:  # not Ctrl-C, after which the same command goes on
        if not (out / RESULTS).exists():  # a corrected command may have the folder
            (out / CARD).unlink(missing_ok=True)
        raise
    results = pd.concat(map(read_run, files, specs), ignore_index=True)
    write_results(out, results)
    return results


def in_turn(specs: Sequence[Spec]) -> list[Spec]:
    """Put the runs together that differ in their target alone, so that one of them trains."""
    together: dict[Spec, list[Spec]] = {}
    for spec in specs:
        together.setdefault(replace(spec, algorithm=training_settings(spec.algorithm)), []).append(
            spec
        )
    return [spec for alike in together.values() for spec in alike]


def _keep(runs: Path, spec: Spec, content: bytes) -> None:
    with atomic(runs / f"{spec.key}.parquet") as beside:
        beside.write_bytes(content)


def prepare(
    specs: Sequence[Spec],
    out: Path,
    jobs: int | None = None,
    part: str | None = None,
    notes: Sequence[str] = (),
    command: str = "",
) -> int:
    """Find out what is wrong before anything is written; then make `out` ours.

    `notes` on the data and the `command` are kept in the folder's card. Returns the number of
    processes.
    """
    jobs = os.cpu_count() or 1 if jobs is None else jobs
    if jobs < 1:
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
        part_of = plan.split(load_source(source), seed)
        measured_rows(part_of, protocol)
        if validated:
            measured_rows(part_of, "validation")
    runs = [spec.describe() for spec in specs]
    about: dict[str, Any] = {"version": __version__, "part": part, "runs": runs}
    about |= {"notes": list(notes)} if notes else {}
    claim(out, about | ({"command": command} if command else {}))
    return jobs


def claim(out: Path, description: dict[str, Any], write: bool = True) -> None:
    """Make `out` the home of this experiment, or refuse if it is another's.

    Without `write` the folder is made, and stays empty. Finished runs of an experiment that failed
    are nobody's: they are taken up again if they are asked for.
    """
    card = out / CARD
    description = json.loads(json.dumps(description))
    if card.exists():
        if _runs(read_json(card)) != _runs(description):
            raise InputError(
                f"{out} holds another experiment: choose another {option('out')}, or delete that "
                "folder."
            )
    elif out.exists() and not (out.is_dir() and all(map(_left, out.iterdir()))):
        other = f"choose another {option('out')}"
        raise InputError(f"{out} exists and is not an experiment of ours: {other}.")
    else:
        out.mkdir(parents=True, exist_ok=True)
        if write:
            write_json(card, description)


def _runs(card: dict[str, Any]) -> dict[str, Any]:
    """What an experiment is, whatever was typed to have it."""
    return {name: value for name, value in card.items() if name != "command"}


def _left(path: Path) -> bool:
    """Whether something in a folder is the finished runs of an experiment that failed."""
    if path.name != RUNS or not path.is_dir():
        return False
    return all(file.suffix == ".parquet" and file.is_file() for file in path.iterdir())
