"""Both propositions against exact small cases."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from tilts import accuracy, blind_tilt

import pfedfair as pff
from pfedfair.theory import cost_of_one_model, fair_rule, frontier
from pfedfair.theory.rule import Rule, aware_tilt, gap


def test_adults_client_1_pays_13_points():
    part = pff.partition.fixed_shares().split(pff.load("adult"), seed=0)
    cost = cost_of_one_model(part)
    assert cost[0] == pytest.approx(0.130, abs=5e-4)  # (2 * 0.8333 - 1) * (0.3038 - 0.1093)
    np.testing.assert_array_equal(cost[1:], 0)


def test_bound_holds_for_every_single_fair_rule_in_an_exact_case():
    """Noiseless labels, X shared given S; every f(x, s) is tried, at both clients."""
    label = np.array([[0, 0, 0, 1], [0, 0, 1, 1]])  # Y = g(x, s), four equally likely x
    shares = np.array([0.8, 0.3, 0.2])  # P_i(S = 1); the federation's majority is S = 0
    rules = [np.array(f).reshape(2, 4) for f in itertools.product((0, 1), repeat=8)]
    fair = [f for f in rules if f[0].mean() == f[1].mean()]

    def error(f, share):
        wrong = (f != label).mean(1)
        return (1 - share) * wrong[0] + share * wrong[1]

    best = [min(error(f, share) for f in fair) for share in shares]
    one = min(sum(error(f, share) for share in shares) for f in fair)
    rates = label.mean(1)
    majority = 0
    bound = sum(
        (2 * max(q, 1 - q) - 1) * abs(rates[majority] - rates[int(q > 0.5)]) for q in shares
    )
    assert bound == pytest.approx(0.6 * 0.25)
    assert one - sum(best) >= bound - 1e-12


def best_by_linear_program(eta, tilt, mass, epsilon):
    """Maximise accuracy over all randomised rules under |gap| <= epsilon."""
    row = mass * tilt
    found = linprog(-mass * (2 * eta - 1), A_ub=[row, -row], b_ub=[epsilon, epsilon], bounds=(0, 1))
    assert found.success
    return accuracy(found.x, eta, mass)


etas = st.floats(0.02, 0.98).map(lambda v: round(v, 2))


@given(
    eta=st.lists(etas, min_size=4, max_size=12),
    share=st.floats(0.1, 0.9),
    epsilon=st.sampled_from([0.0, 0.02, 0.1, 0.4]),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=150)
def test_aware_rule_is_the_linear_programs_optimum(eta, share, epsilon, seed):
    rng = np.random.default_rng(seed)
    eta = np.array(eta)
    s = np.concatenate([[0, 1], rng.integers(2, size=len(eta) - 2)])
    mass = rng.random(len(eta))
    for z, part in ((0, 1 - share), (1, share)):
        mass[s == z] *= part / mass[s == z].sum()
    tilt = aware_tilt(s, share)
    rule = fair_rule(eta, tilt, mass, epsilon)
    positive = rule.positive(eta, tilt)
    assert abs(gap(positive, tilt, mass)) <= epsilon + 1e-9
    expected = best_by_linear_program(eta, tilt, mass, epsilon)
    assert accuracy(positive, eta, mass) == pytest.approx(expected, abs=1e-7)


@given(
    eta=st.lists(etas, min_size=3, max_size=10),
    epsilon=st.sampled_from([0.0, 0.05, 0.2]),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=100)
def test_blind_rule_is_the_linear_programs_optimum(eta, epsilon, seed):
    rng = np.random.default_rng(seed)
    eta = np.array(eta)
    mass = rng.random(len(eta))
    mass /= mass.sum()
    p_s1 = rng.random(len(eta)).round(2)
    share = float((mass * p_s1).sum())
    assume(0.05 < share < 0.95)
    tilt = blind_tilt(p_s1, share)
    positive = fair_rule(eta, tilt, mass, epsilon).positive(eta, tilt)
    assert abs(gap(positive, tilt, mass)) <= epsilon + 1e-9
    expected = best_by_linear_program(eta, tilt, mass, epsilon)
    assert accuracy(positive, eta, mass) == pytest.approx(expected, abs=1e-7)


def test_t_is_zero_when_the_target_is_met():
    s = np.array([0, 1, 0, 1])
    eta, mass = np.array([0.9, 0.8, 0.1, 0.2]), np.full(4, 0.25)
    assert fair_rule(eta, aware_tilt(s, 0.5), mass, 0.0) == Rule(0.0)


def test_frontier_is_monotone_meets_its_limits_and_ends_at_the_best_thresholds():
    rng = np.random.default_rng(0)
    s = rng.integers(2, size=4000)
    eta = 1 / (1 + np.exp(-rng.normal(s, 1.5)))
    y = (rng.random(4000) < eta).astype(int)
    limits = (0.0, 0.02, 0.05, 0.1, 1.0)
    points = frontier(eta, y, s, 0.3, limits)
    for (_, ddp), limit in zip(points, limits, strict=True):
        assert ddp <= limit + 1e-9
    accuracies = [a for a, _ in points]
    assert all(b >= a for a, b in itertools.pairwise(accuracies))
    mass = np.where(s == 1, 0.3 / (s == 1).sum(), 0.7 / (s == 0).sum())
    tilt = aware_tilt(s, 0.3)
    for (found, _), limit in zip(points, limits, strict=True):  # no rule on eta does better
        positive = fair_rule(eta, tilt, mass, limit).positive(eta, tilt)
        rule = (mass * np.where(y == 1, positive, 1 - positive)).sum()
        assert rule - 5e-4 <= found <= rule + 0.01


def test_frontier_by_brute_force_over_thresholds_with_ties():
    rng = np.random.default_rng(1)
    for _ in range(20):
        score, y = rng.integers(5, size=60) / 5, rng.integers(2, size=60)
        s = np.r_[np.zeros(40, int), np.ones(20, int)]
        best = dict.fromkeys((0.1, 0.5, 1.0), 0.0)
        for low, high in itertools.product(np.arange(7) / 5 - 0.1, repeat=2):
            positive = score > np.where(s == 0, low, high)
            gap = abs(positive[s == 1].mean() - positive[s == 0].mean())
            right = 0.4 * (positive == y)[s == 0].mean() + 0.6 * (positive == y)[s == 1].mean()
            for limit in best:
                best[limit] = max(best[limit], right if gap <= limit else 0.0)
        found = frontier(score, y, s, 0.6, list(best))
        for (ours, _), expected in zip(found, best.values(), strict=True):
            assert ours >= expected - 1e-9  # random draws may do better than any pair of thresholds
        assert found[-1][0] == pytest.approx(best[1.0])
