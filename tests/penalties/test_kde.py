import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pfedfair.penalties import kde
from pfedfair.penalties.kde import kde_slope


def logits_of(scores):
    return torch.logit(torch.tensor(scores, dtype=torch.float64)).reshape(1, -1, 1)


def row(values, dtype=torch.float64):
    return torch.tensor([values], dtype=dtype)


def test_by_hand():
    """Two rows a group: rates by the error function, then half the sum of squared gaps."""
    scores, s = [0.6, 0.4, 0.7, 0.9], row([0, 0, 1, 1], torch.int64)

    def phi(p):
        return 0.5 * (1 + math.erf((p - 0.5) / 0.1 / math.sqrt(2)))

    rate0, rate1 = (phi(0.6) + phi(0.4)) / 2, (phi(0.7) + phi(0.9)) / 2
    overall = (rate0 + rate1) / 2
    expected = ((rate0 - overall) ** 2 + (rate1 - overall) ** 2) / 2
    weight = torch.full((1, 4), 0.25, dtype=torch.float64)
    found = kde(logits_of(scores), weight, s, weight)
    assert found.item() == pytest.approx(expected, rel=1e-9)


def test_huber_is_linear_beyond_delta():
    weight = torch.full((1, 2), 0.5, dtype=torch.float64)
    s = row([0, 1], torch.int64)
    found = kde(logits_of([1e-9, 1 - 1e-9]), weight, s, weight, delta=0.1)
    assert found.item() == pytest.approx(2 * 0.1 * (0.5 - 0.05), rel=1e-5)  # two gaps of 1/2


def test_narrow_kernel_is_the_count_of_positive_predictions():
    torch.manual_seed(0)
    logits = torch.randn(1, 400, 1, dtype=torch.float64)
    s = (torch.rand(1, 400) < 0.3).long()
    weight = torch.full((1, 400), 1 / 400, dtype=torch.float64)
    positive = (logits[0, :, 0] > 0).double()
    gaps = [positive[s[0] == z].mean() - positive.mean() for z in (0, 1)]
    found = kde(logits, weight, s, weight, bandwidth=1e-6)
    assert found.item() == pytest.approx(sum(g.item() ** 2 for g in gaps) / 2, rel=1e-6)


@given(
    sizes=st.lists(st.integers(0, 6), min_size=2, max_size=2).filter(sum),
    padding=st.integers(0, 4),
    seed=st.integers(0, 99),
)
@settings(deadline=None)
def test_finite_with_absent_groups_and_blind_to_padding(sizes, padding, seed):
    torch.manual_seed(seed)
    n = sum(sizes)
    logits = (3 * torch.randn(1, n + padding, 1, dtype=torch.float64)).requires_grad_()
    s = torch.cat([torch.zeros(sizes[0]), torch.ones(sizes[1]), torch.zeros(padding)]).long()[None]
    weight = torch.cat([torch.full((n,), 1 / n), torch.zeros(padding)])[None].double()
    value = kde(logits, weight, s, weight)
    (grad,) = torch.autograd.grad(value.sum(), logits)
    single = kde(logits[:, :n], weight[:, :n], s[:, :n], weight[:, :n])
    torch.testing.assert_close(value, single)
    assert torch.isfinite(grad).all()
    assert (grad[0, n:] == 0).all()
    if 0 in sizes:  # one group: it is everyone, and the other contributes 0
        assert value.item() == pytest.approx(0, abs=1e-12)


def test_slope_is_the_finite_difference():
    torch.manual_seed(1)
    logits = torch.randn(2, 7, 1, dtype=torch.float64, requires_grad=True)
    s = torch.randint(2, (2, 7))
    weight = torch.full((2, 7), 1 / 7, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda z: kde(z, weight, s, weight), logits)


def test_rows_do_not_mix():
    torch.manual_seed(2)
    logits, s = torch.randn(3, 8, 1), torch.randint(2, (3, 8))
    weight = torch.full((3, 8), 1 / 8)
    each = [kde(logits[i : i + 1], weight[:1], s[i : i + 1], weight[:1]).item() for i in range(3)]
    torch.testing.assert_close(kde(logits, weight, s, weight), torch.tensor(each))


@given(
    groups=st.integers(1, 3),
    padding=st.integers(0, 4),
    delta=st.sampled_from([1.0, 0.01]),
    bandwidth=st.sampled_from([0.1, 0.5]),
    seed=st.integers(0, 99),
)
@settings(deadline=None)
def test_slope_by_hand_is_autograds(groups, padding, delta, bandwidth, seed):
    torch.manual_seed(seed)
    rows, n = 3, 9
    logits = 2 * torch.randn(rows, n, 1, dtype=torch.float64)
    s = torch.randint(groups, (rows, n))
    weight = torch.rand(rows, n, dtype=torch.float64)
    weight[:, n - padding :] = 0
    leaf = logits.clone().requires_grad_()
    value = kde(leaf, s, s, weight, bandwidth=bandwidth, delta=delta).sum()
    (expected,) = torch.autograd.grad(value, leaf)
    torch.testing.assert_close(kde_slope(logits, s, s, weight, bandwidth, delta), expected)


def test_no_slope_by_hand_for_more_classes():
    s = torch.tensor([[0, 1]])
    assert kde_slope(torch.zeros(1, 2, 3), s, s, torch.full((1, 2), 0.5)) is None
