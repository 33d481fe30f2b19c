"""Robust averages, the processes' bookkeeping, the lock, the docs."""

import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import psutil
import pytest
import torch
from flower_sites import LocalGrid, defaults

import pfedfair as pff
from pfedfair.engines.flower import server_app, trial
from pfedfair.engines.flower.processes import Processes, alive, family, write_toml
from pfedfair.engines.flower.robust import robust


def test_robust_averages_need_enough_answers():
    LocalGrid({})  # Flower wants to know in whose name messages are made
    rows = torch.arange(5.0)[:, None].repeat(1, 3)
    assert robust(rows, "trimmed-mean", 1).tolist() == [2.0] * 3
    assert robust(rows, "krum", 1)[0].item() in (1.0, 2.0, 3.0)
    with pytest.raises(pff.InputError, match="trimmed-mean with malicious = 1 needs 3 answers"):
        robust(rows[:2], "trimmed-mean", 1)
    with pytest.raises(pff.InputError, match="krum with malicious = 2 needs 7 answers"):
        robust(rows, "krum", 2)


def test_processes_and_their_children_are_stopped(tmp_path):
    sleep = "import time; time.sleep(60)"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {sleep!r}])"
    with Processes(tmp_path) as processes:
        process = processes.start("one", [sys.executable, "-c", nested])
        end = time.monotonic() + 20
        while len(started := family(process.pid)) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        assert len(started) == 2
    assert not any(map(alive, started))


def test_a_terminated_parent_stops_its_processes(tmp_path):
    code = (
        "import sys, time; from pathlib import Path\n"
        "from pfedfair.engines.flower.processes import Processes\n"
        f"with Processes(Path({str(tmp_path)!r})) as p:\n"
        "    one = p.start('one', [sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "    print(one.pid, flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        assert alive(child)
        parent.send_signal(signal.SIGTERM)
        parent.wait(timeout=30)
    assert not alive(child)


def test_two_runs_in_one_folder_do_not_mix(tmp_path, monkeypatch):
    monkeypatch.setattr(server_app, "PATIENCE", 0.0)
    with (
        server_app.exclusive(tmp_path),
        pytest.raises(pff.InputError, match=r"Another run is at work in .*, process [0-9]+:"),
        server_app.exclusive(tmp_path),
    ):
        pass
    with server_app.exclusive(tmp_path):
        pass


def test_a_run_that_died_without_a_word_is_noticed(tmp_path, monkeypatch):
    class Dead:
        logs = tmp_path

        def wait(self, status, seconds):
            raise TimeoutError

        def ended(self):
            return "the server was killed"

    monkeypatch.setattr(trial, "SILENCE", 0.0)
    with pytest.raises(pff.InputError, match="The run failed: the server was killed"):
        trial.follow(Dead(), tmp_path / "status.json", tmp_path / "server.log", print)


def test_every_setting_of_a_run_is_in_the_docs():
    text = (Path(__file__).parents[3] / "docs" / "flower.md").read_text()
    missing = [key for key in defaults() if f"`{key}`" not in text]
    assert not missing


def test_settings_of_a_site_may_have_any_characters(tmp_path):
    about = {"site": 'St. Mary\'s "old" house\n', "data": "a b.csv", "threads": 1, "x": 0.5}
    write_toml(tmp_path / "site.toml", about)
    assert tomllib.loads((tmp_path / "site.toml").read_text()) == about


def test_seconds_of_sites_are_those_of_the_slowest_one_in_each_round():
    """From the lines that a site's log has of its messages."""
    line = "INFO: pfedfair: {} took {:.2f} s, {:.2f} s after its process began\n"
    rounds = [[(0.5, 2.0), (0.1, 3.0)], [(0.2, 2.5), (0.1, 9.0)], [(0.3, 1.0), (0.3, 1.5)]]
    logs = [line.format("query.describe", 9, 9) for _ in range(2)]
    for sites in rounds:
        logs = [log + line.format("train", *one) for log, one in zip(logs, sites, strict=True)]
    work, start = trial.seconds_at_sites([log + line.format("train.finish", 9, 9) for log in logs])
    assert (work, start) == (pytest.approx(0.5 / 3), pytest.approx(13.5 / 3))
    assert trial.seconds_at_sites(["", ""]) is None
