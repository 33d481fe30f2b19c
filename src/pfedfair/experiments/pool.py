"""Who does the work: this process, or several with one thread each."""

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
from pfedfair.experiments.spec import Spec

Do = Callable[[Spec, Callable[[float], None]], None]  # a run; it tells the part that it has done
Report = Callable[[float, int], None]  # work and runs done so far


def spread(do: Do, specs: Sequence[Spec], jobs: int, report: Report) -> None:
    """Do all runs in up to `jobs` processes; here, if none trains: to start one takes longer."""
    jobs = min(jobs, len(specs))
    if jobs > 1 and any(spec.trains for spec in specs):
        _in_processes(do, specs, jobs, report)
    else:
        _here(do, specs, report)


def _here(do: Do, specs: Sequence[Spec], report: Report) -> None:
    work = 0.0

    def add(part: float) -> None:
        nonlocal work
        work += part * spec.work
        report(work, runs)

    with one_thread():
        for runs, spec in enumerate(specs):  # noqa: B007  (add reports both)
            do(spec, add)
    report(work, len(specs))


def _in_processes(do: Do, specs: Sequence[Spec], jobs: int, report: Report) -> None:
    context = get_context("spawn")
    done = context.Value("d", 0.0)
    pool = ProcessPoolExecutor(jobs, context, _start_worker, (done,))
    others, runs = active_children(), 0
    workers = others[:0]
    try:
        with _ignoring_ctrl_c():  # the workers, which start now, inherit it
            pending = {pool.submit(_in_worker, do, spec) for spec in specs}
            workers = [process for process in active_children() if process not in others]
        while pending:
            finished, pending = wait(pending, timeout=0.5, return_when=FIRST_COMPLETED)
            for future in finished:
                _result(future)
            runs += len(finished)
            report(done.value, runs)
    except BaseException:
        for process in workers:
            process.kill()  # checkpoints appear whole or not at all: nothing half-written stays
        pool.shutdown(wait=False, cancel_futures=True)  # nobody is left to wait for
        raise
    pool.shutdown()


def _result(future: Future[None]) -> None:
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


def _in_worker(do: Do, spec: Spec) -> None:
    def add(part: float) -> None:
        with _done.get_lock():
            _done.value += part * spec.work

    do(spec, add)


def _die_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


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
