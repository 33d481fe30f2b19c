"""AUC, recall, precision and balanced accuracy are scikit-learn's; the gain is a paired one."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    balanced_accuracy_score,
    precision_score,
    recall_score,
    roc_auc_score,
)

from pfedfair import metrics
from pfedfair.metrics import intervals
from pfedfair.metrics.performance import MEASURES, area, gain, no_better, ordered, performance


def made(rng, n, groups=2):
    y, decided = rng.integers(2, size=(2, n))
    score = rng.integers(0, 8, n) / 8  # with many ties
    return y, decided, score, rng.integers(groups, size=n), np.exp(rng.normal(size=n))


@given(st.integers(0, 10**6), st.integers(2, 60), st.booleans())
@settings(max_examples=60, deadline=None)
def test_measures_are_scikit_learns(seed, n, weighted):
    y, decided, score, s, weight = made(np.random.default_rng(seed), n)
    weight = weight if weighted else None
    counts = metrics.tally(s, y, decided, 2, 2, weight)[1]
    found = performance(counts, pairs=ordered(score, y == 1, s, 2, weight))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of one label only
        expected = {
            "auc": roc_auc_score(y, score, sample_weight=weight) if np.ptp(y) else np.nan,
            "recall": recall_score(y, decided, sample_weight=weight, zero_division=np.nan),
            "precision": precision_score(y, decided, sample_weight=weight, zero_division=np.nan),
            "balanced_accuracy": balanced_accuracy_score(y, decided, sample_weight=weight),
        }
    for name in MEASURES:
        assert found[name] == pytest.approx(expected[name], abs=1e-12, nan_ok=True), name
    assert area(score, y == 1, weight) == pytest.approx(expected["auc"], abs=1e-12, nan_ok=True)


def test_groups_weighted_to_shares_are_weighted_rows():
    y, decided, score, s, weight = made(np.random.default_rng(1), 300, groups=3)
    shares = np.array([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0]])
    tallied = metrics.tally(s, y, decided, 3, 2, weight)[1]
    pairs = ordered(score, y == 1, s, 3, weight)
    found = performance(np.stack([tallied] * 2), shares, np.stack([pairs] * 2))
    for i in (0, 1):
        own = weight * (shares[i] / np.bincount(s, weight))[s]
        given = {"sample_weight": own}
        assert found["auc"][i] == pytest.approx(roc_auc_score(y, score, **given))
        assert found["recall"][i] == pytest.approx(recall_score(y, decided, **given))
        assert found["precision"][i] == pytest.approx(precision_score(y, decided, **given))
        assert found["balanced_accuracy"][i] == pytest.approx(
            balanced_accuracy_score(y, decided, **given)
        )


def test_everybody_gets_no():
    """12 % positives: what accuracy and the gap do not show."""
    counts = np.array([[[[44, 0], [6, 0]], [[44, 0], [6, 0]]]])
    assert metrics.measure(counts)["accuracy"] == 0.88
    assert metrics.measure(counts)["ddp"] == 0
    found = performance(counts)
    assert (found["recall"], found["balanced_accuracy"]) == (0, 0.5)
    assert np.isnan(found["precision"])
    assert np.isnan(found["auc"])  # without scores


def test_more_labels_have_a_balanced_accuracy_only():
    rng = np.random.default_rng(2)
    y, decided, s = rng.integers(3, size=(3, 200))
    found = performance(metrics.tally(s, y, decided, 3, 3)[1][None])
    assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, decided))
    assert all(np.isnan(found[name]).all() for name in ("auc", "recall", "precision"))


# --- the constant ------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
def test_the_gain_is_that_of_paired_rows(classes):
    rng = np.random.default_rng(3)
    y, s = rng.integers(classes, size=300), rng.integers(2, size=300)
    decided = np.where(rng.random(300) < 0.6, y, rng.integers(classes, size=300))
    found = gain(metrics.tally(s, y, decided, 2, classes)[:, None], np.array([1]))
    right, same = y == decided, y == 1
    assert found["constant"] == pytest.approx(same.mean())
    assert found["gain"] == pytest.approx(right.mean() - same.mean())
    gained, lost = (right & ~same).sum(), (same & ~right).sum()
    ends = intervals.paired(gained, lost, 300, intervals.quantile(0.95))
    np.testing.assert_allclose(np.ravel([found["gain_low"], found["gain_high"]]), ends, atol=1e-9)


def test_clients_have_their_own_constant_and_shares():
    counts = np.array([[[[6, 2], [1, 1]], [[3, 3], [0, 4]]]] * 2)
    shares = np.array([[0.25, 0.75], [1.0, 0.0]])
    found = gain(np.broadcast_to(counts, (3, *counts.shape)), np.array([1, 0]), shares)
    np.testing.assert_allclose(found["constant"], [0.25 * 0.2 + 0.75 * 0.4, 0.8])
    np.testing.assert_allclose(found["gain"], [0.25 * 0.5 + 0.75 * 0.3, -0.1])
    assert (found["gain_low"] < found["gain"]).all()
    assert (found["gain"] < found["gain_high"]).all()


@pytest.mark.parametrize("tilt", [0.0, 1.0])
def test_coverage_of_the_gain_of_weighted_rows(tilt):
    """Weights that go with errors."""
    rng, shape = np.random.default_rng(4), (1000, 200)
    y, decided = rng.random((2, *shape)) < [[[0.3]], [[0.25]]]
    decided = np.where(rng.random(shape) < 0.5, y, decided)
    right = y == decided
    weight = np.exp(0.5 * rng.normal(size=shape) + tilt * ~right)
    s = np.zeros(200, dtype=np.int64)
    codes = zip(y.astype(int), decided.astype(int), weight, strict=True)
    tallied = np.stack([metrics.tally(s, *one[:2], 1, 2, one[2]) for one in codes], axis=1)
    found = gain(tallied, np.zeros(1000, dtype=np.int64))
    chance = {(a, b): (0.3 if a else 0.7) * (0.5 * (a == b) + 0.5 * (0.25 if b else 0.75))
              for a in (0, 1) for b in (0, 1)}  # fmt: skip
    mass = {cell: p * np.exp(tilt * (cell[0] != cell[1])) for cell, p in chance.items()}
    truth = (mass[1, 1] - mass[0, 1]) / sum(mass.values())
    assert ((found["gain_low"] <= truth) & (truth <= found["gain_high"])).mean() >= 0.93


def test_a_model_that_is_the_constant_gains_nothing():
    counts = np.array([[[[9, 0], [1, 0]]], [[[9, 0], [0, 1]]], [[[4, 5], [0, 1]]]])
    found = gain(np.broadcast_to(counts, (3, *counts.shape)), np.zeros(3, dtype=int))
    assert found["gain"].tolist() == pytest.approx([0, 0.1, -0.4])
    assert found["gain_low"][0] < 0 < found["gain_high"][0]
    assert no_better(pd.DataFrame(found)).tolist() == [True, False, True]
    assert no_better(pd.DataFrame({"accuracy": [0.5]})).tolist() == [False]
