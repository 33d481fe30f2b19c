"""Some steps of an epoch are laid out at a time; how many does not matter, to the last bit."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from play import clients

import pfedfair as pff
from pfedfair.engines.local import fit
from pfedfair.federation import Table
from pfedfair.methods import Clients
from pfedfair.methods import clients as clients_module
from pfedfair.models import MLP, linear
from pfedfair.runs import choose_network


@pytest.fixture
def all_clients(federation):
    """Two clients of unequal size, who make three steps each."""
    two = clients(federation, MLP(federation.encoder.width, (), groups=2), ids=[0, 1])
    return replace(two, sizes=[60, 60])


@pytest.mark.parametrize("steps_at_once", [0, 2])
def test_the_same_batches(all_clients, monkeypatch, steps_at_once):
    whole = list(all_clients.epoch(3, batch=20))
    one = 4 * whole[0].x.numel()
    monkeypatch.setattr(clients_module, "EPOCH_MEMORY", steps_at_once * one + 1)
    steps = list(all_clients.epoch(3, batch=20))
    stacked = {batch.x.untyped_storage().data_ptr() for batch in steps}
    assert len(stacked) == (2 if steps_at_once else 3)
    assert len(whole) == len(steps) == 3
    for one, other in zip(whole, steps, strict=True):
        assert all(map(torch.equal, one, other))


@pytest.mark.parametrize("method", ["fedavg-kde", "pfedfair", "irm"])
def test_the_same_training(method, federation, monkeypatch):
    algorithm = pff.make(method, {"rounds": 3, "batch": 20})
    network = choose_network(federation, pff.methods.FedAvg(), "mlp")
    before = fit(federation, algorithm, network, seed=1)
    laid = []
    gather = clients_module.gather
    monkeypatch.setattr(clients_module, "EPOCH_MEMORY", 0)
    monkeypatch.setattr(
        clients_module, "gather", lambda *args: laid.append(args[1].shape) or gather(*args)
    )
    after = fit(federation, algorithm, network, seed=1)
    assert all(shape[1] == 1 for shape in laid if len(shape) == 3)  # (clients, steps, rows)
    assert torch.equal(before.theta, after.theta)
    assert torch.equal(before.w, after.w)


def test_steps_of_an_epoch_have_memory_of_their_own(monkeypatch):
    """Wide inputs are laid out in memory that is kept, and Per-FedAvg pairs an epoch's steps."""
    monkeypatch.setattr(clients_module, "EPOCH_MEMORY", 0)
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((40, 300)).astype("float32"))
    table = Table(x, torch.arange(40.0), torch.zeros(40, dtype=torch.long))
    single = Clients(linear(300), table, [np.arange(40)], [0], seed=0)
    for epoch in (0, 1):
        batches = list(single.epoch(epoch, 10))
        assert len(batches) == 4
        for batch in batches:  # labels are row numbers
            assert torch.equal(batch.x[0], x[batch.y[0].long()])
