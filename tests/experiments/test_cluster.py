"""Runs on a Ray cluster: the same bytes as from the pool, whatever is lost on the way."""

import os
import pickle
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pandas as pd
import psutil
import pytest
from grids import PLAN, grid

import pfedfair as pff
from pfedfair.engines.ray import token_settings
from pfedfair.experiments import Source, Spec, cluster, load_source, run_experiment, worker
from pfedfair.experiments.environment import difference, processor, software


def work(spec, content=None, same=None, progress=None):
    """What a worker does with a run, in this process."""
    content = pickle.dumps(load_source(spec.source)) if content is None else content
    name = worker.hashlib.sha256(content).hexdigest()
    tell = [].append if progress is None else progress.append
    piece = pickle.dumps((spec,))
    return worker.work(piece, name, lambda: content, same or software(), "10.0.0.7", tell)


def test_a_worker_needs_neither_the_file_nor_the_folder_of_its_rows(csv, reference, tmp_path):
    source = Source(str(csv), "hired", "sex")
    fedavg = pff.make("fedavg", {"rounds": 2})
    spec = Spec(source, pff.partition.by_column("site"), "fedavg", fedavg, 0)
    run_experiment([spec], tmp_path / "here", jobs=1)
    content = pickle.dumps(load_source(source))
    csv.unlink()
    progress = []
    kind, ((rows,), messages, cpu) = work(spec, content, progress=progress)
    assert (kind, messages, cpu) == ("done", [], processor())
    assert progress == sorted(progress)
    assert progress[-1] == pytest.approx(1.0)
    (tmp_path / "there.parquet").write_bytes(rows)
    (here,) = (tmp_path / "here" / "runs").glob("*.parquet")
    frames = [pd.read_parquet(path) for path in (here, tmp_path / "there.parquet")]
    pd.testing.assert_frame_equal(*(frame.drop(columns="seconds") for frame in frames))


def test_what_goes_wrong_at_a_worker_is_an_answer():
    spec = Spec(Source("compas"), PLAN, "fedavg", pff.methods.FedAvg(rounds=1), 0)
    wild = replace(spec, algorithm=pff.methods.FedAvg(rounds=2, optimiser="sgd", alpha=1e30))
    kind, sentence = work(wild)
    assert kind == "refused"
    assert "Training diverged" in sentence
    kind, what = work(spec, same=software() | {"torch": "1.0"})
    assert kind == "unready"
    assert what.startswith("10.0.0.7 has torch 2")
    assert what.endswith("where the command was typed it is 1.0")
    kind, text = work(spec, pickle.dumps("no rows"))
    assert kind == "broken"
    assert "AttributeError" in text
    piece, changed = pickle.dumps((spec,)), b"changed"
    kind, sentence = worker.work(piece, "0" * 64, lambda: changed, software(), "", print)
    assert kind == "refused"
    assert "came to a machine of the cluster changed" in sentence
    kind, what = worker.work(b"cnowhere\nmethod\n.", "", None, software(), "10.0.0.7", print)
    assert kind == "unready"
    assert "10.0.0.7 cannot load what describes the run (No module named 'nowhere')" in what


def test_other_code_of_the_same_version_is_seen():
    installed = software()
    assert difference(installed, software()) == ""
    assert "pfedfair's code" in difference(installed, installed | {"pfedfair's code": "0"})
    assert {"Python", "pfedfair", "torch", "numpy"} <= set(installed)


SAID = {
    "refused": (("Not so.", 0), "^Not so.$"),
    "unready": (("10.0.0.7 has torch 1", 0), "The machine 10.0.0.7 has torch 1: all machines need"),
    "lost": (("It died", 0), r"compas-constant-0-\w+ was lost again and again \(It died\)"),
    "idle": (("10",), "at h:1 has had no machine for 10 minutes: finished runs are kept"),
}


@pytest.mark.parametrize("kind", SAID)
def test_what_a_cluster_tells_is_a_sentence(kind):
    words, sentence = SAID[kind]
    heard = cluster.Listener([(spec,) for spec in grid()], lambda work, runs: None, None, "h:1")
    with pytest.raises(pff.InputError, match=sentence):
        heard.listen([("open",), ("wait",), (kind, *words)])
    with pytest.raises(pff.InputError, match="The cluster at h:1 is gone: finished runs are kept"):
        heard.listen([("open",)])
    with pytest.raises(RuntimeError, match="In the run compas-constant-1"):
        heard.listen([("broken", "Traceback", 1)])


def test_progress_does_not_go_back_and_what_is_unusual_is_said():
    seen, kept, specs = [], [], grid()[:2]
    heard = cluster.Listener(
        [(spec,) for spec in specs], lambda *now: seen.append(now), None, "h:1"
    )
    heard.write = lambda spec, rows: kept.append((spec.seed, rows))
    received = [("parts", {0: 0.5}), ("again", "It died", 0), ("parts", {0: 0.1})]
    received += [("done", ([b"rows"], ["Few rows."], "toaster"), n) for n in (0, 1)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        heard.listen(received)
    texts = [str(one.message) for one in caught]
    assert texts[0] == "Few rows."
    assert "A run was done again" in texts[-2]
    assert f"another kind of processor (toaster; here {processor()})" in texts[-1]
    assert [round(work / specs[0].work, 3) for work, _ in seen] == [0.5, 0.5, 0.5, 1, 2]
    assert kept == [(0, b"rows"), (1, b"rows")]


def test_an_interrupted_cluster_keeps_what_is_done_and_leaves_nobody(reference, tmp_path):
    """Ctrl-C on a real cluster of our own; the pool does the rest, to the same bytes."""
    pytest.importorskip("ray")
    out, family = tmp_path / "out", []

    def on_work(work, runs):
        if runs >= 2:
            family.extend(psutil.Process().children(recursive=True))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(grid(), out, jobs=1, on_work=on_work, cluster="local")
    end = time.monotonic() + 20
    while time.monotonic() < end and any(map(there, family)):
        time.sleep(0.1)
    assert [one for one in family if there(one)] == []
    kept = {path: path.stat().st_mtime_ns for path in (out / "runs").glob("*.parquet")}
    assert 2 <= len(kept) < 6
    run_experiment(grid(), out, jobs=1)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    same = [(d / "results.parquet").read_bytes() for d in (reference, out)]
    assert same[0] == same[1]


def there(process):
    try:
        python = any("resource_tracker" in word for word in process.cmdline())  # it stays with us
        return process.is_running() and process.status() != "zombie" and not python
    except psutil.NoSuchProcess:
        return False


def test_runs_that_do_not_train_are_not_worth_a_cluster(tmp_path, monkeypatch):
    flat = [
        replace(spec, algorithm=pff.methods.Constant(), method="constant") for spec in grid()[:2]
    ]
    run_experiment(flat[:1], tmp_path / "out", jobs=1)
    monkeypatch.setattr(cluster, "check_cluster", lambda address: {})  # there is none
    assert len(run_experiment(flat, tmp_path / "other", cluster="h:1")) == 10


@pytest.mark.slow
def test_two_machines_one_dies_and_the_bytes_are_the_same(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    for name, value in token_settings().items():
        monkeypatch.setenv(name, value)
    specs, killed = grid(rounds=40, seeds=3), []
    script = Path(__file__).parent / "two_machines.py"
    with tempfile.TemporaryDirectory(prefix="pff", dir="/tmp") as folder:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen([sys.executable, script, folder], env=os.environ, **pipes) as two:
            address = two.stdout.readline().strip()

            def on_work(work, runs):
                if runs >= 4 and not killed:
                    two.stdin.write("kill\n")
                    two.stdin.flush()
                    assert two.stdout.readline() == "killed\n"
                    killed.append(runs)

            with pytest.warns(UserWarning, match="runs? (was|were) done again"):
                run_experiment(specs, tmp_path / "two", on_work=on_work, cluster=address)
            two.stdin.close()
    assert killed
    run_experiment(specs, tmp_path / "here", jobs=1)
    same = [(tmp_path / name / "results.parquet").read_bytes() for name in ("two", "here")]
    assert same[0] == same[1]
