"""Whole epochs by row numbers give what minibatches give that are laid out, to the last bit."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from play import clients

from pfedfair.methods import clients as room
from pfedfair.methods.target import TargetedClients
from pfedfair.methods.transport.counts import ClientsWithHead
from pfedfair.models import MLP, kernel
from pfedfair.models.optimisers import OPTIMISERS
from pfedfair.penalties.objective import Objective

EPOCHS = range(4, 7)


@pytest.fixture
def everyone(federation):
    """Two clients of unequal size, who make three steps in an epoch: some places are padding."""
    two = clients(federation, MLP(federation.encoder.width, (9, 5), groups=2), ids=[0, 1])
    return replace(two, sizes=[60, 60])


def both(some, objective=Objective(), optimiser="sgd", gamma=0.0, centre=None):  # noqa: B008
    """Models after these epochs: as they are learnt, and minibatch by minibatch."""
    w = some.network.init(np.random.default_rng(0)).repeat(len(some), 1)
    ours, theirs = w.clone(), w.clone()
    some.learn(objective, ours, OPTIMISERS[optimiser](0.05), EPOCHS, 20, gamma, centre)
    batches = (batch for number in EPOCHS for batch in some.epoch(number, 20))
    some.descend(objective, theirs, OPTIMISERS[optimiser](0.05), batches, gamma, centre)
    assert not torch.equal(ours, w)
    return ours, theirs


@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("memory", [0, 2**22])
def test_the_plain_loss(everyone, optimiser, memory, monkeypatch):
    monkeypatch.setattr(room, "ROWS_MEMORY", memory)
    if kernel.LIBRARY is not None:
        with monkeypatch.context() as patch:
            patch.setattr(room, "gather", None)  # nothing is laid out
            w = torch.zeros(2, everyone.network.size)
            everyone.learn(Objective(), w, OPTIMISERS[optimiser](0.05), EPOCHS, 20)
    assert torch.equal(*both(everyone, optimiser=optimiser))


def test_a_tie_to_a_centre(everyone):
    centre = torch.ones(everyone.network.size)
    assert torch.equal(*both(everyone, gamma=0.5, centre=centre))


def test_rows_that_have_weights(everyone):
    weight = torch.rand(len(everyone.table.x), generator=torch.Generator().manual_seed(0))
    weighted = replace(everyone, table=everyone.table._replace(weight=weight))
    ours, theirs = both(weighted)
    assert torch.equal(ours, theirs)
    assert not torch.equal(ours, both(everyone)[0])


def test_inputs_that_are_stored_otherwise(everyone):
    halves = replace(everyone, table=everyone.table._replace(x=everyone.table.x.half()))
    assert everyone.table.plain
    assert not halves.table.plain
    assert torch.equal(*both(halves))


def test_a_penalty(everyone):
    assert torch.equal(*both(everyone, Objective(eta=0.5)))


def test_clients_who_have_a_slope_of_their_own_are_asked(everyone, monkeypatch):
    asked = []
    own = TargetedClients(
        everyone.network, everyone.table, everyone.rows, everyone.ids, 0, dual=None
    )
    monkeypatch.setattr(
        TargetedClients,
        "slope",
        lambda self, *args: asked.append(1) or super(TargetedClients, self).slope(*args),
    )
    both(replace(own, sizes=[60, 60]))
    assert len(asked) == 2 * 9


def test_without_the_library(everyone, monkeypatch):
    right = both(everyone)[0]
    monkeypatch.setattr(kernel, "LIBRARY", None)
    ours, theirs = both(everyone)
    assert torch.equal(ours, theirs)
    torch.testing.assert_close(ours, right, rtol=1e-4, atol=1e-5)


def test_wide_inputs_in_one_step_keep_their_order(everyone, monkeypatch):
    monkeypatch.setattr(room, "WIDE", 1)
    one = replace(everyone, sizes=[20, 20])
    assert torch.equal(*both(one))


def test_clients_with_slopes_of_their_own_say_so():
    kinds = [room.Clients, *room.Clients.__subclasses__()]
    assert {TargetedClients, ClientsWithHead} <= set(kinds)
    assert all(kind.plain == (kind.slope is room.Clients.slope) for kind in kinds)
