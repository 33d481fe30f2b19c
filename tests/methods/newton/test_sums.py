"""Messages do not depend on how many rows are in a piece, nor on the design."""

import numpy as np
import pandas as pd
import pytest
import torch

import pfedfair as pff
from pfedfair.methods.clients import Clients
from pfedfair.methods.newton import lookup, sums
from pfedfair.methods.transport.counts import with_head
from pfedfair.models import Both, linear

SIZES = (130, 0, 1, 40, 7, 3)
WAYS = {"laid out": 10**9, "looked up": 1, "in C": 10**9}  # and from how many inputs on


def all_clients(classes, weighted, head):
    rng, n = np.random.default_rng(0), sum(SIZES)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.choice(["u", "v", None], n)})
    frame["y"], frame["s"] = np.arange(n) % classes, rng.integers(0, 2, n)
    table = pff.from_frame(frame, "y", "s").federate(pff.partition.together()).table
    if weighted:
        table = table._replace(weight=torch.from_numpy(rng.uniform(0.5, 2, n)).float())
    rows = np.split(rng.permutation(n), np.cumsum(SIZES)[:-1])
    outputs = 1 if classes == 2 else classes
    network = linear(table.width, outputs, groups=0 if head else 2)
    network = Both(network, linear(table.width)) if head else network
    found = Clients(network, table, rows, range(len(SIZES)), seed=0)
    return with_head(found) if head else found


def messages(clients, tau):
    """All messages about some points: by fold and not, of models left out and to try."""
    rng, folds = torch.Generator().manual_seed(0), 5
    points, starts = (torch.randn(k, clients.network.size, generator=rng).double() for k in (2, 5))
    tries = torch.randn(folds, 3, clients.network.size, generator=rng).double()
    found = sums.by_fold(clients, points, folds, True, tau)
    found |= {f"all {k}": v for k, v in sums.by_fold(clients, points, folds, False, tau).items()}
    found |= sums.left_gradients(clients, starts, points, tau)
    return found | sums.held_losses(clients, tries, points, tau)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tau", [None, 0.0, 0.7])
@pytest.mark.parametrize(
    ("classes", "weighted", "head"),
    [(2, False, False), (3, False, False), (2, True, False), (2, False, True)],
)
def test_pieces_of_any_size_give_the_same(way, tau, classes, weighted, head, monkeypatch):
    if weighted and tau is not None:
        pytest.skip("rows with weights have no intercepts of their own")
    tau = None if tau is None else torch.tensor(tau, dtype=torch.float64)
    monkeypatch.setattr(sums, "WIDE", 10**9)
    with monkeypatch.context() as patch:
        patch.setattr(lookup, "LIBRARY", None)
        right = messages(all_clients(classes, weighted, head), tau)
    assert right["hessian"].shape[:2] == (len(SIZES), 5)
    if way != "in C":
        monkeypatch.setattr(lookup, "LIBRARY", None)
    monkeypatch.setattr(sums, "WIDE", WAYS[way])
    for most in (10**6, 40):
        monkeypatch.setattr(sums, "ROWS", most)
        monkeypatch.setattr(sums, "ROWS_LOOKED_UP", most)
        found = messages(all_clients(classes, weighted, head), tau)
        assert found.keys() == right.keys()
        for name, numbers in right.items():
            scale = 1e-5 * (1 + float(numbers.abs().max()))
            torch.testing.assert_close(found[name], numbers, rtol=1e-5, atol=scale)
