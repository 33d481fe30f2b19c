import numpy as np
import pytest
import torch
from fairlearn.metrics import (
    demographic_parity_difference,
    equalized_odds_difference,
    selection_rate,
    true_positive_rate_difference,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import accuracy_score

from pfedfair import metrics
from pfedfair.federation import Table
from pfedfair.networks import linear


def tally(y, s, predicted):
    counts = np.zeros((2, 2, 2), dtype=int)
    np.add.at(counts, (s, y, predicted), 1)
    return counts


@given(st.integers(0, 500), st.integers(4, 60))
@settings(deadline=None)
def test_measures_are_fairlearns(seed, n):
    rng = np.random.default_rng(seed)
    y, predicted = rng.integers(2, size=(2, n))
    s = np.concatenate([[0, 1], rng.integers(2, size=n - 2)])
    found = metrics.measure(tally(y, s, predicted))
    assert found["accuracy"] == pytest.approx(accuracy_score(y, predicted))
    expected = demographic_parity_difference(y, predicted, sensitive_features=s)
    assert found["ddp"] == pytest.approx(expected)
    if (tally(y, s, predicted).sum(-1) > 0).all():  # else fairlearn takes a rate of nobody as 0
        odds = equalized_odds_difference(y, predicted, sensitive_features=s)
        assert found["eo"] == pytest.approx(odds)
        opportunity = true_positive_rate_difference(y, predicted, sensitive_features=s)
        assert found["eopp"] == pytest.approx(opportunity)
    for z in (0, 1):
        rate = selection_rate(y[s == z], predicted[s == z])
        assert found[f"npr_s{z}"] == pytest.approx(1 - rate)


def test_pool_accuracy_is_weighted_to_the_clients_share():
    counts = np.array([[[8, 0], [2, 0]], [[3, 0], [7, 0]]])  # all negative: 80 % and 30 % right
    found = metrics.measure(counts[None], shares=np.array([[0.75, 0.25]]))
    assert found["accuracy"][0] == pytest.approx(0.75 * 0.8 + 0.25 * 0.3)


def test_weighting_the_pool_is_sampling_the_client():
    """A test set drawn with the client's share has, on average, the weighted accuracy."""
    rng = np.random.default_rng(0)
    y, predicted, s = rng.integers(2, size=(3, 4000))
    pool = metrics.measure(tally(y, s, predicted), shares=np.array([0.2, 0.8]))["accuracy"]
    one, zero = np.flatnonzero(s == 1), np.flatnonzero(s == 0)
    drawn = [
        np.concatenate([rng.choice(one, 80, replace=False), rng.choice(zero, 20, replace=False)])
        for _ in range(2000)
    ]
    sampled = np.mean([(y[rows] == predicted[rows]).mean() for rows in drawn])
    assert sampled == pytest.approx(pool, abs=0.004)


def test_count_uses_each_clients_model_and_rows():
    x = torch.tensor([[-1.0], [2.0], [-3.0], [4.0]])
    table = Table(x, torch.tensor([0.0, 1.0, 1.0, 0.0]), torch.tensor([0, 0, 1, 1]))
    theta = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])  # predicts x > 0, and x < 0
    pool = metrics.count(linear(1), theta, table, [np.arange(4)] * 2)
    np.testing.assert_array_equal(pool[0], [[[1, 0], [0, 1]], [[0, 1], [1, 0]]])
    np.testing.assert_array_equal(pool[1], [[[0, 1], [1, 0]], [[1, 0], [0, 1]]])
    own = metrics.count(linear(1), theta, table, [np.array([0]), np.array([2, 3])])
    np.testing.assert_array_equal(own.sum((1, 2, 3)), [1, 2])
    np.testing.assert_array_equal(own[1, 1], [[1, 0], [0, 1]])


def test_missing_group_gives_nan_ddp_but_an_accuracy():
    found = metrics.measure(np.array([[[3, 1], [0, 0]], [[0, 0], [0, 0]]]))
    assert np.isnan(found["ddp"])
    assert found["accuracy"] == pytest.approx(0.75)


def test_bootstrap_equals_resampling_rows():
    """Multinomial counts and resampled rows have the same quantiles."""
    rng = np.random.default_rng(1)
    s = np.repeat([0, 1], [150, 60])
    y = rng.integers(2, size=210)
    predicted = (rng.random(210) < np.where(s == 1, 0.7, 0.3)).astype(int)
    counts = tally(y, s, predicted)
    found = metrics.bootstrap(counts[None], None, np.random.default_rng(2), draws=4000)
    gaps, right = [], []
    for _ in range(4000):
        rows = np.concatenate([rng.choice(np.flatnonzero(s == z), (s == z).sum()) for z in (0, 1)])
        again = metrics.measure(tally(y[rows], s[rows], predicted[rows]))
        gaps.append(again["ddp"])
        right.append(again["accuracy"])
    assert found["ddp_low"][0] == pytest.approx(np.quantile(gaps, 0.025), abs=0.02)
    assert found["ddp_high"][0] == pytest.approx(np.quantile(gaps, 0.975), abs=0.02)
    assert found["accuracy_low"][0] == pytest.approx(np.quantile(right, 0.025), abs=0.01)
    assert found["accuracy_high"][0] == pytest.approx(np.quantile(right, 0.975), abs=0.01)


def test_interval_of_ddp_reaches_zero_when_there_may_be_no_gap():
    fair = np.array([[[50, 50], [50, 50]], [[50, 50], [50, 50]]])
    unfair = np.array([[[90, 10], [90, 10]], [[10, 90], [10, 90]]])
    found = metrics.bootstrap(np.stack([fair, unfair]), None, np.random.default_rng(0))
    assert found["ddp_low"][0] == 0
    assert 0.05 < found["ddp_high"][0] < 0.2
    assert found["ddp_low"][1] > 0.7


def test_bootstrap_interval_covers_the_truth():
    """Of 200 samples from a known population about 95 % of the intervals contain its gap."""
    rng, covered = np.random.default_rng(3), 0
    for _ in range(200):
        cells = ([0.35, 0.15, 0.25, 0.25], [0.25, 0.25, 0.20, 0.30])  # rates .40 and .55
        counts = np.stack([rng.multinomial(300, p).reshape(2, 2) for p in cells])
        found = metrics.bootstrap(counts[None], None, rng, draws=300)
        covered += found["ddp_low"][0] <= 0.15 <= found["ddp_high"][0]
    assert 0.90 <= covered / 200 <= 0.99


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=8, unique=True))
def test_mean_interval_is_scipys(values):
    values = np.array(values)
    mean, low, high = metrics.mean_interval(values)
    scale = stats.sem(values)
    if scale > 1e-9:
        expected = stats.t.interval(0.95, len(values) - 1, values.mean(), scale)
        assert (low, high) == pytest.approx(expected)
    assert mean == pytest.approx(values.mean())


def test_one_seed_has_no_interval():
    mean, low, high = metrics.mean_interval([0.5])
    assert mean == 0.5
    assert np.isnan([low, high]).all()
