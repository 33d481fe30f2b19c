"""The schema, what sites and the server keep, settings, the processes' bookkeeping."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from flower_sites import LocalGrid, defaults
from flwr.app import RecordDict
from hypothesis import given
from hypothesis import strategies as st

import pfedfair as pff
from conftest import people
from pfedfair.data import Encoder
from pfedfair.engines.flower import memory, server_app, trial
from pfedfair.engines.flower.checkpoint import NAME, Checkpoint, Place
from pfedfair.engines.flower.processes import Processes, alive, descendants, toml
from pfedfair.engines.flower.robust import robust
from pfedfair.engines.flower.schema import Description, Schema, agree, describe
from pfedfair.engines.flower.task import Settings, make_algorithm, read_site
from pfedfair.engines.flower.trial import settings_of


def described(federation):
    rows = federation.partition.train
    names = federation.partition.names
    return [
        describe(federation.data, own, name, 0, "site")
        for own, name in zip(rows, names, strict=True)
    ]


def test_the_agreed_encoding_is_that_of_all_rows_together(federation):
    schema, refused = agree(described(federation))
    assert not refused
    together = federation.encoder
    assert schema.encoder.categories == together.categories
    for column in together.mean:
        assert schema.encoder.mean[column] == pytest.approx(together.mean[column], rel=1e-12)
        assert schema.encoder.scale[column] == pytest.approx(together.scale[column], rel=1e-12)
    assert Schema.from_json(schema.to_json()) == schema


@given(
    st.lists(
        st.lists(st.floats(-1e6, 1e6) | st.just(3.0), min_size=20, max_size=25),
        min_size=1,
        max_size=4,
    )
)
def test_moments_of_any_split_are_those_of_the_whole(parts):
    values = np.concatenate(parts) + 1e7
    half = np.arange(len(values)) % 2
    frame = pd.DataFrame({"x": values, "y": half, "s": half})
    data = pff.from_frame(frame, "y", "s")
    cuts = np.split(np.arange(len(values)), np.cumsum([len(p) for p in parts])[:-1])
    found = [describe(data, rows, str(i), i, "") for i, rows in enumerate(cuts)]
    encoder = agree(found)[0].encoder
    whole = Encoder.fit(data, np.arange(len(values)))
    assert encoder.mean["x"] == pytest.approx(whole.mean["x"], rel=1e-12)
    assert encoder.scale["x"] == pytest.approx(whole.scale["x"], rel=1e-5, abs=1e-3)


def test_a_column_that_is_constant_everywhere_has_scale_1():
    def site(name, value):
        numbers, names = {"x": (30 * value, 0.0)}, (("0", "1"), ("f", "m"), ("y", "s"))
        return Description(name, 0, 30, numbers, {}, *names, ())

    found = [site(str(i), 0.1) for i in range(3)]
    assert agree(found)[0].encoder.scale == {"x": 1.0}
    scale = agree([*found, site("3", 0.2)])[0].encoder.scale["x"]
    assert scale == pytest.approx(np.std([0.1] * 3 + [0.2]))


def test_a_description_goes_through_json_and_needs_some_rows(federation):
    one = described(federation)[0]
    assert Description.from_json(one.to_json()) == one
    with pytest.raises(pff.InputError, match="5 training rows, at least 20 are needed"):
        describe(federation.data, np.arange(5), "x", 0, "")


def test_what_most_sites_have_is_agreed(federation):
    from dataclasses import replace

    a, b, c = described(federation)
    odd = replace(a, numbers={k: v for k, v in a.numbers.items() if k != "b"})
    schema, refused = agree([odd, b, c])
    assert list(refused) == [a.site]
    assert "column 'b' is missing" in refused[a.site]
    assert set(schema.encoder.mean) == {"a", "b", "c"}


def test_a_site_keeps_its_last_two_states(tmp_path):
    held = RecordDict()
    for done in range(1, 5):
        memory.remember(tmp_path, held, "run", done, {"v": torch.full((1, 2), float(done))})
    kept = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert kept == ["own-000003.safetensors", "own-000004.safetensors"]
    assert memory.recall(tmp_path, held, "run", 9)[1] == 4
    state, done = memory.recall(tmp_path, held, "run", 3)
    assert (done, state["v"][0, 0]) == (3, 3)
    assert memory.recall(tmp_path, held, "run", 2) is None
    assert memory.recall(tmp_path, held, "another", 9) is None


def test_the_newer_of_disk_and_memory_wins(tmp_path):
    held, none = RecordDict(), RecordDict()
    memory.remember(tmp_path / "a", held, "run", 5, {"v": torch.ones(1, 2)})
    memory.remember(tmp_path / "b", none, "run", 4, {"v": torch.zeros(1, 2)})
    state, done = memory.recall(tmp_path / "b", held, "run", 9)  # newer in memory
    assert (done, float(state["v"].sum())) == (5, 2.0)
    state, done = memory.recall(tmp_path / "a", none, "run", 9)  # newer on disk
    assert (done, float(state["v"].sum())) == (5, 2.0)
    assert not list(tmp_path.rglob(".*"))  # nothing half-written


def test_a_checkpoint_comes_back_whole(federation, tmp_path):
    schema = agree(described(federation))[0]
    server = {
        "w": torch.randn(7),
        "t": torch.tensor(3),
        "c": torch.zeros(2, 4, dtype=torch.float64),
    }
    last = {0: {"w": torch.ones(7)}, 2: {"w": torch.zeros(7)}}
    places = [Place("a.b", 3), Place("c", 4)]
    Checkpoint("key", schema, places, server, 5, last, [1.5]).save(tmp_path)
    found = Checkpoint.load(tmp_path)
    assert (found.key, found.schema, found.places) == ("key", schema, places)
    assert (found.done, found.seconds) == (5, [1.5])
    torch.testing.assert_close(found.server, server)
    torch.testing.assert_close(found.last, last)
    (tmp_path / NAME).write_bytes(b"half")
    with pytest.raises(pff.InputError, match="cannot be read"):
        Checkpoint.load(tmp_path)
    assert Checkpoint.load(tmp_path / "nowhere") is None


def test_robust_averages_need_enough_answers():
    LocalGrid({})  # Flower wants to know in whose name messages are made
    rows = torch.arange(5.0)[:, None].repeat(1, 3)
    assert robust(rows, "trimmed-mean", 1).tolist() == [2.0] * 3
    assert robust(rows, "krum", 1)[0].item() in (1.0, 2.0, 3.0)
    with pytest.raises(pff.InputError, match="trimmed-mean with 1 bad sites needs 3 answers"):
        robust(rows[:2], "trimmed-mean", 1)
    with pytest.raises(pff.InputError, match="krum with 2 bad sites needs 7 answers"):
        robust(rows, "krum", 2)


def test_settings_name_an_algorithm_with_all_its_options():
    for algorithm in (
        pff.PFedFair(eta=0.3, lam=0.1, penalty_options=(("bandwidth", 0.2),)),
        pff.algorithms.targeted(pff.FedAvg(eta=0.5), target_ddp=0.1),
        pff.Transport(kappa=float("inf")),
    ):
        method = {"PFedFair": "pfedfair", "Targeted": "fedavg-kde", "Transport": "transport"}
        config = defaults() | {"method": method[type(algorithm).__name__], **settings_of(algorithm)}
        assert make_algorithm(config) == algorithm


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"method": "none"}, "Unknown method"),
        ({"options": "K=5"}, "options must be a JSON object"),
        ({"options": '{"beta": 1}', "method": "fedavg"}, "beta means nothing to fedavg"),
        ({"eta": "high"}, "eta must be a number"),
        ({"confidence": 0.9, "method": "fedavg-kde"}, "confidence needs target-ddp"),
        ({"sites": 0}, "sites must be at least 1"),
        ({"sites": 2, "min-sites": 3}, "min-sites must be between 1 and sites"),
        ({"aggregate": "median"}, "Unknown aggregate"),
        ({"local-rounds": 0}, "local-rounds must be at least 1"),
    ],
)
def test_bad_settings_are_refused(more, words):
    with pytest.raises(pff.InputError, match=words):
        Settings.read(defaults() | more)


def test_a_site_needs_data_and_a_partition_needs_a_number(tmp_path):
    with pytest.raises(pff.InputError, match="This site has no data"):
        read_site({}, defaults())
    adult = read_site({"data": "adult", "partition-id": 1, "num-partitions": 5}, defaults())
    plan = pff.load("adult").federate(pff.partition.fixed_shares()).partition
    np.testing.assert_array_equal(adult.train, plan.train[1])
    with pytest.raises(pff.InputError, match="partition-id must be between 0 and 4, got 7"):
        read_site({"data": "adult", "partition-id": 7, "num-partitions": 5}, defaults())
    people().to_csv(tmp_path / "p.csv", index=False)
    site = read_site(
        {"data": str(tmp_path / "p.csv"), "label": "hired", "sensitive": "sex", "drop": "site"},
        defaults(),
    )
    assert (site.name, len(site.test)) == ("p", 64)
    assert not set(site.test) & set(site.train)


def test_a_server_cannot_point_a_site_with_own_data_elsewhere(tmp_path):
    people().to_csv(tmp_path / "p.csv", index=False)
    own = {"data": str(tmp_path / "p.csv"), "label": "hired", "sensitive": "sex"}
    run = defaults() | {"data": "adult", "drop": "a", "label": "x"}
    assert "a" in read_site(own, run).data.numeric


def test_toml_is_safe_to_put_on_a_line():
    assert toml({"a": "x y", "b": 1, "c": 0.5, "d": True}) == "a='x y'\nb=1\nc=0.5\nd=true"
    with pytest.raises(pff.InputError, match="must not have quotes"):
        toml({"a": "it's"})


def test_processes_and_their_children_are_stopped(tmp_path):
    sleep = "import time; time.sleep(60)"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {sleep!r}])"
    with Processes(tmp_path) as processes:
        process = processes.start("one", [sys.executable, "-c", nested])
        end = time.monotonic() + 20
        while not descendants(process.pid) and time.monotonic() < end:
            time.sleep(0.05)
        family = [process.pid, *descendants(process.pid)]
        assert len(family) == 2
    assert not any(alive(pid) for pid in family)


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
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.send_signal(signal.SIGTERM)
        parent.wait(timeout=30)
    assert not alive(child)


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 0}, {"rows": "90"}, {"rows": 1e12}, {"labels": []}, {"groups": []},
        {"numbers": {"a": [float("nan"), 1.0]}}, {"numbers": {"a": [1.0, -1.0]}}, {"site": ""},
    ],
    ids=str,
)  # fmt: skip
def test_descriptions_that_cannot_be_are_refused(federation, change):
    given = json.loads(described(federation)[0].to_json())
    Description.from_json(json.dumps(given))
    with pytest.raises(ValueError, match="a description must have"):
        Description.from_json(json.dumps(given | change))


def test_state_that_cannot_be_read_is_passed_over(tmp_path):
    held = RecordDict()
    for done in (1, 2):
        memory.remember(tmp_path, held, "ab", done, {"v": torch.full((1, 2), float(done))})
    (tmp_path / "ab" / "own-000002.safetensors").write_bytes(b"")
    state, rounds = memory.recall(tmp_path, RecordDict(), "ab", 5)
    assert (rounds, state["v"].tolist()) == (1, [[1.0, 1.0]])
    assert memory.recall(tmp_path, held, "ab", 5)[1] == 2  # it is still in memory


def test_rounds_that_are_done_again_replace_later_ones(tmp_path):
    held = RecordDict()
    for done in (18, 19, 20, 1):
        memory.remember(tmp_path, held, "ab", done, {"v": torch.full((1, 2), float(done))})
    for place in (held, RecordDict()):
        assert memory.recall(tmp_path, place, "ab", 20)[1] == 1


def test_two_runs_in_one_folder_do_not_mix(tmp_path, monkeypatch):
    monkeypatch.setattr(server_app, "PATIENCE", 0.0)
    with (
        server_app.alone(tmp_path),
        pytest.raises(pff.InputError, match=r"Another run is at work in .*, process [0-9]+:"),
        server_app.alone(tmp_path),
    ):
        pass
    with server_app.alone(tmp_path):
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
