"""Grids of runs: a process pool, a checkpoint per run, and one tidy file of results.

An experiment is a list of `Spec`. Each finished run is a small Parquet file in ``DIR/runs``; the
same command again skips what is there. ``DIR/results.parquet`` is put together from these files in
the order of the list, so it has the same bytes however often the work was interrupted and however
many processes did it. Seconds are not reproducible: they are in ``DIR/timings.parquet``, and
`read_results` fills them in.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import pairwise
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from pfedfair import __version__
from pfedfair.algorithms import ALGORITHMS, Algorithm
from pfedfair.data import DATASETS, Dataset, load
from pfedfair.defaults import level, levels
from pfedfair.engines.stacked import one_thread
from pfedfair.errors import InputError
from pfedfair.federation import Federation
from pfedfair.files import read_json, read_parquet, write_json, write_parquet
from pfedfair.networks import Kinds
from pfedfair.partition import Plan
from pfedfair.run import CollapseWarning, measured_rows, train

COLUMNS = [
    "dataset", "method", "model", "eta", "lam", "gamma", "target_ddp", "level", "seed", "client",
    "role",
    "n_train", "n_test", "share_s1", "accuracy", "ddp", "eo", "eopp", "npr_s0", "npr_s1",
    "accuracy_low", "accuracy_high", "ddp_low", "ddp_high",
    "eo_low", "eo_high", "eopp_low", "eopp_high",
    "npr_s0_low", "npr_s0_high", "npr_s1_low", "npr_s1_high",
    "collapsed", "protocol", "partition", "config", "seconds",
]  # fmt: skip
KEYS = ["dataset", "method", "eta", "config", "partition", "protocol", "seed"]  # of a run
FRONTIER = "frontier"
FRONTIER_LIMITS = (1.0, 0.1, 0.05, 0.02, 0.0)  # on DDP, where the frontier is computed


@dataclass(frozen=True)
class Source:
    """Which rows: a bundled data set, or a file with the names of its columns."""

    name: str
    label: str | None = None
    sensitive: str | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    merge_groups: bool = False

    def describe(self) -> dict[str, Any]:
        """Return the name of a bundled data set, or a file's name, contents and columns."""
        if self.name in DATASETS and self.sensitive is None:
            return {"name": self.name}
        if self.name in DATASETS:
            return asdict(self)
        return asdict(self) | {"name": Path(self.name).name, "sha256": _sha256(self.name)}


@dataclass(frozen=True)
class Spec:
    """All that determines a run.

    `method` is a name in `ALGORITHMS`, or `FRONTIER`: the best thresholds on the scores of the
    algorithm's global model, at each of `FRONTIER_LIMITS`. With `validated` the run is measured on
    the validation rows too, which have rows of their own in the results.
    """

    source: Source
    plan: Plan
    method: str
    algorithm: Algorithm
    seed: int
    protocol: str | None = None
    sensitive_as_input: bool = True
    validated: bool = False

    def describe(self) -> dict[str, Any]:
        """Return a JSON-able description; equal specs, equal text."""
        return {
            "source": self.source.describe(),
            "plan": {"kind": type(self.plan).__name__, **asdict(self.plan)},  # type: ignore[call-overload]
            "method": self.method,
            "algorithm": asdict(self.algorithm),
            "seed": self.seed,
            "protocol": self.protocol,
            "sensitive_as_input": self.sensitive_as_input,
            "validated": self.validated,
        }

    @property
    def key(self) -> str:
        text = json.dumps(self.describe(), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return f"{Path(self.source.name).stem}-{self.method}-{self.seed}-{digest}"

    @property
    def work(self) -> float:
        """Rough amount of arithmetic, for estimates of time."""
        per_round, at_end = self.algorithm.cost()
        rounds = self.algorithm.rounds if self.algorithm.federated else 0
        return (rounds * per_round + at_end) * _row_work(self.source) + 1.0


@lru_cache(maxsize=4)
def load_source(source: Source) -> Dataset:
    """Load the rows of a source, once per process."""
    given = {"drop": source.drop, "categorical": source.categorical}
    options: dict[str, Any] = {name: columns for name, columns in given.items() if columns}
    if source.name in DATASETS and options:
        raise InputError(f"'{source.name}' has its own columns: leave out {', '.join(options)}.")
    if source.merge_groups:
        options["merge_groups"] = True
    return load(source.name, source.label, source.sensitive, **options)


@lru_cache(maxsize=4)
def _sha256(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@lru_cache(maxsize=2)
def _federation(source: Source, plan: Plan, seed: int, sensitive_as_input: bool) -> Federation:
    return load_source(source).federate(plan, seed, sensitive_as_input)


def _row_work(source: Source) -> float:
    data = load_source(source)
    widths = (64, *data.hidden, 1)
    rows = data.paper_plan.rows if data.paper_plan else len(data)
    return rows * (sum(a * b for a, b in pairwise(widths)) + 2e4) / 1e7


def execute(spec: Spec, on_work: Callable[[float], None] = lambda work: None) -> pd.DataFrame:
    """Do one run; return its rows of the results."""
    federation = _federation(spec.source, spec.plan, spec.seed, spec.sensitive_as_input)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)  # the column "collapsed" keeps it
        run = train(federation, spec.algorithm, spec.seed, on_work=on_work)
    about = asdict(spec.algorithm)
    protocols = [spec.protocol, "validation"] if spec.validated else [spec.protocol]
    if spec.method == FRONTIER:
        table = pd.concat([run.frontier(FRONTIER_LIMITS, protocol) for protocol in protocols])
        configs = [json.dumps(about | {"limit": c}, sort_keys=True) for c in table["target_ddp"]]
        table = table.assign(collapsed=False)
        table["level"] = [f"≤ {c:g}" for c in table["target_ddp"]]
    else:
        table = pd.concat([run.table(protocol) for protocol in protocols])
        configs = [json.dumps(about, sort_keys=True)] * len(table)
        table = table.assign(target_ddp=float(about.get("target_ddp", float("nan"))))
        fair = levels(spec.method, (0.5,)) != ({},) if spec.method in ALGORITHMS else True
        table["level"] = level(spec.algorithm) if fair else ""  # TODO(merge): Algorithm.level
    more = [c for c in map(str, table) if c not in COLUMNS and c.startswith(("share_s", "npr_s"))]
    return table.assign(
        dataset=federation.data.name,
        method=spec.method,
        model=type(run.network).__name__.lower(),  # TODO(merge): the scorer's words
        eta=float(spec.algorithm.eta),
        lam=float(about.get("method", about).get("lam", float("nan"))),
        gamma=float(about.get("method", about).get("gamma", float("nan"))),
        seed=spec.seed,
        partition=json.dumps(spec.describe()["plan"], sort_keys=True),
        config=configs,
        seconds=run.seconds,
    ).reindex(columns=[*COLUMNS, *more])


def run_experiment(
    specs: Sequence[Spec],
    out: Path,
    jobs: int | None = None,
    on_work: Callable[[float, int], None] = lambda work, runs: None,
    part: str | None = None,
    runs: Path | None = None,
) -> pd.DataFrame:
    """Do all runs that are not in `out` yet, then write and return the results.

    Parameters
    ----------
    jobs
        Processes, each with one thread; by default one per core. The results do not depend on it.
    on_work
        Called with the work and the number of runs done so far, in units of `Spec.work`.
    part
        The part of the paper that this is, for the folder's card.
    runs
        The folder of finished runs; by default ``out/runs``. Experiments may share one.
    """
    jobs = prepare(specs, out, jobs, part)
    runs = runs or out / "runs"
    for left_over in runs.glob(".*"):  # of a process that was killed while writing
        left_over.unlink()
    missing = [spec for spec in specs if not _checkpoint(runs, spec).exists()]
    before = sum(spec.work for spec in specs) - sum(spec.work for spec in missing)
    n_before = len(specs) - len(missing)

    def report(work: float, done: int) -> None:
        on_work(before + work, n_before + done)

    report(0.0, 0)
    if missing:
        do = _here if min(jobs, len(missing)) == 1 else _in_processes
        do(missing, runs, min(jobs, len(missing)), report)
    return _collect(specs, out, runs)


def prepare(
    specs: Sequence[Spec], out: Path, jobs: int | None = None, part: str | None = None
) -> int:
    """Find out what is wrong before anything is written; then make `out` ours.

    Returns the number of processes.
    """
    jobs = os.cpu_count() or 1 if jobs is None else jobs
    if jobs < 1:
        raise InputError(f"jobs must be at least 1, got {jobs}.")
    if len({spec.key for spec in specs}) < len(specs):
        raise InputError("The same run is asked for twice.")
    for spec in specs:
        data = load_source(spec.source)
        groups, classes = len(data.group_names), len(data.label_names)
        spec.algorithm.check(Kinds(groups, classes, spec.sensitive_as_input))
    for source, plan, seed, protocol, validated in dict.fromkeys(
        (spec.source, spec.plan, spec.seed, spec.protocol, spec.validated) for spec in specs
    ):
        part_of = plan.split(load_source(source), seed)
        measured_rows(part_of, protocol)
        if validated:
            measured_rows(part_of, "validation")
    runs = [spec.describe() for spec in specs]
    claim(out, {"version": __version__, "part": part, "runs": runs})
    return jobs


def claim(out: Path, description: dict[str, Any], write: bool = True) -> None:
    """Make `out` the home of this experiment, or refuse if it is another's.

    Without `write` the folder is made, and stays empty.
    """
    card = out / "experiment.json"
    description = json.loads(json.dumps(description))
    if card.exists():
        if read_json(card) != description:
            raise InputError(
                f"{out} holds another experiment: choose another --out, or delete that folder."
            )
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} exists and is not an experiment of ours: choose another --out.")
    else:
        out.mkdir(parents=True, exist_ok=True)
        if write:
            write_json(card, description)


def read_results(folder: str | Path) -> pd.DataFrame:
    """Read ``results.parquet`` of a folder, with the seconds that each run took."""
    folder = Path(folder)
    path = folder / "results.parquet"
    if not path.exists():
        raise InputError(f"{folder} has no results.parquet: run compare or reproduce first.")
    results = read_parquet(path)
    absent = [c for c in COLUMNS if c not in results]
    if absent:
        raise InputError(f"{path} has no column '{absent[0]}': it was not written by pfedfair.")
    if (folder / "timings.parquet").exists():
        timings = read_parquet(folder / "timings.parquet")
        keys = [c for c in timings.columns if c != "seconds"]
        results = results.drop(columns="seconds").merge(timings, on=keys, how="left")
    return results


def _checkpoint(runs: Path, spec: Spec) -> Path:
    return runs / f"{spec.key}.parquet"


def _collect(specs: Sequence[Spec], out: Path, runs: Path) -> pd.DataFrame:
    parts = [read_parquet(_checkpoint(runs, spec)) for spec in specs]
    results = pd.concat(parts, ignore_index=True)
    write_parquet(out / "timings.parquet", results[[*KEYS, "seconds"]].drop_duplicates(KEYS))
    write_parquet(out / "results.parquet", results.assign(seconds=float("nan")))
    return results


def _execute_to_file(spec: Spec, runs: Path, report: Callable[[float], None]) -> None:
    write_parquet(_checkpoint(runs, spec), execute(spec, report))


# --- who does the work ----------------------------------------------------------------------------


def _here(
    specs: Sequence[Spec], folder: Path, jobs: int, report: Callable[[float, int], None]
) -> None:
    work = 0.0

    def add(part: float) -> None:
        nonlocal work
        work += part * spec.work
        report(work, runs)

    with one_thread():
        for runs, spec in enumerate(specs):  # noqa: B007  (add reports both)
            _execute_to_file(spec, folder, add)
    report(work, len(specs))


_done: Any = None  # in a worker process: the work done by all of them, shared with the parent


def _start_worker(done: Any) -> None:
    global _done
    _done = done
    torch.set_num_threads(1)
    threading.Thread(target=_die_with_parent, daemon=True).start()


@contextmanager
def _ignoring_ctrl_c() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what a signal does
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _die_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _in_worker(spec: Spec, runs: Path) -> None:
    def add(part: float) -> None:
        with _done.get_lock():
            _done.value += part * spec.work

    _execute_to_file(spec, runs, add)


def _in_processes(
    specs: Sequence[Spec], folder: Path, jobs: int, report: Callable[[float, int], None]
) -> None:
    context = get_context("spawn")
    done = context.Value("d", 0.0)
    pool = ProcessPoolExecutor(jobs, context, _start_worker, (done,))
    runs = 0
    try:
        with _ignoring_ctrl_c():  # the workers inherit it
            pending = {pool.submit(_in_worker, spec, folder) for spec in specs}
        while pending:
            finished, pending = wait(pending, timeout=0.5, return_when=FIRST_COMPLETED)
            for future in finished:
                future.result()
            runs += len(finished)
            report(done.value, runs)
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.kill()  # checkpoints appear whole or not at all: nothing half-written stays
        pool.shutdown(wait=False, cancel_futures=True)  # nobody is left to wait for
        raise
    pool.shutdown()
