"""A scorer and a rule: decisions of many clients, counted."""

from dataclasses import replace
from hashlib import blake2b

import numpy as np
import pytest
import torch

from pfedfair.federation import Table
from pfedfair.models import MLP, linear
from pfedfair.rules import Likeliest, Thresholds
from pfedfair.runs import predictor
from pfedfair.runs.predictor import Predictor, count, scored


def test_count_uses_each_clients_model_and_rows():
    x = torch.tensor([[-1.0], [2.0], [-3.0], [4.0]])
    table = Table(x, torch.tensor([0.0, 1.0, 1.0, 0.0]), torch.tensor([0, 0, 1, 1]))
    theta = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])  # predicts x > 0, and x < 0
    both = [Predictor(linear(1), row, Likeliest()) for row in theta]
    pool = count(both, table, [np.arange(4)] * 2)
    np.testing.assert_array_equal(pool[0], [[[1, 0], [0, 1]], [[0, 1], [1, 0]]])
    np.testing.assert_array_equal(pool[1], [[[0, 1], [1, 0]], [[1, 0], [0, 1]]])
    own = count(both, table, [np.array([0]), np.array([2, 3])])
    np.testing.assert_array_equal(own.sum((1, 2, 3)), [1, 2])
    np.testing.assert_array_equal(own[1, 1], [[1, 0], [0, 1]])


def test_the_same_model_with_another_rule_decides_otherwise(federation):
    """Clients that decide alike are counted once; those that do not, each for itself."""
    network = MLP(federation.encoder.width, (4,), groups=2)
    theta = network.init(np.random.default_rng(0))
    all_rows = Thresholds(torch.tensor([[-9.0, -9.0, 0.0, 0.0]] * 2))
    no_rows = Thresholds(torch.tensor([[9.0, 9.0, 0.0, 0.0]] * 2))
    each = [Predictor(network, theta, rule) for rule in (all_rows, no_rows, all_rows)]
    rows = np.arange(50)
    counts = count(each, federation.table, [rows] * 3)
    assert counts[0, ..., 0].sum() == counts[1, ..., 1].sum() == 0
    np.testing.assert_array_equal(counts[0], counts[2])


def test_random_draws_follow_from_the_clients_key_and_the_inputs(federation):
    network = MLP(federation.encoder.width, (4,), groups=2)
    theta = torch.stack([network.init(np.random.default_rng(k)) for k in range(3)])
    randomised = Thresholds(torch.tensor([[-9.0, 9.0, 0.5, 0.0]] * 2))
    each = [Predictor(network, row, randomised, bytes([k])) for k, row in enumerate(theta)]
    rows = [np.arange(100)] * 3
    counts = count(each, federation.table, rows)
    np.testing.assert_array_equal(counts, count(each, federation.table, rows))
    others = [replace(one, key=b"another") for one in each]
    assert (counts != count(others, federation.table, rows)).any()
    x, y, s = (tensor[:100] for tensor in federation.table[:3])
    decided = each[1].decide(x, s)
    draw = [blake2b(row.numpy().tobytes() + int(z).to_bytes(2), key=b"\1", digest_size=8).digest()
            for row, z in zip(x, s, strict=True)]  # fmt: skip
    low = [int.from_bytes(one, "little") < 2**63 for one in draw]  # one half, the rule's chance
    np.testing.assert_array_equal(decided, low)
    expected = np.zeros((2, 2, 2))
    np.add.at(expected, (s.numpy(), y.long().numpy(), decided.numpy()), 1)
    np.testing.assert_array_equal(counts[1], expected)


def test_many_people_are_scored_in_parts(federation, monkeypatch):
    network = MLP(federation.encoder.width, (4,), groups=2)
    one = Predictor(network, network.init(np.random.default_rng(0)), Likeliest())
    x, s = federation.table.x, federation.table.s
    whole = one.logits(x, s)
    monkeypatch.setattr(predictor, "ROWS_AT_ONCE", 7)
    torch.testing.assert_close(one.logits(x, s), whole)


@pytest.mark.parametrize("most", [1, 40, 2048])
def test_clients_with_one_model_are_scored_in_one_pass(federation, monkeypatch, most):
    network, table = MLP(federation.encoder.width, (4,), groups=2), federation.table
    theta = torch.stack([network.init(np.random.default_rng(k)) for k in range(2)])
    each = [Predictor(network, theta[k], Likeliest()) for k in (0, 0, 1, 0, 0, 0)]
    rows = [np.arange(a, b) for a, b in ((0, 30), (30, 35), (5, 9), (8, 8), (50, 90), (2, 3))]
    monkeypatch.setattr(predictor, "ROWS_AT_ONCE", most)
    found = list(scored(each, table, rows))
    assert len(found) == len(each)
    for one, own, z in zip(each, rows, found, strict=True):
        expected = network.logits(one.theta[None], table.x[own][None], table.s[own][None])[0]
        torch.testing.assert_close(z, expected)
