"""What a site keeps from round to round, with a plain dictionary and with Flower's records."""

import pytest
import torch
from flwr.app import RecordDict

from made_bits import flips
from pfedfair.engines.flower.records import NodeMemory
from pfedfair.engines.site import memory


@pytest.fixture(params=[dict, lambda: NodeMemory(RecordDict())], ids=["plain", "Flower"])
def new(request):
    return request.param


def test_a_site_keeps_its_last_two_states(tmp_path, new):
    held = new()
    for done in range(1, 5):
        memory.remember(tmp_path, held, "run", done, {"v": torch.full((1, 2), float(done))})
    kept = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert kept == ["own-000003.safetensors", "own-000004.safetensors"]
    assert memory.recall(tmp_path, held, "run", 9)[1] == 4
    state, done = memory.recall(tmp_path, held, "run", 3)
    assert (done, state["v"][0, 0]) == (3, 3)
    assert memory.recall(tmp_path, held, "run", 2) is None
    assert memory.recall(tmp_path, held, "another", 9) is None


def test_the_newer_of_disk_and_memory_wins(tmp_path, new):
    held, none = new(), new()
    memory.remember(tmp_path / "a", held, "run", 5, {"v": torch.ones(1, 2)})
    memory.remember(tmp_path / "b", none, "run", 4, {"v": torch.zeros(1, 2)})
    state, done = memory.recall(tmp_path / "b", held, "run", 9)  # newer in memory
    assert (done, float(state["v"].sum())) == (5, 2.0)
    state, done = memory.recall(tmp_path / "a", none, "run", 9)  # newer on disk
    assert (done, float(state["v"].sum())) == (5, 2.0)
    assert not list(tmp_path.rglob(".*"))  # nothing half-written


def test_state_that_cannot_be_read_is_passed_over(tmp_path, new):
    held = new()
    for done in (1, 2):
        memory.remember(tmp_path, held, "ab", done, {"v": torch.full((1, 2), float(done))})
    (tmp_path / "ab" / "own-000002.safetensors").write_bytes(b"")
    state, rounds = memory.recall(tmp_path, new(), "ab", 5)
    assert (rounds, state["v"].tolist()) == (1, [[1.0, 1.0]])
    assert memory.recall(tmp_path, held, "ab", 5)[1] == 2  # it is still in memory


def test_state_that_lost_one_bit_is_passed_over_and_named(tmp_path, new, caplog):
    for done in (1, 2):
        memory.remember(tmp_path, new(), "ab", done, {"v": torch.full((1, 2), float(done))})
    path = tmp_path / "ab" / "own-000002.safetensors"
    for flipped in flips(path):
        path.write_bytes(flipped)
        caplog.clear()
        state, rounds = memory.recall(tmp_path, new(), "ab", 5)
        assert (rounds, state["v"].tolist()) == (1, [[1.0, 1.0]])
        assert f"{path} cannot be read" in caplog.text


def test_rounds_that_are_done_again_replace_later_ones(tmp_path, new):
    held = new()
    for done in (18, 19, 20, 1):
        memory.remember(tmp_path, held, "ab", done, {"v": torch.full((1, 2), float(done))})
    for place in (held, new()):
        assert memory.recall(tmp_path, place, "ab", 20)[1] == 1
