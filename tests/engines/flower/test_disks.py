"""Disks that become read-only in the midst of a run, and clocks that jump."""

import itertools
import time
from contextlib import ExitStack

import pytest
import torch
from flower_sites import Consortium, only

import pfedfair as pff
from pfedfair.engines import local
from pfedfair.engines.flower.conduct import Conductor
from pfedfair.engines.site.checkpoint import Checkpoint
from pfedfair.engines.site.settings import Settings, make_algorithm
from pfedfair.runs import choose_network
from read_only import read_only


@pytest.fixture
def consortium(table, tmp_path) -> Consortium:
    return Consortium(table.federate(pff.partition.by_column("site"), seed=3), tmp_path)


def conduct(grid):
    return Conductor(grid, Settings.read(grid.run_config)).run()


def reference(federation, grid):
    algorithm = make_algorithm(grid.run_config)
    network = choose_network(federation, algorithm)
    return local.fit(federation, algorithm, network, grid.run_config["seed"])


def in_round(grid, t, folder):
    """Make a folder read-only from a round's messages on; return what ends that."""
    until, push = ExitStack(), grid.push_messages

    def pushed(messages):
        numbers = {m.metadata.group_id for m in messages if m.metadata.message_type == "train"}
        if numbers == {str(t + 1)} and not until._exit_callbacks:
            until.enter_context(read_only(folder))
        elif numbers:
            until.close()
        return push(messages)

    grid.push_messages = pushed
    return until


def test_a_site_whose_disk_is_read_only_is_left_out_and_comes_back(consortium, caplog):
    """Nothing leaves that its own disk could not remember."""
    grid = consortium.grid("fedavg", rounds=3, **{"min-sites": 2})
    with in_round(grid, 1, consortium.folder / "state1"):
        state = conduct(grid)
    expected = only(consortium, grid.run_config, [[0, 1, 2], [0, 2], [0, 1, 2]])
    torch.testing.assert_close(state.server["w"], expected, atol=1e-6, rtol=0)


def test_a_server_whose_disk_is_read_only_goes_on_to_the_same_weights(consortium):
    grid = consortium.grid("ditto-kde", rounds=3)
    out = consortium.folder / "out-ditto-kde"
    with in_round(grid, 1, out), pytest.raises(OSError, match="Read-only file system"):
        conduct(grid)
    assert Checkpoint.load(out).done == 1
    state = conduct(consortium.grid("ditto-kde", rounds=3))
    fitted = reference(consortium.federation, grid)
    torch.testing.assert_close(state.server["w"], fitted.w, atol=1e-5, rtol=0)


@pytest.mark.parametrize("command", ["train", "compare"])
def test_a_command_that_cannot_write_says_so_and_leaves_nothing(pfedfair, tmp_path, command):
    folder = tmp_path / "disk"
    folder.mkdir()
    with read_only(folder):
        code, _, err = pfedfair(command, "compas", "--rounds", 2, "--out", folder / "run")
    assert code == 2
    assert "Read-only file system" in err
    assert str(folder) in "".join(err.split())
    assert not list(folder.iterdir())


def test_a_clock_that_jumps_changes_nothing(consortium, monkeypatch):
    """A day forward, a day back, at every look; waits are by a clock that does not jump."""
    day, now = itertools.cycle([86400, 0, -86400, 3600]), time.time
    monkeypatch.setattr(time, "time", lambda: now() + next(day))
    grid = consortium.grid("fedavg", rounds=3)
    state = conduct(grid)
    fitted = reference(consortium.federation, grid)
    torch.testing.assert_close(state.server["w"], fitted.w, atol=1e-5, rtol=0)
