"""Dependence measures against closed forms for binary decisions and groups."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pfedfair.penalties import PENALTIES
from pfedfair.penalties.ermi import ermi
from pfedfair.penalties.hgr import hgr, score_joint
from pfedfair.penalties.joint import soft_joint
from pfedfair.penalties.mutual_information import (
    adversarial_mutual_information,
    mutual_information,
)
from pfedfair.penalties.pearson import pearson

double = {"dtype": torch.float64}


def population(n0, n1, rate0, rate1):
    """Two groups in which all rows has their group's score; rates between 0 and 1."""
    scores = torch.cat([torch.full((n0,), rate0, **double), torch.full((n1,), rate1, **double)])
    s = torch.cat([torch.zeros(n0), torch.ones(n1)]).long()[None]
    weight = torch.full((1, n0 + n1), 1 / (n0 + n1), **double)
    return torch.logit(scores)[None, :, None], s, weight


def maximal_correlation(joint):
    """HGR of a joint distribution: the second singular value (Witsenhausen 1975)."""
    independent = joint.sum(-1, keepdim=True) * joint.sum(-2, keepdim=True)
    return torch.linalg.svdvals(joint / independent.clamp_min(1e-300).sqrt())[..., 1]


rates = st.floats(0.05, 0.95)
sizes = st.integers(1, 30)


@given(sizes, sizes, rates, rates)
@settings(deadline=None)
def test_closed_forms(n0, n1, rate0, rate1):
    logits, s, weight = population(n0, n1, rate0, rate1)
    q0, q1 = n0 / (n0 + n1), n1 / (n0 + n1)
    p, d = q0 * rate0 + q1 * rate1, rate0 - rate1
    expected = q0 * q1 * d**2 / (p * (1 - p))
    found = ermi(logits, weight, s, weight).item()
    assert found == pytest.approx(expected, abs=1e-12)
    joint = soft_joint(logits, s, weight)
    assert maximal_correlation(joint).item() ** 2 == pytest.approx(expected, abs=1e-9)
    mi = mutual_information(logits, weight, s, weight).item()
    terms = [
        q * r * math.log(r / p) + q * (1 - r) * math.log((1 - r) / (1 - p))
        for q, r in ((q0, rate0), (q1, rate1))
    ]
    assert mi == pytest.approx(sum(terms), abs=1e-12)
    assert mi <= math.log(1 + found) + 1e-12


def test_hgr_of_decisions_is_the_closed_form():
    """Scores of 0 and 1 and a narrow kernel: the score is the decision."""
    torch.manual_seed(0)
    s = (torch.rand(1, 500) < 0.3).long()
    decision = (torch.rand(1, 500) < torch.where(s == 1, 0.7, 0.4)).double()
    logits = (60 * (decision - 0.5))[..., None]
    weight = torch.full((1, 500), 1 / 500, **double)
    expected = ermi(logits, weight, s, weight).item()
    found = hgr(logits, weight, s, weight, bandwidth=0.005).item()
    assert found == pytest.approx(expected, rel=1e-6)
    joint = score_joint(logits, s, weight, 0.005, 21)
    assert maximal_correlation(joint).item() ** 2 == pytest.approx(expected, rel=1e-6)


def test_hgr_sees_dependence_that_decisions_hide():
    """Group 1 has extreme scores, group 0 middling ones, and the same rate of positives."""
    scores = torch.tensor([0.4, 0.6, 0.05, 0.95] * 20, **double)
    s = torch.tensor([0, 0, 1, 1] * 20)[None]
    weight = torch.full((1, 80), 1 / 80, **double)
    logits = torch.logit(scores)[None, :, None]
    assert ermi(logits, weight, s, weight).item() == pytest.approx(0, abs=1e-12)
    assert hgr(logits, weight, s, weight).item() > 0.3
    assert adversarial_mutual_information(logits, weight, s, weight).item() > 0.3


def test_pearson_is_numpys():
    torch.manual_seed(1)
    logits, s = torch.randn(1, 60, 1, **double), torch.randint(2, (1, 60))
    weight = torch.full((1, 60), 1 / 60, **double)
    both = torch.stack([torch.sigmoid(logits[0, :, 0]), s[0].double()])
    expected = torch.corrcoef(both)[0, 1].abs().item()
    assert pearson(logits, weight, s, weight).item() == pytest.approx(expected)


def test_adversary_is_sklearns():
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    torch.manual_seed(2)
    s = torch.randint(2, (1, 400))
    logits = (torch.randn(1, 400, **double) + s)[..., None]
    weight = torch.full((1, 400), 1 / 400, **double)
    score = torch.sigmoid(logits[0, :, 0]).numpy()
    clues = torch.tensor(score)[:, None] ** torch.arange(1, 3)
    rival = LogisticRegression(C=1e9, max_iter=10_000, tol=1e-10).fit(clues, s[0])
    share = s.double().mean().item()
    entropy = -share * math.log(share) - (1 - share) * math.log(1 - share)
    expected = entropy - log_loss(s[0], rival.predict_proba(clues))
    found = adversarial_mutual_information(logits, weight, s, weight).item()
    assert found == pytest.approx(expected, abs=0.01)
    exact = adversarial_mutual_information(logits, weight, s, weight, ridge=1e-9).item()
    assert exact == pytest.approx(expected, abs=1e-6)


def test_adversary_that_separates_the_groups():
    s = torch.tensor([[0, 1] * 50])
    logits = (8.0 * s - 4)[..., None].requires_grad_()
    weight = torch.full((1, 100), 1 / 100)
    value = adversarial_mutual_information(logits, weight, s, weight)
    assert 0.9 * math.log(2) < value.item() <= math.log(2)  # the entropy of S
    (grad,) = torch.autograd.grad(value.sum(), logits)
    assert torch.isfinite(grad).all()


@pytest.mark.parametrize("name", PENALTIES)
def test_slope_is_the_finite_difference(name):
    torch.manual_seed(3)
    logits = torch.randn(2, 9, 1, **double)
    s = torch.tensor([[0, 1] * 4 + [1], [1, 1, 0, 0, 0, 0, 1, 0, 1]])
    weight = torch.full((2, 9), 1 / 9, **double)
    leaf = logits.clone().requires_grad_()
    (slope,) = torch.autograd.grad(PENALTIES[name](leaf, weight, s, weight).sum(), leaf)
    for place in ((0, 2, 0), (1, 5, 0)):
        step = torch.zeros_like(logits)
        step[place] = 1e-5
        both = [PENALTIES[name](logits + k * step, weight, s, weight).sum() for k in (1, -1)]
        numeric = ((both[0] - both[1]) / 2e-5).item()
        assert slope[place].item() == pytest.approx(numeric, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("name", PENALTIES)
@given(n0=st.integers(0, 5), n1=st.integers(0, 5), padding=st.integers(0, 3), same=st.booleans())
@settings(deadline=None, max_examples=25)
def test_finite_and_blind_to_padding(name, n0, n1, padding, same):
    n = max(n0 + n1, 1)
    n1 = n - n0
    torch.manual_seed(n)
    logits = torch.zeros(1, n + padding, 1) if same else 4 * torch.randn(1, n + padding, 1)
    logits.requires_grad_()
    s = torch.cat([torch.zeros(n0), torch.ones(n1), torch.zeros(padding)]).long()[None]
    weight = torch.cat([torch.full((n,), 1 / n), torch.zeros(padding)])[None]
    value = PENALTIES[name](logits, weight, s, weight)
    (grad,) = torch.autograd.grad(value.sum(), logits)
    assert torch.isfinite(value).all()
    assert torch.isfinite(grad).all()
    assert (grad[0, n:] == 0).all()
    if 0 in (n0, n1) or same:
        assert value.item() == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("name", PENALTIES)
def test_dependence_costs_more_than_independence(name):
    torch.manual_seed(4)
    s = torch.randint(2, (1, 300))
    weight = torch.full((1, 300), 1 / 300)
    noise = torch.randn(1, 300)
    apart = PENALTIES[name]((noise + 2 * s)[..., None], weight, s, weight).item()
    alike = PENALTIES[name](noise[..., None], weight, s, weight).item()
    assert apart > 3 * max(alike, 0)
