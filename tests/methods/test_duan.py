"""The linear program over all clients: against the paper's form of it and a simple search."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from play import clients
from scipy.optimize import linprog

import pfedfair as pff
from pfedfair.methods.clients import hold_out
from pfedfair.methods.duan import best_mix
from pfedfair.methods.phases import keeps_clients
from pfedfair.models import linear


def drawn(seed, clients=3):
    rng = np.random.default_rng(seed)
    return rng.integers(1, 40, size=(clients, 2, 2, 2)).astype(float)


def rates(counts, mix):
    """P(positive) of every client's groups, and how many are decided rightly."""
    group_rows = counts.sum((2, 3))
    given = counts.sum(2)[..., 1] / group_rows.clip(min=1)
    label = counts.sum(3)
    right = (
        mix[..., 0] * np.trace(counts, axis1=2, axis2=3)
        + mix[..., 1] * label[..., 0]
        + mix[..., 2] * label[..., 1]
    )
    return mix[..., 0] * given + mix[..., 2], right.sum()


def gaps(counts, mix):
    rate, _ = rates(counts, mix)
    group_rows = counts.sum((2, 3))
    whole = (group_rows * rate).sum(0) / group_rows.sum(0)
    return np.abs(rate[:, 1] - rate[:, 0]), abs(whole[1] - whole[0])


def in_true_positive_rates(counts, local, whole):
    """The paper's form: t[c, a, y] = P(decision y | label y), in a triangle of three points."""
    n = len(counts)
    label, group_rows = counts.sum(3), counts.sum((2, 3))
    tp = np.stack([counts[:, :, y, y] / label[:, :, y] for y in (0, 1)], axis=-1)
    rows, bounds = [], []

    def limit(weight, at):  # of P(decision 1) = P(Y=0) (1 - t_0) + P(Y=1) t_1, group 1 less 0
        row, const = np.zeros((n, 2, 2)), 0.0
        for c in range(n):
            for a in (0, 1):
                sign = (2 * a - 1) * weight[c, a] / group_rows[c, a]
                row[c, a] = sign * label[c, a] * [-1, 1]
                const += sign * label[c, a, 0]
        for one in (1, -1):
            rows.append(one * row.ravel())
            bounds.append(at - one * const)

    for c in range(n):
        limit(np.eye(n)[c][:, None] * np.ones(2), local)
    limit(group_rows / group_rows.sum(0), whole)
    for c, a in product(range(n), (0, 1)):  # the triangle of (1, 0), (0, 1) and tp
        corners = np.array([[1.0, 0.0], [0.0, 1.0], tp[c, a]])
        for i in range(3):
            p, q, r = corners[i], corners[(i + 1) % 3], corners[(i + 2) % 3]
            normal = np.array([q[1] - p[1], p[0] - q[0]])
            normal = normal * -np.sign(normal @ (r - p))  # points away from the third
            row = np.zeros((n, 2, 2))
            row[c, a] = normal
            rows.append(row.ravel())
            bounds.append(normal @ p)
    found = linprog(-label.ravel(), A_ub=rows, b_ub=np.array(bounds) + 1e-9, bounds=(0, 1))
    assert found.status == 0
    return -found.fun


@given(seed=st.integers(0, 10_000), limits=st.sampled_from([(0.05, 0.02), (0.0, 0.0), (0.3, 1.0)]))
@settings(max_examples=25, deadline=None)
def test_it_is_the_papers_program_in_true_positive_rates(seed, limits):
    counts = drawn(seed)
    mix = best_mix(counts, *limits)
    np.testing.assert_allclose(mix.sum(-1), 1)
    local, whole = gaps(counts, mix)
    assert local.max() <= limits[0] + 1e-5
    assert whole <= limits[1] + 1e-5
    reference = in_true_positive_rates(counts, *limits)
    assert rates(counts, mix)[1] == pytest.approx(reference, abs=0.01)


def test_no_limit_leaves_the_model_or_the_frequent_label():
    counts = np.array([[[[30.0, 5], [5, 30]], [[20, 5], [5, 40]]]])
    assert (best_mix(counts, 1.0, 1.0) == [1, 0, 0]).all()
    for axis, label in ((0, 1), (1, 2)):
        useless = np.full((1, 2, 2, 2), 5.0)
        useless[:, :, axis] *= 4  # the model's label says nothing: one label for all is better
        assert np.allclose(best_mix(useless, 0.1, 0.1)[..., label], 1)


def test_two_groups_by_a_exhaustive_search():
    counts = drawn(5, clients=1)
    best = 0.0
    grid = np.linspace(0, 1, 21)
    each = np.array([(a, b, 1 - a - b) for a in grid for b in grid if a + b <= 1 + 1e-9])
    for zero in each:
        both = np.stack([np.broadcast_to(zero, each.shape), each], axis=1)[:, None]
        for mix in both:
            if gaps(counts, mix)[0][0] <= 0.05:
                best = max(best, rates(counts, mix)[1])
    found = rates(counts, best_mix(counts, 0.05, 1.0))[1]
    assert best <= found + 1e-6
    assert found <= best + 0.04 * counts.sum()  # the grid is coarse


def test_a_group_that_is_not_there_keeps_the_models_label():
    counts = drawn(1)
    counts[0, 1] = 0
    mix = best_mix(counts, 0.0, 1.0)
    assert (mix[0] == [1, 0, 0]).sum() >= 3
    assert (best_mix(np.zeros((2, 2, 2, 2)), 0.0, 0.0) == [1, 0, 0]).all()


def test_clients_decide_as_the_program_says():
    """On the held rows the limits are kept, by the chances of the rules."""
    compas = pff.load("compas").federate(pff.partition.fixed_shares(), 0)
    algorithm = pff.methods.Duan(
        rounds=4, batch=120, alpha=0.02, target_ddp=0.04, target_global=0.01
    )
    run = pff.train(compas, algorithm, network=linear(compas.table.width, groups=2))
    _, held = hold_out(clients(compas, run.network), 0.2)
    table, all_rows = compas.table, []
    for i, (rows, predictor) in enumerate(zip(held.rows, run.predictors, strict=True)):
        s = table.s[rows]
        logits = predictor.logits(table.inputs(rows), s)
        chance = predictor.rule.chances(logits, s)[:, 1].double()
        assert abs(float(chance[s == 1].mean() - chance[s == 0].mean())) <= 0.04 + 1e-5
        all_rows.append((chance, s))
        same, zero, one = run.fitted.server["mix"][i][s].unbind(-1)
        assert torch.allclose(chance, same * (logits[:, 0] >= 0) + one, atol=1e-6)
        assert torch.allclose(same + zero + one, torch.ones_like(same))
    chance, s = (torch.cat(each) for each in zip(*all_rows, strict=True))
    assert abs(float(chance[s == 1].mean() - chance[s == 0].mean())) <= 0.01 + 1e-5
    assert keeps_clients(algorithm.phases)
