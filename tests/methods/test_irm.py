import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_central import same_in_a_stack_and_single, single, some, table, trained
from torch.nn import functional

import pfedfair as pff
from pfedfair.federation import Batch
from pfedfair.methods.irm import IRM, value
from pfedfair.penalties.objective import slope_of


def written(logits, y, s, lam):
    """IRMv1 of one client's rows as the paper's appendix has it, with a real dummy scale."""
    terms = []
    for e in sorted(set(s.tolist())):
        z, label = logits[s == e], y[s == e]
        scale = torch.ones((), dtype=z.dtype, requires_grad=True)
        if z.shape[1] == 1:
            risk = functional.binary_cross_entropy_with_logits(z[:, 0] * scale, label)
        else:
            risk = functional.cross_entropy(z * scale, label.long())
        (grad,) = torch.autograd.grad(risk, scale, create_graph=True)
        terms.append(risk + lam * grad**2)
    return sum(terms) / len(terms) / max(1.0, lam)


@given(
    outputs=st.sampled_from([1, 3]),
    groups=st.integers(2, 4),
    n=st.integers(4, 12),
    lam=st.sampled_from([0.0, 0.5, 100.0]),
    seed=st.integers(0, 99),
)
def test_value_and_slope_are_those_of_a_real_dummy_scale(outputs, groups, n, lam, seed):
    """Few rows and many groups, so that some minibatches lack a group."""
    logits, batch = some(3, n, outputs, groups, seed=seed)
    found = value(logits, batch, groups, lam)
    slope = slope_of(lambda z: value(z, batch, groups, lam), logits)
    for k in range(3):
        own, there = single(batch, k), batch.weight[k] > 0
        z = logits[k, there].clone().requires_grad_()
        expected = written(z, own.y[0], own.s[0], lam)
        torch.testing.assert_close(found[k], expected.detach(), rtol=1e-4, atol=1e-6)
        (grad,) = torch.autograd.grad(expected, z)
        torch.testing.assert_close(slope[k, there], grad, rtol=1e-4, atol=1e-6)
        assert (slope[k, ~there] == 0).all()


def test_two_environments_by_hand():
    """One is certain by a quarter too little; the other, at 0, does not care about a scale."""
    logits = torch.tensor([[[math.log(3)], [0.0]]])
    batch = Batch(torch.zeros(1, 2, 1), torch.tensor([[1.0, 0.0]]), torch.tensor([[0, 1]]),
                  torch.full((1, 2), 0.5))  # fmt: skip
    first = math.log(4 / 3) + 2 * (0.25 * math.log(3)) ** 2
    assert value(logits, batch, 2, 2.0).item() == pytest.approx((first + math.log(2)) / 2 / 2)


def test_an_empty_client_is_no_reason_to_fail():
    logits, batch = some(1, 4)
    empty = batch._replace(weight=torch.zeros(1, 4))
    assert (slope_of(lambda z: value(z, empty, 2, 10.0), logits) == 0).all()


@pytest.mark.parametrize(("lam", "warmup", "warm"), [(50.0, 500, 6), (50.0, 2, 2), (0.5, 500, 6)])
def test_the_warm_up_ends_with_a_new_optimiser(lam, warmup, warm):
    """Against PyTorch's own Adam and autograd: weight 1, at most half of all steps, then lam.

    The ridge is divided by lam with the rest.
    """
    rng = np.random.default_rng(1)
    rows = table(rng.normal(size=(40, 3)), rng.integers(2, size=40), rng.integers(2, size=40))
    algorithm = IRM(lam=lam, warmup=warmup, rounds=6, epochs=2, batch=40, alpha=0.05, ridge=0.3)
    theta, _ = trained(algorithm, rows)
    w = torch.zeros(4, requires_grad=True)
    optimiser = torch.optim.Adam([w], lr=0.05)
    for k in range(12):
        if k == warm and lam > 1:
            optimiser = torch.optim.Adam([w], lr=0.05)
        optimiser.zero_grad()
        z = (rows.x @ w[:3] + w[3])[:, None]
        weight = min(1.0, lam) if k < warm else lam
        ridge = 0.3 / 2 * (w**2).sum() / max(1.0, weight)
        (written(z, rows.y, rows.s, weight) + ridge).backward()
        optimiser.step()
    torch.testing.assert_close(theta[0], w.detach(), rtol=1e-3, atol=1e-4)


def test_it_leaves_an_input_whose_meaning_differs_between_groups():
    """The first input is right in 75 % of either group, the second in 95 % and in 70 %."""
    rng = np.random.default_rng(0)
    n = 6000
    s = np.arange(n) % 2
    y = rng.random(n) < 0.5
    right = np.stack([rng.random(n) < 0.75, rng.random(n) < np.where(s == 0, 0.95, 0.7)], 1)
    rows = table(np.where(right, 1.0, -1.0) * np.where(y, 1, -1)[:, None], y, s)
    options = {"rounds": 600, "batch": n, "alpha": 0.02}
    baseline, _ = trained(pff.methods.Local(**options), rows)
    found, _ = trained(IRM(lam=1000.0, warmup=100, **options), rows)
    ratio = [abs(w[0, 1] / w[0, 0]).item() for w in (baseline, found)]
    assert ratio[0] > 1.3
    assert ratio[1] < 0.5


def test_a_stack_is_as_each_client_by_one(federation):
    same_in_a_stack_and_single(federation, IRM(rounds=6, batch=20, alpha=0.01))


def test_a_client_with_one_group_trains():
    rng = np.random.default_rng(2)
    rows = table(rng.normal(size=(30, 3)), rng.integers(2, size=30), np.ones(30))
    theta, _ = trained(IRM(rounds=5, batch=10), rows)
    assert torch.isfinite(theta).all()
    assert theta.abs().max() > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lam": -1.0}, "lam must be a number >= 0, got -1"),
        ({"warmup": -1}, "warmup must be at least 0"),
        ({"eta": 0.5}, "IRM has its own objective: leave out eta, got 0.5"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(pff.InputError, match=message):
        IRM(**options)
