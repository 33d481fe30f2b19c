"""The server's state after every round."""

import pytest
import torch

import pfedfair as pff
from made_bits import flips
from pfedfair.engines.site.checkpoint import NAME, Checkpoint, Participant
from pfedfair.engines.site.schema import agree, describe


def test_a_checkpoint_that_lost_one_bit_is_refused_by_name(federation, tmp_path):
    parts = zip(federation.partition.train, federation.partition.names, strict=True)
    found = [describe(federation.data, own, name, 0, "site") for own, name in parts]
    state = Checkpoint("key", agree(found)[0], [Participant("a", 3)], {"w": torch.randn(7)}, 5)
    state.save(tmp_path)
    path = tmp_path / NAME
    for flipped in flips(path):
        path.write_bytes(flipped)
        with pytest.raises(pff.InputError, match=rf"{NAME} cannot be read .* to start anew") as why:
            Checkpoint.load(tmp_path)
        assert str(tmp_path) in str(why.value)


def test_a_checkpoint_comes_back_whole(federation, tmp_path):
    parts = zip(federation.partition.train, federation.partition.names, strict=True)
    found = [describe(federation.data, own, name, 0, "site") for own, name in parts]
    schema = agree(found)[0]
    server = {
        "w": torch.randn(7),
        "t": torch.tensor(3),
        "c": torch.zeros(2, 4, dtype=torch.float64),
    }
    last_answers = {0: {"w": torch.ones(7)}, 2: {"w": torch.zeros(7)}}
    sites = [Participant("a.b", 3), Participant("c", 4)]
    Checkpoint("key", schema, sites, server, 5, last_answers, [1.5]).save(tmp_path)
    found = Checkpoint.load(tmp_path)
    assert (found.key, found.schema, found.sites) == ("key", schema, sites)
    assert (found.done, found.seconds) == (5, [1.5])
    torch.testing.assert_close(found.server, server)
    torch.testing.assert_close(found.last_answers, last_answers)
    (tmp_path / NAME).write_bytes(b"half")
    with pytest.raises(pff.InputError, match="cannot be read"):
        Checkpoint.load(tmp_path)
    assert Checkpoint.load(tmp_path / "nowhere") is None
