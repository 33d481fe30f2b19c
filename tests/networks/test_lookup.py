"""A network, a head and a table of decisions, against two networks of PyTorch's own."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils import vector_to_parameters

from pfedfair import metrics
from pfedfair.networks import MLP, Cells, Lookup, outputs

INPUTS = 6


def layers(inputs, hidden, out):
    widths = [inputs, *hidden, out]
    parts = []
    for a, b in pairwise(widths):
        parts += [torch.nn.Linear(a, b), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts[:-1]).double()


def make(classes, groups, aware, rows=3, seed=0):
    """A lookup with random parameters, and how its parts are laid out."""
    network = MLP(INPUTS, (5, 4), outputs(classes))
    head = None if aware else MLP(INPUTS, (3,), outputs(groups))
    cells = Cells(classes, 30) if aware else Cells(classes, 15, groups, 10)
    lookup = Lookup(network, head, cells, groups if aware else 1)
    rng = np.random.default_rng(seed)
    w = torch.stack([lookup.init(rng) for _ in range(rows)]).double()
    tables = groups if aware else 1
    chances = torch.from_numpy(rng.dirichlet(np.ones(classes), (rows, tables, cells.number)))
    w[:, -lookup.rule_size :] = chances.flatten(1)
    return lookup, w, chances


def people(groups, aware, rows=3, n=25, seed=0):
    rng = np.random.default_rng(seed)
    x = 2 * rng.normal(size=(rows, n, INPUTS))
    s = rng.integers(groups, size=(rows, n))
    if aware and groups == 2:
        x[..., -1] = s
    elif aware:
        x[..., -groups:] = np.eye(groups)[s]
    return torch.from_numpy(x), s


shapes = given(st.integers(2, 4), st.integers(2, 4), st.booleans(), st.integers(0, 99))


@shapes
@settings(deadline=None, max_examples=40)
def test_logits_and_gradient_are_those_of_two_networks(classes, groups, aware, seed):
    lookup, w, _ = make(classes, groups, aware, seed=seed)
    x, _ = people(groups, aware, seed=seed)
    logits, pull = lookup.vjp(w, x)
    torch.testing.assert_close(logits, lookup.logits(w, x))
    slope = torch.randn(logits.shape, generator=torch.Generator().manual_seed(seed)).double()
    gradient = pull(slope)
    assert gradient.shape == w.shape
    assert (gradient[:, -lookup.rule_size :] == 0).all()
    for i in range(len(w)):
        nets = [layers(INPUTS, (5, 4), outputs(classes))]
        if not aware:
            nets.append(layers(INPUTS, (3,), outputs(groups)))
        start, found = 0, []
        for net in nets:
            size = sum(p.numel() for p in net.parameters())
            vector_to_parameters(w[i, start : start + size], net.parameters())
            found.append(net(x[i]))
            start += size
        expected = torch.cat(found, dim=-1)
        torch.testing.assert_close(logits[i], expected.detach())
        (expected * slope[i]).sum().backward()
        slopes = torch.cat([p.grad.flatten() for net in nets for p in net.parameters()])
        torch.testing.assert_close(gradient[i, :start], slopes)
        assert start + lookup.rule_size == lookup.size


@shapes
@settings(deadline=None, max_examples=40)
def test_chances_are_those_of_the_cell_and_the_group(classes, groups, aware, seed):
    lookup, w, table = make(classes, groups, aware, seed=seed)
    x, s = people(groups, aware, seed=seed)
    chances = lookup.chances(w, x)
    place = lookup.cells.place(lookup.logits(w, x))
    for i in range(len(w)):
        for k in range(x.shape[1]):
            expected = table[i, s[i, k] if aware else 0, place[i, k]]
            assert torch.equal(chances[i, k], expected)
    torch.testing.assert_close(chances.sum(-1), torch.ones(chances.shape[:2]).double())
    torch.testing.assert_close(lookup.rule(w), table)


def test_a_new_row_has_an_empty_table():
    lookup, _, _ = make(3, 3, aware=False)
    row = lookup.init(np.random.default_rng(1))
    rng = np.random.default_rng(1)
    assert torch.equal(row[: lookup.network.size], lookup.network.init(rng))
    head = row[lookup.network.size : lookup.network.size + lookup.head.size]
    assert torch.equal(head, lookup.head.init(rng))
    assert (row[-lookup.rule_size :] == 0).all()
    assert len(row) == lookup.size


@pytest.mark.parametrize(
    ("classes", "groups", "aware"), [(3, 2, True), (4, 3, True), (3, 3, False)]
)
def test_decisions_are_drawn_with_these_chances(classes, groups, aware):
    """20,000 draws for each of a few people."""
    lookup, w, _ = make(classes, groups, aware)
    x, _ = people(groups, aware, n=4)
    many = x[0].repeat_interleave(20_000, dim=0)
    decided = metrics.decide(lookup, w[0], many, np.random.default_rng(0)).reshape(4, -1)
    rates = torch.stack([(decided == c).double().mean(1) for c in range(classes)], dim=1)
    torch.testing.assert_close(rates, lookup.chances(w[:1], x[:1])[0], atol=0.015, rtol=0)
