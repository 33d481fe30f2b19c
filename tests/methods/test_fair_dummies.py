import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_central import odds, same_in_a_stack_and_single, single, some, table, trained, unfair
from torch import nn
from torch.nn import functional

import pfedfair as pff
from pfedfair.data.task import Task
from pfedfair.methods.fair_dummies import FairDummies, dummies, guess_gradient
from pfedfair.penalties.objective import slope_of


def test_dummies_have_the_shares_of_s_given_y():
    cells = torch.tensor([[[30.0, 10.0, 10.0], [0.0, 5.0, 95.0]], [[1.0, 1.0, 0.0], [0, 0, 0]]])
    n = 40_000
    y = torch.arange(n).remainder(2).expand(2, n).clone()
    y[1] = 0
    _, batch = some(2, n, padded=False)
    batch = batch._replace(y=y.float())
    found = dummies(cells, batch, [np.random.default_rng(k) for k in range(2)])
    for k, label, shares in [
        (0, 0, [0.6, 0.2, 0.2]),
        (0, 1, [0, 0.05, 0.95]),
        (1, 0, [0.5, 0.5, 0]),
    ]:
        drawn = found[k][y[k] == label]
        counts = torch.bincount(drawn, minlength=3) / len(drawn)
        np.testing.assert_allclose(counts, shares, atol=4 * np.sqrt(0.25 / len(drawn)))
        assert (counts[torch.tensor(shares) == 0] == 0).all()


def test_padding_draws_nothing():
    _, batch = some(2, 9)
    cells = torch.tensor([[[4.0, 6.0], [3.0, 2.0]]]).repeat(2, 1, 1)
    rngs = [np.random.default_rng(k) for k in range(2)]
    found = dummies(cells, batch, rngs)
    again = dummies(cells[1:], single(batch, 1), [np.random.default_rng(1)])
    assert torch.equal(found[1, batch.weight[1] > 0], again[0])
    used = np.random.default_rng(1)
    used.random(int((batch.weight[1] > 0).sum()))
    assert used.random() == rngs[1].random()


def written(z, y, s, dummy, d, task, mu, second):
    """The objective of one client's rows, with a PyTorch module as the adversary."""
    f = torch.sigmoid(z) if z.shape[1] == 1 else torch.softmax(z, 1)
    label, real, fake = (
        functional.one_hot(v.long(), k).float()
        for v, k in ((y, task.classes), (s, task.groups), (dummy, task.groups))
    )
    true, false = d(torch.cat([f, real, label], 1)), d(torch.cat([f, fake, label], 1))
    answers = torch.cat([true, false])
    right = torch.cat([torch.ones_like(true), torch.zeros_like(false)])
    bce = functional.binary_cross_entropy_with_logits
    baseline = bce(z[:, 0], y) if z.shape[1] == 1 else functional.cross_entropy(z, y.long())
    off = [(f - f.mean(0)).T @ (g - g.mean(0)) / len(z) for g in (real, fake)]
    apart = ((off[0] - off[1]) ** 2).sum()
    model = (1 - mu) * baseline + mu * (bce(answers, 1 - right) + second * apart)
    return model, bce(answers, right)


@given(
    outputs=st.sampled_from([1, 3]),
    groups=st.sampled_from([2, 3]),
    n=st.integers(4, 12),
    seed=st.integers(0, 99),
)
def test_both_gradients_are_those_of_the_written_objectives(outputs, groups, n, seed):
    task = Task(groups, max(2, outputs))
    logits, batch = some(3, n, outputs, groups, seed=seed)
    algorithm = FairDummies(mu=0.7, second=3.0, width=6)
    adversary, rng = algorithm.adversary(task), np.random.default_rng(seed)
    d = torch.stack([adversary.init(rng) for _ in range(3)])
    dummy = torch.from_numpy(rng.integers(groups, size=(3, n)))
    slope = slope_of(lambda z: algorithm.value(z, batch, dummy, adversary, d, task), logits)
    guess = guess_gradient(adversary, d, logits, batch, dummy, task)
    for k in range(3):
        own, there = single(batch, k), batch.weight[k] > 0
        width = outputs + groups + task.classes
        module = nn.Sequential(nn.Linear(width, 6), nn.ReLU(), nn.Linear(6, 1))
        nn.utils.vector_to_parameters(d[k], module.parameters())
        z = logits[k, there].clone().requires_grad_()
        about = (own.y[0], own.s[0], dummy[k, there], module, task, 0.7, 3.0)
        (expected,) = torch.autograd.grad(written(z, *about)[0], z)
        torch.testing.assert_close(slope[k, there], expected, rtol=1e-4, atol=1e-6)
        assert (slope[k, ~there] == 0).all()
        grads = torch.autograd.grad(written(z, *about)[1], list(module.parameters()))
        expected = torch.cat([g.flatten() for g in grads])
        torch.testing.assert_close(guess[k], expected, rtol=1e-4, atol=1e-6)


def test_mu_zero_is_standard_training():
    rng = np.random.default_rng(1)
    rows = table(rng.normal(size=(60, 3)), rng.integers(2, size=60), rng.integers(2, size=60))
    options = {"rounds": 5, "batch": 20, "alpha": 0.05}
    baseline, _ = trained(pff.methods.Local(**options), rows)
    found, _ = trained(FairDummies(mu=0.0, **options), rows)
    torch.testing.assert_close(found, baseline, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("second", "most"), [(0.0, 0.15), (10.0, 0.1)])
def test_odds_become_equal(second, most):
    """In eight draws of the rows at most .13 without the second term, and .06 with it."""
    rows, new = unfair(), unfair(seed=1)
    options = {"rounds": 100, "batch": 1000, "alpha": 0.02}
    baseline = trained(pff.methods.Local(**options), rows)
    fair = trained(FairDummies(mu=0.9, second=second, alpha_adversary=0.02, **options), rows)
    assert odds(*baseline, new) > 0.3
    assert odds(*fair, new) < most


def test_a_stack_is_as_each_client_by_one(federation):
    same_in_a_stack_and_single(federation, FairDummies(rounds=6, batch=20, alpha=0.01), atol=1e-4)


def test_a_client_with_one_group_and_one_class_trains():
    rng = np.random.default_rng(2)
    rows = table(rng.normal(size=(30, 3)), np.ones(30), np.ones(30))
    theta, _ = trained(FairDummies(rounds=3, batch=10), rows)
    assert torch.isfinite(theta).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mu": 1.0}, r"mu must be in \[0, 1\), got 1"),
        ({"second": -1.0}, "second must be a number >= 0"),
        ({"width": 0}, "width must be at least 1"),
        ({"alpha_adversary": 0.0}, "alpha_adversary must be a positive number"),
        ({"eta": 0.5}, "FairDummies has its own objective"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(pff.InputError, match=message):
        FairDummies(**options)
