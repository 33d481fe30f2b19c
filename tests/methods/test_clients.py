"""Some clients in one stack."""

import numpy as np
import pytest
import torch

from pfedfair.methods import clients as of_clients
from pfedfair.methods.clients import Clients
from pfedfair.models import Network, linear


@pytest.mark.parametrize("at_once", [1, 30, 10**6])
def test_scores_of_all_rows_in_blocks(federation, monkeypatch, at_once):
    table, rows = federation.table, [*federation.partition.train, np.array([], dtype=np.int64)]
    network = linear(table.width, groups=2)
    w = torch.randn(network.size, generator=torch.Generator().manual_seed(0))
    clients = Clients(network, table, rows, range(len(rows)), seed=0)
    monkeypatch.setattr(of_clients, "SCORED_INPUTS", at_once * table.width)
    for i, part in enumerate(rows):
        x = torch.cat([table.inputs(part), table.s[part, None]], 1).double()
        by_hand = x @ w[:-1].double() + w[-1]
        found = clients.scores(w, i)
        assert found.shape == (len(part), 1)
        torch.testing.assert_close(found[:, 0].double(), by_hand, rtol=1e-5, atol=1e-5)


def test_scores_without_inputs(federation):
    """Of a table whose only input is S."""
    none = federation.table._replace(x=federation.table.x[:, :0], encoder=None)
    clients = Clients(linear(0, groups=2), none, federation.partition.train[:1], [0], seed=0)
    found = clients.scores(torch.tensor([2.0, 1.0]), 0)[:, 0]
    assert torch.equal(found, 2.0 * none.s[clients.rows[0]] + 1)


@pytest.mark.parametrize(("measured", "most"), [(0, 3), (5, 8)])
def test_a_network_with_batch_statistics_gets_large_blocks(federation, monkeypatch, measured, most):
    seen = []

    class Recorder(Network):
        def logits(self, w, x, s):
            seen.append(x.shape[1])
            return x[..., :1]

    network, table = Recorder(), federation.table
    network.measured = measured
    monkeypatch.setattr(of_clients, "SCORED_INPUTS", 3 * table.width)
    monkeypatch.setattr(of_clients, "MEASURED_ROWS", 8)
    clients = Clients(network, table, [np.arange(20)], [0], seed=0)
    assert torch.equal(clients.scores(torch.zeros(1), 0), table.inputs(np.arange(20))[:, :1])
    assert max(seen) == most
