"""Transport's rule for one client: against other rows' code, brute force, and simulation."""

import itertools
from functools import cache

import numpy as np
import pytest
import torch
from fairlearn.postprocessing import ThresholdOptimizer
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import expit, log_expit, logit
from scipy.stats import norm
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits

from pfedfair.data.task import Task
from pfedfair.methods.transport import counts as counting
from pfedfair.methods.transport.counts import cells_for
from pfedfair.theory import rule as theory
from pfedfair.theory.belief import Belief
from pfedfair.theory.program import fair_program
from pfedfair.theory.shrinkage import FLAT
from rules import (
    by_bin,
    centres,
    chances,
    estimate,
    guesses,
    knows,
    outcome,
    rows,
    shape_of,
    solve,
    solver,
)


@pytest.fixture(autouse=True, scope="module")
def one_blas_thread():
    with threadpool_limits(1):
        yield


# --- the rule is the best there is -------------------------------------------------------------


class Score(BaseEstimator):
    """A fitted estimator whose prediction is its first input."""

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return np.asarray(X)[:, 0]


def fairlearns(score, y, s):
    """Accuracy and gap of fairlearn's optimum, in expectation over its random decisions."""
    optimiser = ThresholdOptimizer(
        estimator=Score(), constraints="demographic_parity", objective="accuracy_score",
        prefit=True, predict_method="predict", grid_size=2000,
    )  # fmt: skip
    optimiser.fit(score[:, None], y, sensitive_features=s)
    positive = optimiser._pmf_predict(score[:, None], sensitive_features=s)[:, 1]
    right = np.where(y == 1, positive, 1 - positive).mean()
    return right, positive[s == 1].mean() - positive[s == 0].mean()


def ours(rule, score, y, s, bins=None):
    """The same; with `bins`, of rows that are spread evenly over the bins of their scores."""
    if bins is None:
        positive = chances(rule, logit(score))[s, np.arange(len(s))]
    else:
        positive = by_bin(rule, bins)[s, (score * bins).astype(int)]
    right = np.where(y == 1, positive, 1 - positive).mean()
    return right, positive[s == 1].mean() - positive[s == 0].mean()


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_target_0_is_fairlearns_threshold_optimizer(share):
    """Each bin's eta is the rate of labels in it, so both solve the same problem."""
    bins, rng = 60, np.random.default_rng(0)
    counts = rng.integers(400, 600, (2, bins)) + np.linspace([400, 0], [0, 400], bins).T
    counts = np.rint(counts * [[1.0], [share / (1 - share)]]).astype(int)
    ones = np.rint(counts * np.linspace([0.02, 0.1], [0.9, 0.97], bins).T).astype(int)
    eta = ones / counts
    assert (np.diff(eta) > 0).all()
    s, place = np.indices(counts.shape).reshape(2, -1).repeat(counts.ravel(), axis=1)
    y = np.concatenate([np.arange(n) < k for n, k in zip(counts.flat, ones.flat, strict=True)])
    score = expit(centres(bins))[place]

    algorithm = estimate(target_ddp=0.0, bins=bins, kappa=0)
    rule = solve(algorithm, knows(eta), counts.astype(float), s.mean())
    reference, their_gap = fairlearns(score, y.astype(int), s)
    accuracy, gap = ours(rule, score, y, s, bins)
    baseline = (np.repeat(eta.ravel(), counts.ravel()) > 0.5) == y
    assert reference < baseline.mean() - 0.003  # fairness costs something
    assert accuracy == pytest.approx(reference, abs=1e-4)
    assert abs(their_gap) < 1e-6
    assert abs(gap) < 1e-6


def test_target_0_is_fairlearns_on_scores_of_any_value():
    """Theirs looks at the labels of 8,000 rows, ours at their calibrated scores in bins."""
    rng = np.random.default_rng(1)
    s = (rng.random(8000) < 0.3).astype(int)
    z = rng.normal(np.where(s == 1, 0.6, -0.9), 1.4)
    y = (rng.random(8000) < expit(1.5 * z + 0.3)).astype(int)
    score = expit(z)
    algorithm = estimate(target_ddp=0.0, bins=500, kappa=0)
    message = tally([(s, y, z)], [(s[:0], z[:0])], algorithm.bins)
    server = counting.learn(message, algorithm.bins)
    counts = message["held"].sum((0, 1, 3)).numpy()
    accuracy, gap = ours(solve(algorithm, server, counts, s.mean()), score, y, s)
    reference, their_gap = fairlearns(score, y, s)
    assert ((score > 0.5) == y).mean() - reference > 0.01
    assert accuracy == pytest.approx(reference, abs=0.004)
    assert abs(gap - their_gap) < 1e-3


def best_by_brute_force(eta, shapes, share, target):
    """Try all pairs of thresholds, with one bin in between left to chance or not."""
    bins = eta.shape[1]
    upto = np.arange(bins)[None, :] >= np.arange(bins + 1)[:, None]  # (threshold, bin)
    best = -np.inf
    for k0, k1 in itertools.product(range(bins + 1), repeat=2):
        whole = np.stack([upto[k0], upto[k1]]).astype(float)
        tries = [whole]
        for z, k in ((0, k0), (1, k1)):
            if k == 0 or shapes[z, k - 1] == 0:
                continue
            gap = outcome(whole, eta, shapes, share)[1]
            for limit in (-target, target):  # admit a part of the bin below, up to the limit
                part = (limit - gap) / shapes[z, k - 1] * (1 if z else -1)
                if 0 < part < 1:
                    tries.append(whole.copy())
                    tries[-1][z, k - 1] = part
        for positive in tries:
            accuracy, gap = outcome(positive, eta, shapes, share)
            if abs(gap) <= target + 1e-12:
                best = max(best, accuracy)
    return best


@pytest.mark.parametrize("target", [0.0, 0.03, 0.15])
@pytest.mark.parametrize("seed", range(6))
def test_no_pair_of_thresholds_does_better(target, seed):
    rng = np.random.default_rng(seed)
    share = rng.uniform(0.1, 0.9)
    eta = np.sort(rng.random((2, 10)), axis=1)
    counts = rng.integers(0, 30, (2, 10)) + np.eye(10)[[2, 7]]
    rule = solve(estimate(target_ddp=target, bins=10, kappa=0), knows(eta), counts, share)
    accuracy, gap = outcome(by_bin(rule, 10), eta, shape_of(counts), share)
    assert abs(gap) <= target + 1e-6  # chances are float32
    expected = best_by_brute_force(eta, shape_of(counts), share, target)
    assert accuracy == pytest.approx(expected, abs=1e-6)


# A population: scores are off (Y follows MAP, not z), and shared over clients given S.
MEANS, SPREAD, SHARES = np.array([-1.3, 0.6]), 1.3, np.array([0.2, 0.5, 0.8])
MAP = np.array([[1.4, 0.2], [0.8, -0.3]])  # slope and shift of each group's true logit


def true_eta(z, s):
    return expit(MAP[s, 0] * z + MAP[s, 1])


def tally(held, trained, bins):
    """Messages from rows: held (s, y, z) and trained (s, z) of each client."""
    message = {
        "held": np.zeros((len(held), 2, 2, 2, bins)),
        "trained": np.zeros((len(held), 2, bins)),
    }
    for i, ((s, y, z), (s2, z2)) in enumerate(zip(held, trained, strict=True)):
        place, place2 = ((expit(v) * bins).astype(int) for v in (z, z2))
        np.add.at(message["held"][i], (np.arange(len(s)) % 2, s, y, place), 1)
        np.add.at(message["trained"][i], (s2, place2), 1)
    return {name: torch.from_numpy(counts) for name, counts in message.items()}


def survey(n, rng):
    """N rows of each client: a quarter held."""
    held, trained = [], []
    for share in SHARES:
        s = (rng.random(n) < share).astype(int)
        z = rng.normal(MEANS[s], SPREAD)
        y = (rng.random(n) < true_eta(z, s)).astype(int)
        cut = n // 4
        held.append((s[:cut], y[:cut], z[:cut]))
        trained.append((s[cut:], z[cut:]))
    return held, trained


@cache
def truth(share, target):
    """The population's optimum: its t, its thresholds on z, its accuracy; and how to measure."""
    edges = np.linspace(-9, 9, 20_001)
    z = (edges[1:] + edges[:-1]) / 2
    shapes = np.stack([np.diff(norm.cdf(edges, mean, SPREAD)) for mean in MEANS])
    eta = np.stack([true_eta(z, np.full(len(z), s)) for s in (0, 1)])
    mass = (np.array([[1 - share], [share]]) * shapes).ravel()
    tilt = theory.aware_tilt(np.repeat([0, 1], len(z)), share)
    best = theory.fair_rule(eta.ravel(), tilt, mass, target)
    positive = best.positive(eta.ravel(), tilt).reshape(eta.shape)
    accuracy, _ = outcome(positive, eta, shapes, share)
    level = 0.5 + best.t / 2 * np.array([-1 / (1 - share), 1 / share])
    return best.t, (logit(level) - MAP[:, 1]) / MAP[:, 0], accuracy, (z, shapes, eta)


def test_the_populations_optimum_is_found_as_clients_grow():
    """P(score | S) and eta are shared, shares of S are not: t, thresholds, accuracy, gap."""
    algorithm, rng = estimate(target_ddp=0.1), np.random.default_rng(2)
    means = []
    for n, times in ((500, 6), (5_000, 4), (50_000, 2)):
        errors = []
        for _ in range(times):
            message = tally(*survey(n, rng), algorithm.bins)
            server = counting.learn(message, algorithm.bins)
            own = rows(server, message)
            for i, share in enumerate(SHARES):
                t, thresholds, accuracy, (z, shapes, eta) = truth(share, 0.1)
                others = server | {"counts": server["counts"] - own[i]}
                rule = solve(algorithm, others, own[i].numpy(), share)
                low, high, *_ = rule.reshape(2, 4).T
                found = (low + high) / 2
                t_found = share * (2 * true_eta(found[1], 1) - 1)
                reached, gap = outcome(chances(rule, z), eta, shapes, share)
                assert np.abs(found - thresholds).max() < 1.5
                errors.append(
                    [abs(t_found - t), np.abs(found - thresholds).mean(),
                     abs(reached - accuracy), abs(gap - 0.1)]
                )  # fmt: skip
        means.append(np.mean(errors, axis=0))
    few, more, many = means
    assert all(truth(share, 0.1)[0] > 0.04 for share in SHARES)  # something to find
    assert (more < 0.7 * few).all()
    assert (many < 0.7 * more).all()
    assert (many < [0.01, 0.05, 0.002, 0.01]).all()


# --- for any client ----------------------------------------------------------------------------


@st.composite
def cases(draw):
    """A server's knowledge, a client's counts and share of S."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    bins = draw(st.sampled_from([10, 40, 500]))
    a, b = (draw(st.tuples(st.floats(0.2, 3), st.floats(0.2, 3))) for _ in range(2))
    shift = draw(st.tuples(st.floats(-2, 2), st.floats(-2, 2)))
    z = centres(bins)
    eta = np.stack([expit(a[s] * log_expit(z) - b[s] * log_expit(-z) + shift[s]) for s in (0, 1)])
    level = draw(st.sampled_from([0.03, 0.3, 3.0]))  # from a few values of the score to all
    shapes = rng.dirichlet(np.full(bins, level), 2)
    n, m = draw(st.integers(2, 3000)), draw(st.sampled_from([0, 50, 20_000]))
    share = draw(st.floats(0.02, 0.98))
    rows = np.maximum(np.rint(n * np.array([1 - share, share])).astype(int), 1)
    counts = np.stack([rng.multinomial(rows[s], shapes[s]) for s in (0, 1)]).astype(float)
    near = [rng.dirichlet(500 * shapes[s] + 1e-3) for s in (0, 1)]
    pooled = np.stack([rng.multinomial(m, near[s]) for s in (0, 1)]).astype(float)
    trust = draw(st.sampled_from([1.0, 0.37]))
    return bins, eta, trust * counts, pooled, share


kappas = st.sampled_from([None, 0.0, 25.0, float("inf")])
targets = st.sampled_from([0.0, 0.01, 0.05, 0.3, 1.0])


@given(cases(), kappas, targets)
@settings(deadline=None, max_examples=120)
def test_target_is_kept_and_the_constant_beaten_where_it_was_fitted(case, kappa, target):
    bins, eta, counts, pooled, share = case
    algorithm = estimate(target_ddp=target, bins=bins, kappa=kappa)
    shapes = guesses(algorithm, counts, pooled)
    np.testing.assert_allclose(shapes.sum(1), 1, rtol=1e-9)
    rule = solve(algorithm, knows(eta, pooled), counts, share)
    positive = by_bin(rule, bins)
    accuracy, gap = outcome(positive, eta, shapes, share)
    assert abs(gap) <= target + 1e-9 + 1e-6  # the rule is kept in float32
    label_rate = float(np.array([1 - share, share]) @ (shapes * eta).sum(1))
    assert accuracy >= max(label_rate, 1 - label_rate) - 1e-6
    baseline, _ = outcome(eta > 0.5, eta, shapes, share)
    assert accuracy <= baseline + 1e-9
    assert (np.diff(positive, axis=1) >= 0).all()  # a higher score is never to one's harm
    assert ((positive > 0) & (positive < 1)).sum(
        1
    ).max() <= 1  # random draws in one bin at the most


@given(cases(), kappas)
@settings(deadline=None, max_examples=60)
def test_the_usual_rule_stays_where_it_keeps_the_target(case, kappa):
    bins, eta, counts, pooled, share = case
    algorithm = estimate(bins=bins, kappa=kappa)
    shapes = guesses(algorithm, counts, pooled)
    _, gap = outcome(eta > 0.5, eta, shapes, share)
    assume(abs(gap) < 1 - 1e-6)  # see below
    loose = estimate(bins=bins, kappa=kappa, target_ddp=abs(gap) + 1e-6)
    positive = by_bin(solve(loose, knows(eta, pooled), counts, share), bins)
    np.testing.assert_array_equal(positive, eta > 0.5)
    if abs(gap) > 0.01:  # and does not where it does not
        tight = estimate(bins=bins, kappa=kappa, target_ddp=abs(gap) - 0.01)
        positive = by_bin(solve(tight, knows(eta, pooled), counts, share), bins)
        assert (positive != (eta > 0.5)).any()


def test_a_target_of_1_is_no_limit():
    eta = np.stack([expit(centres(10) - 0.4), expit(centres(10))])
    counts = np.zeros((2, 10))
    counts[0, 5], counts[1, [7, 9]] = 92, [1, 12]
    algorithm = estimate(bins=10, kappa=0, target_ddp=1.0)
    positive = by_bin(solve(algorithm, knows(eta), counts, 0.119140625), 10)
    np.testing.assert_array_equal(positive, eta > 0.5)


@given(cases(), targets)
@settings(deadline=None, max_examples=60)
def test_decisions_are_random_no_more_often_than_allowed(case, target):
    bins, eta, counts, pooled, share = case
    shapes = guesses(estimate(), counts, pooled)
    for most in (0.0, 0.05, 1.0):
        algorithm = estimate(bins=bins, target_ddp=target, max_randomised=most)
        rule = solve(algorithm, knows(eta, pooled), counts, share).reshape(2, 4)
        low, high, chance, below = rule.T
        assert (below == 0).all()
        places = bins * expit(np.stack([low, high]))
        drawn = [shapes[z, int(np.round(a)) : int(np.round(b))].sum() if 0 < chance[z] < 1 else 0.0
                 for z, (a, b) in enumerate(places.T)]  # fmt: skip
        assert np.array([1 - share, share]) @ drawn <= most + 1e-6


@pytest.mark.parametrize("share", [0.2, 0.5])
@pytest.mark.parametrize("most", [0.0, 0.05, 1.0])
def test_target_is_kept_where_eta_is_alike_in_many_bins(share, most):
    """The slope that `calibrate` finds for 40,000 rows whose label is z > 0."""
    eta = np.stack([expit(11.6 * centres(500))] * 2)
    counts = np.zeros((2, 500))
    counts[:, :40], counts[:, -40:] = [[20], [5]], [[5], [20]]
    algorithm = estimate(target_ddp=0.05, kappa=0, max_randomised=most)
    rule = solve(algorithm, knows(eta), counts, share)
    if most == 0:
        low, high, chance, _ = rule.reshape(2, 4).T
        np.testing.assert_array_equal(low, high)
        np.testing.assert_array_equal(chance, 0)
    rates = (by_bin(rule, 500) * shape_of(counts)).sum(1)
    assert abs(rates[1] - rates[0]) <= 0.05 + 1e-6


@pytest.mark.parametrize("decision", [0.0, 1.0])
def test_no_score_is_beyond_the_last_bin(decision):
    same = np.stack([np.full(10, 1 - decision), np.full(10, decision)], axis=1)
    rule = np.tile(solver(estimate(bins=10)).threshold(same, None), 2)
    far = np.array([-1e4, -31.0, 0.0, 31.0, 1e4])
    np.testing.assert_array_equal(chances(rule, far), decision)


def test_bins_and_thresholds_agree_on_cells():
    """Counts are made in one place and decisions in another: on all scores but rounding errors."""
    algorithm = estimate(bins=100)
    z = np.linspace(-8, 8, 5001).astype(np.float32)
    place = cells_for(algorithm.bins, Task()).locate(torch.from_numpy(z)[:, None]).numpy()
    assert place.min() == 0
    assert place.max() == 99
    for first in (0, 1, 37, 50, 99, 100):
        positive = (np.arange(100) >= first).astype(float)
        rule = np.tile(
            solver(algorithm).threshold(np.stack([1 - positive, positive], axis=1), None), 2
        )
        assert (chances(rule, z)[0] != positive[place]).mean() < 0.001


# --- the guarantee -----------------------------------------------------------------------------


def strangers(number, n, bins, kappa=150.0):
    """Small clients whose shapes stray from the pool's; their true shapes, and their counts."""
    rng = np.random.default_rng(5)
    edges = logit(np.linspace(0, 1, bins + 1))
    pool = np.stack([np.diff(norm.cdf(edges, mean, SPREAD)) for mean in MEANS])
    for _ in range(number):
        own = np.stack([rng.dirichlet(kappa * pool[s]) for s in (0, 1)])
        counts = np.stack([rng.multinomial(n // 2, own[s]) for s in (0, 1)]).astype(float)
        yield 20_000 * pool, own, counts


@pytest.mark.parametrize(("kappa", "enough"), [(150.0, 0.8), (1e6, 0.95)])
def test_confidence_keeps_the_target_on_new_rows_far_more_often(kappa, enough):
    """Sixty clients of 200 rows; their gap is that on all rows they will ever have.

    Beforehand all kappas are as likely. Among clients with the same one, 95 % may be less: kappa is
    hard to tell from one client's rows.
    """
    bins, target = 100, 0.15
    eta = np.stack([true_eta(centres(bins), np.full(bins, s)) for s in (0, 1)])
    gaps, accuracies = {}, {}
    for confidence in (0.0, 0.95):
        algorithm = estimate(bins=bins, target_ddp=target, confidence=confidence)
        found = []
        for k, (pooled, own, counts) in enumerate(strangers(60, 200, bins, kappa)):
            rule = solve(algorithm, knows(eta, pooled), counts, 0.5, seed=k)
            found.append(outcome(by_bin(rule, bins), eta, own, 0.5))
        accuracies[confidence], gaps[confidence] = np.abs(np.transpose(found))
    kept = {confidence: (found <= target).mean() for confidence, found in gaps.items()}
    assert 0.3 < kept[0.0] < 0.7  # a best guess is too low as often as too high
    assert kept[0.95] >= enough
    assert gaps[0.0].mean() == pytest.approx(target, abs=0.03)
    assert accuracies[0.95].mean() < accuracies[0.0].mean()  # which has its price


def test_confidence_costs_nothing_where_rows_leave_no_doubt():
    bins = 100
    eta = np.stack([true_eta(centres(bins), np.full(bins, s)) for s in (0, 1)])
    pooled, own, _ = next(strangers(1, 200, bins))
    counts = 1e6 * own
    baseline, certain = (
        outcome(
            chances(
                solve(estimate(bins=bins, confidence=c), knows(eta, pooled), counts, 0.5),
                centres(bins),
            ),
            eta, own, 0.5,
        )
        for c in (0.0, 0.95)
    )  # fmt: skip
    assert baseline[1] == pytest.approx(0.05, abs=1e-3)
    assert 0.04 < certain[1] <= 0.051  # a threshold inside a bin
    assert certain[0] == pytest.approx(baseline[0], abs=0.003)


def beaten(algorithm, eta, pooled, counts):
    """A sure rule of few rows, and how often it keeps the target in fresh draws of its belief."""
    rule = solve(algorithm, knows(eta, pooled), counts, 0.5)
    positive = by_bin(rule, algorithm.bins)
    belief = Belief(counts=counts, pooled=pooled, prior=FLAT)
    fresh = belief.draws(4000, np.random.default_rng(9))
    gaps = np.abs(fresh[1] @ positive[1] - fresh[0] @ positive[0])
    accuracy, _ = outcome(positive, eta, belief.shapes, 0.5)
    return positive, (gaps <= algorithm.target_ddp).mean(), accuracy


@pytest.mark.parametrize("most", [0.0, 1.0])
@pytest.mark.parametrize(("shift", "usual"), [(-1.0, 0.0), (2.0, 1.0)])
def test_too_few_rows_for_the_confidence_level_change_few_decisions_rather_than_all(
    shift, usual, most
):
    """Random, or with stricter thresholds: better than one decision for all, and as certain."""
    bins = 100
    eta = np.stack([expit(centres(bins) + shift)] * 2)
    pooled, own, _ = next(strangers(1, 200, bins))
    few = np.eye(bins)[[40, 70]] + np.eye(bins)[[20, 50]]
    algorithm = estimate(bins=bins, target_ddp=0.05, confidence=0.95, max_randomised=most)
    positive, kept, accuracy = beaten(algorithm, eta, pooled, few)
    label_rate = (guesses(algorithm, few, pooled) * eta).sum(1).mean()
    assert accuracy > max(label_rate, 1 - label_rate) + 1e-3
    assert (np.diff(positive, axis=1) >= 0).all()
    if most == 0:  # thresholds that cost no more than half of the gain, or those of a gap of 0
        rule = solve(algorithm, knows(eta, pooled), few, 0.5).reshape(2, 4)
        assert (rule[:, 0] == rule[:, 1]).all()
    else:
        assert kept > 0.93
        rate = positive.mean()
        positive, _, _ = beaten(algorithm, eta, pooled, 1e6 * own)
        assert abs(positive.mean() - usual) > abs(rate - usual)  # further from one decision


def small_client(target, **settings):
    """A client of 200 rows with a strange pool: its problem's posterior, its rule, its facts."""
    bins = 100
    eta = np.stack([expit(1.5 * centres(bins) - 1)] * 2)
    pooled, own, _ = next(strangers(1, 200, bins))
    counts = np.stack([np.random.default_rng(s).multinomial(100, own[s]) for s in (0, 1)]) * 1.0
    algorithm = estimate(bins=bins, target_ddp=target, **settings)
    known = {name: v.numpy() for name, v in knows(eta, pooled).items()}
    belief = Belief(counts=counts, pooled=pooled, prior=FLAT)
    found = solver(algorithm).solve(
        known, belief, np.full(2, 0.5), np.random.default_rng(0), Task()
    )
    baseline = solve(estimate(bins=bins, target_ddp=target), knows(eta, pooled), counts, 0.5)
    free, _ = outcome(by_bin(baseline, bins), eta, belief.shapes, 0.5)
    drawn = belief.draws(400, np.random.default_rng(0))
    return eta, belief, by_bin(found.numbers, bins), found.facts, free, drawn


def test_random_draws_shrink_every_gap_alike():
    """The best mixture by hand, on the same draws: at most what the rule reaches."""
    eta, belief, positive, facts, free, drawn = small_client(0.02, confidence=0.9)
    strict = by_bin(solve(
        estimate(bins=100, target_ddp=0.0), knows(eta, belief.pooled), belief.counts, 0.5
    ), 100)  # fmt: skip
    clear = strict > 0.5
    part = 0.02 / np.quantile(np.abs(drawn[1] @ clear[1] - drawn[0] @ clear[0]), 0.9)
    assert part < 1
    accuracy, _ = outcome(positive, eta, belief.shapes, 0.5)
    assert accuracy >= outcome(part * clear, eta, belief.shapes, 0.5)[0] - 2e-4  # of 12 halvings
    assert facts["too_small"] == 0
    assert facts["certainty_cost"] == pytest.approx(free - accuracy, abs=1e-5)


def test_facts_of_a_client_that_is_too_small_are_what_would_do():
    """Without random draws: the gap of 0 by estimate; by the draws, which target and level do."""
    _, belief, positive, facts, _, drawn = small_client(0.02, confidence=0.9, max_randomised=0.0)
    assert facts["too_small"] == 1
    rates = [(belief.shapes[z] * positive[z]).sum() for z in (0, 1)]
    assert rates[0] == pytest.approx(rates[1], abs=1e-6)
    gaps = np.abs(drawn[1] @ positive[1] - drawn[0] @ positive[0])
    assert facts["enough_target"] == pytest.approx(np.quantile(gaps, 0.9), rel=0.05)
    assert facts["enough_confidence"] == pytest.approx((gaps <= 0.02).mean(), abs=0.03)
    assert facts["enough_rows"] == pytest.approx(200 * ((facts["enough_target"] / 0.02) ** 2 - 1))
    _, _, positive, facts, _, _ = small_client(
        facts["enough_target"] + 1e-4, confidence=0.9, max_randomised=0.0
    )
    assert facts["too_small"] == 0  # that target does


def test_a_client_gets_the_interval_of_its_gap():
    """Of sure rules for alike rows: 1.96 standard deviations of the drawn gap, fewer for many."""
    bins = 100
    eta = np.stack([true_eta(centres(bins), np.full(bins, s)) for s in (0, 1)])
    known_to = []
    for n in (100, 10_000):
        pooled, own, _ = next(strangers(1, 200, bins))
        counts = n * own
        rule = estimate(bins=bins).solve(
            knows(eta, pooled) | {"w": torch.zeros(1)}, counts, np.full(2, 0.5),
            np.random.default_rng(0), Task(),
        )  # fmt: skip
        positive = by_bin(rule.numbers.double().numpy().ravel(), bins)
        drawn = Belief(counts=counts, pooled=pooled, prior=FLAT).draws(
            4000, np.random.default_rng(1)
        )
        spread = (drawn[1] @ positive[1] - drawn[0] @ positive[0]).std()
        assert rule.facts["known_to"] == pytest.approx(1.96 * spread, rel=0.25)  # of 100 draws
        assert rule.facts["certainty_cost"] == 0
        known_to.append(rule.facts["known_to"])
    assert known_to[1] < known_to[0] / 2


def test_a_higher_confidence_is_stricter():
    bins = 100
    eta = np.stack([true_eta(centres(bins), np.full(bins, s)) for s in (0, 1)])
    pooled, _, counts = next(strangers(1, 2000, bins))
    gaps = []
    for confidence in (None, 0.5, 0.8, 0.95):
        algorithm = estimate(bins=bins, target_ddp=0.2, confidence=confidence)
        rule = solve(algorithm, knows(eta, pooled), counts, 0.5)
        shapes = guesses(algorithm, counts, pooled)
        gaps.append(outcome(by_bin(rule, bins), eta, shapes, 0.5)[1])
    assert (np.diff(gaps) < 0.005).all()
    assert gaps[-1] < 0.9 * gaps[0]


# --- preferences -------------------------------------------------------------------------------


@given(cases(), targets)
@settings(deadline=None, max_examples=60)
def test_levelling_up_takes_no_positive_decision_away(case, target):
    bins, eta, counts, pooled, share = case
    algorithm = estimate(bins=bins, target_ddp=target, prefer="up", max_randomised=0.0)
    shapes = guesses(algorithm, counts, pooled)
    positive = by_bin(solve(algorithm, knows(eta, pooled), counts, share), bins)
    assert (positive >= (eta > 0.5) - 1e-9).all()
    gap = outcome(positive, eta, shapes, share)[1]
    assert abs(gap) <= max(target, 2.5 / bins) + 1e-6


def test_levelling_up_is_the_linear_programs_where_rates_may_not_fall():
    """The same problem with the least rates as constraints, for the accuracy."""
    bins = 40
    eta = np.stack([expit(1.5 * centres(bins) - shift) for shift in (0.9, 0.1)])
    counts = np.random.default_rng(4).integers(5, 50, (2, bins)).astype(float)
    algorithm = estimate(bins=bins, target_ddp=0.03, prefer="up", kappa=0)
    positive = by_bin(solve(algorithm, knows(eta), counts, 0.4), bins)
    shapes = shape_of(counts)
    mass = np.array([0.6, 0.4])[:, None, None] * shapes[:, None] * np.stack([1 - eta, eta], 1)
    least = (shapes * (eta > 0.5)).sum(1)
    best = fair_program(mass, "dp", 0.03, least=least)[..., 1]
    ours, theirs = (outcome(each, eta, shapes, 0.4) for each in (positive, best))
    assert ours[0] == pytest.approx(theirs[0], abs=1e-5)
    assert abs(theirs[1]) == pytest.approx(0.03, abs=1e-5)
    assert ((shapes * positive).sum(1) >= least - 1e-6).all()


def test_jointly_is_a_stricter_level_for_each_client():
    bins, share = 100, 0.5
    eta = np.stack([true_eta(centres(bins), np.full(bins, s)) for s in (0, 1)])
    pooled, _, counts = next(strangers(1, 4000, bins))
    server = knows(eta, pooled) | {"clients": torch.tensor(10.0)}
    asked = {"bins": bins, "target_ddp": 0.15, "max_randomised": 0.0}
    joint = solve(estimate(**asked, confidence=0.9, jointly=True), server, counts, share)
    alone = solve(estimate(**asked, confidence=0.99), server, counts, share)
    loose = solve(estimate(**asked, confidence=0.9), server, counts, share)
    np.testing.assert_array_equal(joint, alone)  # 1 - (1 - 0.9) / 10
    assert (joint != loose).any()
