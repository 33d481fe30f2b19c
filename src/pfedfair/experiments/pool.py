"""A pool of processes for units of work, with one thread each; or this process only."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from typing import Any

import torch

from pfedfair._util.errors import InputError, option
from pfedfair.engines.local import one_thread
from pfedfair.experiments.spec import Unit, work_of

Do = Callable[[Unit, Callable[[float], None]], None]  # reports the parts of the work done
Report = Callable[[float, int], None]  # called with the work and the runs done so far


def spread(do: Do, units: Sequence[Unit], jobs: int | None, report: Report) -> None:
    """Do all units in up to `jobs` processes; in this one if none trains, which is faster."""
    jobs = min(jobs or os.cpu_count() or 1, len(units))
    if jobs > 1 and any(spec.trains for unit in units for spec in unit):
        _do_in_processes(do, units, jobs, report)
    else:
        _do_here(do, units, report)


def _do_here(do: Do, units: Sequence[Unit], report: Report) -> None:
    work, runs, unit_work = 0.0, 0, 0.0

    def add(part: float) -> None:
        nonlocal work
        work += part * unit_work
        report(work, runs)

    with one_thread():
        for unit in units:
            unit_work = work_of(unit)
            do(unit, add)
            runs += len(unit)
    report(work, runs)


def _do_in_processes(do: Do, units: Sequence[Unit], jobs: int, report: Report) -> None:
    context = get_context("spawn")
    done = context.Value("d", 0.0)
    pool = ProcessPoolExecutor(jobs, context, _start_worker, (done,))
    others, runs = active_children(), 0
    workers = others[:0]
    try:
        with _ignoring_ctrl_c():  # the workers, which start now, inherit it
            pending = {pool.submit(_do_in_worker, do, unit): len(unit) for unit in units}
            workers = [process for process in active_children() if process not in others]
        while pending:
            for future in wait(pending, timeout=0.5, return_when=FIRST_COMPLETED).done:
                _check(future)
                runs += pending.pop(future)
            report(done.value, runs)
    except BaseException:
        for process in workers:
            process.kill()  # checkpoints are written atomically: no partial file stays
        pool.shutdown(wait=False, cancel_futures=True)  # all workers are killed
        raise
    pool.shutdown()


def _check(future: Future[None]) -> None:
    try:
        future.result()
    except BrokenProcessPool:
        raise InputError(
            "A process of the runs was ended from outside, perhaps for want of memory: take fewer "
            f"{option('jobs')}; finished runs are kept."
        ) from None


_done: Any = None  # in a worker process: the work done by all of them, shared with the parent


def _start_worker(done: Any) -> None:
    global _done
    _done = done
    torch.set_num_threads(1)
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _do_in_worker(do: Do, unit: Unit) -> None:
    unit_work = work_of(unit)

    def add(part: float) -> None:
        with _done.get_lock():
            _done.value += part * unit_work

    do(unit, add)


def _die_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _ignoring_ctrl_c() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
