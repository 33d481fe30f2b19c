"""The best two thresholds: against fairlearn, Proposition 2's rule and a linear program."""

import numpy as np
import pytest
import torch
from fairlearn.postprocessing import ThresholdOptimizer
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.base import BaseEstimator

from pfedfair.rules import Thresholds
from pfedfair.theory import rule
from pfedfair.theory.cuts import fair_cuts, hull


class Given(BaseEstimator):
    """A model whose scores are its only column."""

    def fit(self, x, y):
        self.fitted_ = True
        return self

    def predict(self, x):
        return np.asarray(x)[:, 0]


def crowd(n, seed, ties=None):
    """Scores as logits in single precision, labels and groups of some rows."""
    rng = np.random.default_rng(seed)
    s = np.concatenate([[0, 0, 1, 1], (rng.random(n - 4) < 0.3).astype(int)])
    z = rng.normal(size=n) + 1.2 * s - 0.8
    if ties:
        z = np.round(z * ties) / ties
    y = (rng.random(n) < 1 / (1 + np.exp(-1.3 * z))).astype(float)
    y[:4] = [0, 1, 0, 1]
    return z.astype(np.float32), y, s


def decided(cuts, z, s):
    """All rows's chance of a positive decision, as a client's rule has it."""
    made = Thresholds(torch.from_numpy(cuts).float())
    return made.chances(torch.from_numpy(z)[:, None], torch.from_numpy(s))[:, 1].double().numpy()


def gap(chance, s):
    return chance[s == 1].mean() - chance[s == 0].mean()


def accuracy(chance, y):
    return (chance * y + (1 - chance) * (1 - y)).mean()


@pytest.mark.parametrize("tol", [0.02, 0.05, 0.2, 0.9])
@pytest.mark.parametrize("ties", [None, 4])
def test_it_is_fairlearns_without_its_grid(tol, ties):
    for seed in range(3):
        z, y, s = crowd(300, seed, ties)
        reference = ThresholdOptimizer(
            estimator=Given().fit(None, None), constraints="demographic_parity", prefit=True,
            objective="accuracy_score", tol=tol, predict_method="predict",
        )  # fmt: skip
        reference.fit(z[:, None].astype(float), y.astype(int), sensitive_features=s)
        chance = reference._pmf_predict(z[:, None].astype(float), sensitive_features=s)[:, 1]
        ours = decided(fair_cuts(z, y, s, tol), z, s)
        assert abs(gap(chance, s)) <= tol + 1e-9
        assert abs(gap(ours, s)) <= tol + 1e-6
        assert accuracy(ours, y) >= accuracy(chance, y) - 1e-6
        assert accuracy(ours, y) <= accuracy(chance, y) + 0.003  # of 1,001 rates


@given(
    n=st.integers(6, 60), seed=st.integers(0, 999), ties=st.sampled_from([None, 1, 3]),
    limit=st.sampled_from([0.0, 0.03, 0.1, 0.5, 1.0]), chances=st.booleans(),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_it_is_the_best_of_all_randomised_thresholds(n, seed, ties, limit, chances):
    """A random draw among all thresholds of each group, by linear programming."""
    z, y, s = crowd(n, seed, ties)
    if chances:
        y = 1 / (1 + np.exp(-z.astype(float)))
    ours = decided(fair_cuts(z, y, s, limit), z, s)
    columns = []  # all rows' decision, for every threshold of every group
    for a in (0, 1):
        columns += [(a, (z >= cut) & (s == a)) for cut in (*np.unique(z[s == a]), np.inf)]
    gain = np.array([((2 * y - 1) * one).sum() for _, one in columns])
    rates = np.array([(2 * a - 1) * one.sum() / (s == a).sum() for a, one in columns])
    once = np.array([[float(a == b) for a, _ in columns] for b in (0, 1)])
    best = linprog(-gain, A_ub=[rates, -rates], b_ub=[limit] * 2, A_eq=once, b_eq=[1, 1])
    assert ((2 * y - 1) * ours).sum() == pytest.approx(-best.fun, abs=1e-4)
    assert abs(gap(ours, s)) <= limit + 1e-6


@pytest.mark.parametrize("limit", [0.0, 0.05, 0.3])
def test_with_chances_for_labels_it_is_proposition_2(limit):
    z, _, s = crowd(400, 3)
    eta = 1 / (1 + np.exp(-z.astype(float)))
    tilt = rule.aware_tilt(s, s.mean())
    best = rule.fair_rule(eta, tilt, np.full(len(s), 1 / len(s)), limit)
    ours = decided(fair_cuts(z, eta, s, limit), z, s)
    np.testing.assert_allclose(ours, best.positive(eta, tilt), atol=1e-5)


def test_without_both_groups_the_threshold_is_a_half():
    z, y, s = crowd(30, 0)
    for none in (slice(0, 0), s == 1):
        assert (fair_cuts(z[none], y[none], s[none], 0.1) == 0).all()


def test_rounding_parts_neighbours_in_single_precision():
    low = np.float32(0.3)
    z = np.array([low, np.nextafter(low, np.float32(1))], dtype=np.float32)
    found = hull(z, np.array([0.0, 1.0]))
    assert list(z >= np.float32(found.cut[1])) == [False, True]
