"""Arrays in, numbers out: against fairlearn, scikit-learn, SciPy, and loops over rows."""

from itertools import combinations

import fairlearn.metrics
import numpy as np
import pytest
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

import pfedfair as pff
from pfedfair import metrics


def tally(y, s, predicted, groups=2, classes=2):
    counts = np.zeros((groups, classes, classes), dtype=int)
    np.add.at(counts, (s, y, predicted), 1)
    return counts


@given(st.integers(0, 500), st.integers(4, 60))
@settings(deadline=None, max_examples=25)
def test_measures_are_fairlearns(seed, n):
    rng = np.random.default_rng(seed)
    y, predicted = rng.integers(2, size=(2, n))
    s = np.concatenate([[0, 1], rng.integers(2, size=n - 2)])
    found = metrics.measure(tally(y, s, predicted))
    assert found["accuracy"] == pytest.approx(accuracy_score(y, predicted))
    expected = demographic_parity_difference(y, predicted, sensitive_features=s)
    assert found["ddp"] == pytest.approx(expected)
    if (tally(y, s, predicted).sum(-1) > 0).all():  # else fairlearn takes a rate of no row as 0
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


def test_missing_group_gives_nan_ddp_but_an_accuracy():
    found = metrics.measure(np.array([[[3, 1], [0, 0]], [[0, 0], [0, 0]]]))
    assert np.isnan(found["ddp"])
    assert found["accuracy"] == pytest.approx(0.75)


def test_interval_of_ddp_reaches_zero_when_there_may_be_no_gap():
    fair = np.array([[[50, 50], [50, 50]], [[50, 50], [50, 50]]])
    unfair = np.array([[[90, 10], [90, 10]], [[10, 90], [10, 90]]])
    found = metrics.confidence_intervals(np.stack([fair, unfair]))
    assert found["ddp_low"][0] == 0
    assert 0.05 < found["ddp_high"][0] < 0.2
    assert found["ddp_low"][1] > 0.7


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


# --- more groups and classes -------------------------------------------------------------------


def gaps_by_hand(y, s, predicted, groups, classes):
    """All pairs of groups, all predictions, all labels; nothing where no row is."""

    def rate(chosen, c):
        return np.mean(predicted[chosen] == c) if chosen.any() else np.nan

    overall, by_label, last = [], [], []
    for a, b in combinations(range(groups), 2):
        for c in range(classes):
            overall.append(abs(rate(s == a, c) - rate(s == b, c)))
            for label in range(classes):
                gap = abs(rate((s == a) & (y == label), c) - rate((s == b) & (y == label), c))
                by_label.append(gap)
                if label == c == classes - 1:
                    last.append(gap)
    each = {"ddp": overall, "eo": by_label, "eopp": last}
    return {n: max((g for g in v if g == g), default=np.nan) for n, v in each.items()}


@given(st.integers(2, 4), st.integers(2, 4), st.integers(1, 80), st.integers(0, 999))
@settings(deadline=None, max_examples=80)
def test_gaps_are_the_largest_of_all(groups, classes, n, seed):
    rng = np.random.default_rng(seed)
    s = rng.integers(groups, size=n)
    y, predicted = rng.integers(classes, size=(2, n))
    found = metrics.measure(tally(y, s, predicted, groups, classes))
    for name, value in gaps_by_hand(y, s, predicted, groups, classes).items():
        assert found[name] == pytest.approx(value, nan_ok=True)
    assert found["accuracy"] == pytest.approx(np.mean(y == predicted))
    for z in range(groups):
        expected = np.mean(predicted[s == z] == 0) if (s == z).any() else np.nan
        assert found[f"npr_s{z}"] == pytest.approx(expected, nan_ok=True)


def test_accuracy_is_weighted_to_the_clients_shares():
    counts = np.array([[[8, 0], [2, 0]], [[3, 0], [7, 0]], [[5, 0], [5, 0]]])  # 80, 30, 50 % right
    shares = np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]])
    found = metrics.measure(np.stack([counts, counts]), shares)["accuracy"]
    assert found == pytest.approx([0.4 + 0.075 + 0.125, 0.5])


NAMES = ("accuracy", "ddp", "eo", "eopp", "npr_s0", "npr_s1")


@given(st.integers(2, 4), st.integers(2, 4), st.integers(0, 999))
@settings(deadline=None, max_examples=30)
def test_intervals_contain_the_value(groups, classes, seed):
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.ones(classes), (groups, classes))
    samples = rng.integers(0, 30, (groups, classes))
    pairs = zip(samples.ravel(), chances.reshape(-1, classes), strict=True)
    counts = np.stack([rng.multinomial(n, p) for n, p in pairs])
    counts = counts.reshape(1, groups, classes, classes)
    value = metrics.measure(counts)
    ends = metrics.confidence_intervals(counts)
    for name in NAMES:
        low, high = (ends[f"{name}_{end}"][0] for end in ("low", "high"))
        assert np.isnan(low) == np.isnan(high) == np.isnan(value[name][0])
        assert not low > value[name][0] + 1e-9
        assert not high < value[name][0] - 1e-9


def test_interval_contains_the_gap_of_few_rows_with_a_label():
    """Two rows of group 1 have label 1."""
    counts = np.array([[[[40, 10], [10, 40]], [[40, 10], [2, 0]]]])
    value = metrics.measure(counts)
    ends = metrics.confidence_intervals(counts)
    assert value["eopp"][0] == value["eo"][0] == pytest.approx(0.8)
    for name in ("eo", "eopp"):
        assert ends[f"{name}_low"][0] <= 0.8 <= ends[f"{name}_high"][0]


# --- arrays in, as with fairlearn --------------------------------------------------------------

DIFFERENCES = (
    "demographic_parity_difference",
    "equalized_odds_difference",
    "equal_opportunity_difference",
)


@given(
    st.sampled_from([(0, 1), (False, True), (-1, 1)]),
    st.integers(2, 4),
    st.integers(0, 60),
    st.integers(0, 999),
)
@settings(deadline=None, max_examples=25)
def test_functions_of_arrays_are_fairlearns(values, groups, more, seed):
    """With rows of both labels in every group; else fairlearn takes a rate of no row as 0."""
    rng = np.random.default_rng(seed)
    s = np.concatenate([np.repeat(np.arange(groups), 2), rng.integers(groups, size=more)])
    y = np.concatenate([np.tile([0, 1], groups), rng.integers(2, size=more)])
    predicted = (rng.random(len(s)) < rng.random(groups)[s]).astype(int)
    y, predicted = (np.array(values)[codes] for codes in (y, predicted))
    names = np.array(["d", "b", "a", "c"])[s]  # groups are names, in no order
    for name in DIFFERENCES:
        ours, reference = (getattr(module, name) for module in (metrics, fairlearn.metrics))
        expected = reference(y, predicted, sensitive_features=names)
        assert ours(y, predicted, sensitive_features=names) == pytest.approx(expected)
        assert ours(list(y), list(predicted), sensitive_features=list(names)) == ours(
            y[:, None], predicted[:, None], sensitive_features=names
        )
    assert metrics.accuracy(y, predicted) == pytest.approx(accuracy_score(y, predicted))


def test_labels_may_be_names_and_more_than_two():
    y, predicted = ["c", "c", "c", "a"], ["c", "b", "c", "a"]
    groups = {"sensitive_features": ["x", "x", "z", "z"]}
    assert metrics.accuracy(y, predicted) == 0.75
    assert metrics.demographic_parity_difference(y, predicted, **groups) == 0.5
    assert metrics.equal_opportunity_difference(y, predicted, **groups) == 0.5  # of "c"
    assert metrics.equalized_odds_difference(y, predicted, **groups) == 0.5


@pytest.mark.parametrize("values", [(0, 1), (False, True)])
def test_rows_with_one_label_and_one_decision(values):
    """All have label 1: its rates can be compared, and are equal."""
    groups = {"sensitive_features": [0, 0, 1, 1]}
    for k, expected in ((1, 0.0), (0, np.nan)):  # without rows of label 1 there is nothing
        same = [values[k]] * 4
        found = metrics.equal_opportunity_difference(same, same, **groups)
        assert found == pytest.approx(expected, nan_ok=True)
        assert metrics.equalized_odds_difference(same, same, **groups) == 0
        assert metrics.demographic_parity_difference(same, same, **groups) == 0


def test_one_group_has_no_gap():
    one = {"sensitive_features": ["x"] * 3}
    assert np.isnan(metrics.demographic_parity_difference([0, 1, 1], [0, 1, 0], **one))


def test_arrays_of_unequal_length_are_refused():
    with pytest.raises(pff.InputError, match="differ in number: 2, 3 and 2"):
        metrics.demographic_parity_difference([0, 1], [0, 1, 1], sensitive_features=[0, 1])


def test_a_function_says_what_it_measures():
    for name in DIFFERENCES:
        assert "lower is better" in getattr(metrics, name).__doc__


def test_accuracy_refuses_unequal_lengths():
    assert metrics.accuracy([1, 0, 1], [1, 1, 1]) == pytest.approx(2 / 3)
    with pytest.raises(pff.InputError, match="differ in number"):
        metrics.accuracy([1], [1, 0, 1])
