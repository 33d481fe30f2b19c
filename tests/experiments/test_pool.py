"""The same bytes whoever does the work, and however often it is interrupted."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path

import pytest
from grids import grid

import pfedfair as pff
from pfedfair.experiments import pool, run_experiment


def test_two_processes_write_the_same_bytes(reference, tmp_path):
    seen = []
    run_experiment(grid(), tmp_path / "two", jobs=2, on_work=lambda *now: seen.append(now))
    same = [(d / "results.parquet").read_bytes() for d in (reference, tmp_path / "two")]
    assert same[0] == same[1]
    work = [w for w, _ in seen]
    assert work == sorted(work)
    assert seen[-1][1] == 6
    assert work[-1] == pytest.approx(sum(spec.work for spec in grid()), rel=0.01)


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from grids import grid
from pfedfair.experiments import run_experiment
if __name__ == "__main__":
    run_experiment(grid(rounds=60, seeds=3), Path({out!r}), jobs=2)
"""


def start(tmp_path, out):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parent), out=str(out)))
    return subprocess.Popen([sys.executable, script], start_new_session=True)


def workers_of(pid):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(p) for p in found.stdout.split()]


def alive(pid):
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return found.stdout.strip() not in ("", "Z")


def test_kill_9_then_resume_gives_the_identical_file(tmp_path):
    complete, interrupted = tmp_path / "complete", tmp_path / "interrupted"
    run_experiment(grid(rounds=60, seeds=3), complete, jobs=1)
    process = start(tmp_path, interrupted)
    deadline = time.monotonic() + 60
    while (
        len(list((interrupted / "runs").glob("[!.]*.parquet"))) < 4 and time.monotonic() < deadline
    ):
        time.sleep(0.02)
    workers = workers_of(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=10)
    assert not (interrupted / "results.parquet").exists()
    deadline = time.monotonic() + 20
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(alive, workers)), "workers outlive their parent"
    done = len(list((interrupted / "runs").glob("[!.]*.parquet")))
    assert 4 <= done < 9
    run_experiment(grid(rounds=60, seeds=3), interrupted, jobs=1)
    assert (complete / "results.parquet").read_bytes() == (
        interrupted / "results.parquet"
    ).read_bytes()


def units():
    return [(spec,) for spec in grid()]


def refuse(unit, on_work):
    raise pff.InputError(f"Not {unit[0].seed}.")


def slow(unit, on_work):
    on_work(0.5)
    time.sleep(60)


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_goes_wrong_in_a_worker_is_said_here(jobs):
    with pytest.raises(pff.InputError, match=r"Not \d"):
        pool.spread(refuse, units(), jobs, lambda work, runs: None)
    assert not wait_for(active_children)


def test_an_interrupted_pool_kills_its_workers_and_nobody_else():
    """Whoever reports may be interrupted; here it raises once half of a run is done."""

    def report(work, runs):
        if work > 0:
            raise KeyboardInterrupt

    began = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        with pytest.raises(KeyboardInterrupt):
            pool.spread(slow, units(), 2, report)
        assert not wait_for(active_children)
        assert other.poll() is None
        other.communicate(b"\n")
    assert time.monotonic() - began < 40


def wait_for(those):
    """Return the processes that are still alive after some seconds."""
    deadline = time.monotonic() + 10
    while those() and time.monotonic() < deadline:
        time.sleep(0.1)
    return those()


def test_a_pool_in_another_thread(tmp_path):
    """Only the main thread may say what a signal does."""
    done = []
    work = threading.Thread(
        target=lambda: done.append(run_experiment(grid(1, 1), tmp_path / "out", jobs=2))
    )
    work.start()
    work.join()
    assert len(done[0]) == 15


def test_runs_that_do_not_train_are_not_worth_a_process():
    flat = [(replace(spec, algorithm=pff.methods.Constant()),) for (spec,) in units()]
    where = []
    pool.spread(lambda unit, on_work: where.append(os.getpid()), flat, 2, lambda work, runs: None)
    assert where == [os.getpid()] * len(flat)


def die(unit, on_work):
    os._exit(3)  # as the system does with a process that takes too much memory


def test_a_worker_that_is_ended_from_outside_is_one_sentence():
    with pytest.raises(pff.InputError, match="was ended from outside, perhaps for want of memory"):
        pool.spread(die, units()[2:4], 2, lambda work, runs: None)
