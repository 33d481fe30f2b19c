"""Grids of runs: the same bytes whoever does the work, and however often it is interrupted."""

import dataclasses
import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

import pfedfair as pff
from pfedfair.experiment import COLUMNS, Source, Spec, read_results, run_experiment

PLAN = pff.partition.fixed_shares()
DESIGN = [
    "dataset",
    "method",
    "eta",
    "lam",
    "gamma",
    "target_ddp",
    "seed",
    "client",
    "role",
    "n_train",
    "n_test",
    "share_s1",
    "accuracy",
    "ddp",
    "eo",
    "eopp",
    "npr_s0",
    "npr_s1",
    "accuracy_low",
    "accuracy_high",
    "ddp_low",
    "ddp_high",
    "eo_low",
    "eo_high",
    "eopp_low",
    "eopp_high",
    "protocol",
    "seconds",
]


def grid(rounds=3, seeds=2):
    return [
        Spec(Source("compas"), PLAN, method, pff.make(method, eta, rounds=rounds), seed)
        for method, eta in (("constant", 0.9), ("fedavg-kde", 0.5), ("pfedfair", 0.9))
        for seed in range(seeds)
    ]


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    out = tmp_path_factory.mktemp("reference") / "out"
    run_experiment(grid(), out, jobs=1)
    return out


def test_results_are_tidy(reference):
    results = pd.read_parquet(reference / "results.parquet")
    assert list(results.columns) == COLUMNS
    assert set(DESIGN) <= set(results.columns)
    assert len(results) == 3 * 2 * 5
    keys = ["dataset", "method", "eta", "seed", "client"]
    assert not results.duplicated(keys).any()
    fair = results[results["method"] == "pfedfair"]
    assert set(fair["lam"]) == {0.4}
    assert set(results["role"]) == {"underrepresented", "overrepresented"}
    assert (
        results["eopp"] <= results["eo"] + 1e-12
    ).all()  # one of those that it is the largest of


def test_seconds_are_kept_apart_and_filled_in(reference):
    assert pd.read_parquet(reference / "results.parquet")["seconds"].isna().all()
    results = read_results(reference)
    assert (results["seconds"] > 0).all()
    assert len(results) == 30


def test_two_processes_write_the_same_bytes(reference, tmp_path):
    seen = []
    run_experiment(grid(), tmp_path / "two", jobs=2, on_work=lambda *now: seen.append(now))
    same = [(d / "results.parquet").read_bytes() for d in (reference, tmp_path / "two")]
    assert same[0] == same[1]
    work = [w for w, _ in seen]
    assert work == sorted(work)
    assert seen[-1][1] == 6
    assert work[-1] == pytest.approx(sum(spec.work for spec in grid()), rel=0.01)


def test_what_is_finished_is_not_done_again(reference):
    before = {p: p.stat().st_mtime_ns for p in (reference / "runs").iterdir()}
    content = (reference / "results.parquet").read_bytes()
    run_experiment(grid(), reference, jobs=1)
    assert {p: p.stat().st_mtime_ns for p in (reference / "runs").iterdir()} == before
    assert (reference / "results.parquet").read_bytes() == content


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from test_experiment import grid, run_experiment
if __name__ == "__main__":
    run_experiment(grid(rounds=60, seeds=3), Path({out!r}), jobs=2)
"""


def start(tmp_path, out):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(tests=os.path.dirname(__file__), out=str(out)))  # noqa: PTH120
    return subprocess.Popen([sys.executable, script], start_new_session=True)


def workers_of(pid):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(p) for p in found.stdout.split()]


def alive(pid):
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return found.stdout.strip() not in ("", "Z")


def test_kill_9_then_resume_gives_the_identical_file(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run_experiment(grid(rounds=60, seeds=3), whole, jobs=1)
    process = start(tmp_path, broken)
    deadline = time.monotonic() + 60
    while len(list((broken / "runs").glob("[!.]*.parquet"))) < 4 and time.monotonic() < deadline:
        time.sleep(0.02)
    workers = workers_of(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=10)
    assert not (broken / "results.parquet").exists()
    deadline = time.monotonic() + 20
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(alive, workers)), "workers outlive their parent"
    done = len(list((broken / "runs").glob("[!.]*.parquet")))
    assert 4 <= done < 9
    run_experiment(grid(rounds=60, seeds=3), broken, jobs=1)
    assert (whole / "results.parquet").read_bytes() == (broken / "results.parquet").read_bytes()


def test_another_experiment_is_refused(reference, tmp_path):
    before = (reference / "experiment.json").read_bytes()
    with pytest.raises(pff.InputError, match="holds another experiment"):
        run_experiment(grid(rounds=4), reference, jobs=1)
    assert (reference / "experiment.json").read_bytes() == before
    (tmp_path / "holiday.jpg").write_bytes(b"")
    with pytest.raises(pff.InputError, match="is not an experiment of ours"):
        run_experiment(grid(), tmp_path, jobs=1)
    with pytest.raises(pff.InputError, match="jobs must be at least 1"):
        run_experiment(grid(), tmp_path / "new", jobs=0)


def test_corrupt_results_are_named(reference, tmp_path):
    out = tmp_path / "corrupt"
    out.mkdir()
    with pytest.raises(pff.InputError, match=r"has no results.parquet"):
        read_results(out)
    (out / "results.parquet").write_bytes((reference / "results.parquet").read_bytes()[:-50])
    with pytest.raises(pff.InputError, match=r"results.parquet is not a readable Parquet file"):
        read_results(out)
    pd.DataFrame({"a": [1]}).to_parquet(out / "results.parquet")
    with pytest.raises(pff.InputError, match="has no column 'dataset'"):
        read_results(out)


def test_corrupt_checkpoint_is_named(tmp_path):
    run_experiment(grid(), tmp_path / "out", jobs=1)
    victim = next((tmp_path / "out" / "runs").glob("compas-pfedfair-*"))
    victim.write_bytes(b"PAR1")
    with pytest.raises(pff.InputError, match="delete it and run"):
        run_experiment(grid(), tmp_path / "out", jobs=1)


def test_every_hyper_parameter_is_part_of_the_key():
    spec = grid()[-1]
    for change in ({"K": 6}, {"gamma": 0.5}, {"alpha": 0.5}, {"eta": 0.1}):
        other = dataclasses.replace(spec, algorithm=dataclasses.replace(spec.algorithm, **change))
        assert other.key != spec.key
    assert dataclasses.replace(spec, seed=7).key != spec.key
    assert dataclasses.replace(spec, protocol="paper").key != spec.key


def test_same_seed_twice_gives_identical_bytes(reference, tmp_path):
    run_experiment(grid(), tmp_path / "again", jobs=1)
    files = [d / "results.parquet" for d in (reference, tmp_path / "again")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_changed_file_is_another_experiment(csv, tmp_path):
    plan = pff.partition.by_column("site")

    def specs():
        pff.experiment._sha256.cache_clear()  # as in a new process
        pff.experiment.load_source.cache_clear()
        source = Source(str(csv), "hired", "sex")
        return [Spec(source, plan, "constant", pff.Constant(), 0)]

    run_experiment(specs(), tmp_path / "out", jobs=1)
    run_experiment(specs(), tmp_path / "out", jobs=1)
    pd.read_csv(csv).iloc[1:].to_csv(csv, index=False)
    with pytest.raises(pff.InputError, match="holds another experiment"):
        run_experiment(specs(), tmp_path / "out", jobs=1)


def test_bad_runs_are_refused_before_anything_is_written(tmp_path):
    too_many = pff.partition.fixed_shares(9, rows=900)
    bad = [Spec(Source("compas"), too_many, "constant", pff.Constant(), 0)]
    for specs, message in ((bad, "compas has 4069"), (grid() + grid(), "asked for twice")):
        with pytest.raises(pff.InputError, match=message):
            run_experiment(specs, tmp_path / "out", jobs=1)
    assert not (tmp_path / "out").exists()
