"""An epoch that is too large to be laid out at once is laid out step by step, to the same bits."""

from dataclasses import replace

import pytest
import torch
from play import clients

import pfedfair as pff
from pfedfair.algorithms import clients as room
from pfedfair.engines.stacked import fit
from pfedfair.networks import MLP
from pfedfair.runs.run import named_network


@pytest.fixture
def everyone(federation):
    """Two clients of unequal size, who make three steps each."""
    two = clients(federation, MLP(federation.encoder.width, (), groups=2), ids=[0, 1])
    return replace(two, sizes=[60, 60])


def test_the_same_batches(everyone, monkeypatch):
    whole = list(everyone.epoch(3, batch=20))
    monkeypatch.setattr(room, "EPOCH_MEMORY", 0)
    steps = list(everyone.epoch(3, batch=20))
    assert len(whole) == len(steps) == 3
    for one, other in zip(whole, steps, strict=True):
        assert all(map(torch.equal, one, other))


@pytest.mark.parametrize("method", ["fedavg-kde", "pfedfair", "irm"])
def test_the_same_training(method, federation, monkeypatch):
    algorithm = pff.make(method, {"rounds": 3, "batch": 20})
    network = named_network(federation, "mlp")
    before = fit(federation, algorithm, network, seed=1)
    laid = []
    gather = room.gather
    monkeypatch.setattr(room, "EPOCH_MEMORY", 0)
    monkeypatch.setattr(room, "gather", lambda *args: laid.append(args[1].ndim) or gather(*args))
    after = fit(federation, algorithm, network, seed=1)
    assert set(laid) == {2}  # no (clients, steps, rows) at once
    assert torch.equal(before.theta, after.theta)
    assert torch.equal(before.w, after.w)
