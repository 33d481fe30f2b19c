"""How much a client's own counts weigh, against simulations and direct integration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import beta as beta_distribution
from scipy.stats import betabinom, binom

from pfedfair.theory import shrinkage
from pfedfair.theory.shrinkage import (
    FLAT,
    KAPPAS,
    kappa_posterior,
    own_weight,
    posterior_draws,
    posterior_mean,
    worth,
)

BINS = 100
EDGES = np.linspace(0, 1, BINS + 1)
POOL = np.diff(beta_distribution.cdf(EDGES, 2, 3))
OTHER = np.diff(beta_distribution.cdf(EDGES, 3, 2))  # a shape unlike it


def drawn(shape, n, times, seed=0):
    return np.random.default_rng(seed).multinomial(n, shape, size=times).astype(float)


def mean_weight(shape, n, times=40):
    return np.mean([own_weight(counts, POOL) for counts in drawn(shape, n, times)])


def test_posterior_is_the_beta_binomials_for_two_cells():
    for q, n, ones in ((0.5, 10, 9), (0.3, 40, 12), (0.9, 200, 100), (0.06, 7, 0)):
        pmf = betabinom.pmf(ones, n, KAPPAS * q, KAPPAS * (1 - q))
        ours = kappa_posterior(np.array([n - ones, ones], float), np.array([1 - q, q]))
        np.testing.assert_allclose(ours, pmf / pmf.sum(), rtol=1e-6)


def test_posterior_is_the_integral_over_the_clients_own_shape():
    """The client's share is drawn around q, then its rows; integrated numerically."""
    q, n, ones = 0.4, 12, 9
    chosen = [8, 12, 20, 28]

    def likelihood(kappa):
        def integrand(p):
            prior = beta_distribution.pdf(p, kappa * q, kappa * (1 - q))
            return binom.pmf(ones, n, p) * prior

        return quad(integrand, 0, 1, limit=200, epsabs=1e-12, points=[q, ones / n])[0]

    direct = np.array([likelihood(KAPPAS[k]) for k in chosen])
    ours = kappa_posterior(np.array([n - ones, ones], float), np.array([1 - q, q]))[chosen]
    np.testing.assert_allclose(ours / ours.sum(), direct / direct.sum(), rtol=1e-5)


def test_before_any_counts_every_kappa_is_equally_likely():
    np.testing.assert_allclose(kappa_posterior(np.zeros(BINS), POOL), 1 / len(KAPPAS))
    assert own_weight(np.zeros(BINS), POOL) == 0


def test_weights_are_the_posterior_mean_of_n_over_n_plus_kappa():
    counts = drawn(OTHER, 50, 1)[0]
    expected = kappa_posterior(counts, POOL) @ (50 / (50 + KAPPAS))
    assert own_weight(counts, POOL) == pytest.approx(expected, rel=1e-12)


def test_a_prior_is_multiplied_in():
    """Bayes' rule: with a belief the posterior is the flat one's times it, and so in the draws."""
    prior = np.random.default_rng(0).dirichlet(np.ones(len(KAPPAS)))
    for counts in (drawn(POOL, 40, 1)[0], drawn(OTHER, 40, 1)[0]):
        expected = kappa_posterior(counts, POOL) * prior
        expected /= expected.sum()
        np.testing.assert_allclose(kappa_posterior(counts, POOL, prior), expected, rtol=1e-9)
        weight = expected @ (40 / (40 + KAPPAS))
        assert own_weight(counts, POOL, prior) == pytest.approx(weight, rel=1e-9)
        np.testing.assert_array_equal(
            kappa_posterior(counts, POOL, FLAT), kappa_posterior(counts, POOL)
        )
    np.testing.assert_allclose(kappa_posterior(np.zeros(BINS), POOL, prior), prior)
    assert own_weight(np.zeros(BINS), POOL, prior) == 0
    certain = np.where(np.arange(len(KAPPAS)) == 20, 1 - 1e-9, 1e-9 / 48)  # kappa is known
    counts, pooled = drawn(OTHER, 100, 1)[0], drawn(POOL, 10_000, 1)[0]
    believed = posterior_draws(counts, pooled, 50, np.random.default_rng(1), prior=certain)
    described = posterior_draws(counts, pooled, 50, np.random.default_rng(1), kappa=KAPPAS[20])
    np.testing.assert_allclose(believed.mean(0), described.mean(0), atol=0.02)
    mean = posterior_mean(counts, pooled / pooled.sum(), 100 / (100 + KAPPAS[20]))
    np.testing.assert_allclose(believed.mean(0), mean, atol=0.02)


@pytest.mark.parametrize("n", [5, 20, 100, 1000])
def test_a_client_like_the_pool_leans_on_the_pool(n):
    assert mean_weight(POOL, n) < 0.15


def test_a_client_unlike_the_pool_trusts_itself_as_it_grows():
    weights = [mean_weight(OTHER, n) for n in (10, 30, 100, 1000, 10_000)]
    assert (np.diff(weights) > 0).all()
    assert weights[0] < 0.5
    assert weights[2] > 0.6
    assert weights[-1] > 0.99


@pytest.mark.parametrize("kappa", [20.0, 300.0])
def test_kappa_is_found_for_clients_that_are_drawn_with_it(kappa):
    """The mean weight over clients is near N / (N + kappa); one client only says little."""
    rng = np.random.default_rng(1)
    n, weights = 1000, []
    for _ in range(60):
        own = rng.dirichlet(kappa * POOL)
        weights.append(own_weight(rng.multinomial(n, own).astype(float), POOL))
    assert np.mean(weights) == pytest.approx(n / (n + kappa), abs=0.08)


def test_shrinking_is_closer_to_the_truth_than_either_end():
    rng = np.random.default_rng(2)
    errors = {"own": [], "pool": [], "mixed": []}
    for _ in range(60):
        own = rng.dirichlet(200 * POOL)
        counts = rng.multinomial(200, own).astype(float)
        guess = posterior_mean(counts, POOL, own_weight(counts, POOL))
        for name, shape in (("own", counts / 200), ("pool", POOL), ("mixed", guess)):
            errors[name].append(np.abs(np.cumsum(shape - own)).max())  # of rates at a threshold
    assert np.mean(errors["mixed"]) < np.mean(errors["own"])
    assert np.mean(errors["mixed"]) < np.mean(errors["pool"])


def test_posterior_mean_by_hand():
    counts, q = np.array([3.0, 1.0]), np.array([0.5, 0.5])
    np.testing.assert_allclose(posterior_mean(counts, q, 0.2), [0.55, 0.45])
    np.testing.assert_allclose(posterior_mean(np.zeros(2), q, 0.9), q)  # no row: the pool
    kappa = 16.0  # (n + kappa q) / (N + kappa), as in the docstring
    np.testing.assert_allclose(posterior_mean(counts, q, 4 / (4 + kappa)), (counts + 8) / 20)


@pytest.mark.parametrize(("held", "trained"), [(40, 160), (400, 1600), (1000, 1000)])
def test_rows_trained_on_are_worth_as_much_as_others_if_scored_alike(held, trained):
    values = [
        worth(drawn(POOL, trained, 1, seed)[0], drawn(POOL, held, 1, seed + 100)[0])
        for seed in range(20)
    ]
    assert np.mean(values) > 0.8
    assert max(values) == 1


def test_rows_that_a_model_has_memorised_are_worth_next_to_nothing():
    """Their scores are at the ends; those of others are in between."""
    ends = np.zeros(BINS)
    ends[:5] = ends[-5:] = 0.1
    values = [worth(n, drawn(POOL, 400, 1)[0]) for n in drawn(ends, 1600, 10)]
    assert max(values) < 0.02
    milder = 0.8 * POOL + 0.2 * ends
    between = [worth(n, drawn(POOL, 400, 1)[0]) for n in drawn(milder, 1600, 10)]
    assert max(values) < np.mean(between) < 0.9


def test_without_rows_to_compare_with_rows_are_worth_as_much():
    assert worth(np.zeros(BINS), drawn(POOL, 9, 1)[0]) == 1
    assert worth(drawn(POOL, 9, 1)[0], np.zeros(BINS)) == 1


@pytest.mark.parametrize("kappa", [None, 1e9])
def test_where_no_other_client_has_rows_a_client_is_drawn_around_its_own(kappa):
    counts = drawn(OTHER, 500, 1)[0]
    shapes = posterior_draws(counts, np.zeros(BINS), 2000, np.random.default_rng(0), kappa)
    np.testing.assert_allclose(shapes.mean(0), counts / 500, atol=0.004)


def test_draws_have_the_posteriors_mean_and_spread():
    rng = np.random.default_rng(3)
    counts, pooled = drawn(OTHER, 300, 1)[0], drawn(POOL, 100_000, 1)[0]
    shapes = posterior_draws(counts, pooled, 4000, rng)
    assert shapes.shape == (4000, BINS)
    assert shapes.min() >= 0
    np.testing.assert_allclose(shapes.sum(1), 1, rtol=1e-9)
    q = (pooled + 1 / BINS) / (pooled.sum() + 1)
    mean = posterior_mean(counts, q, own_weight(counts, q))
    np.testing.assert_allclose(shapes.mean(0), mean, atol=0.002)
    few, many = (
        posterior_draws(drawn(POOL, n, 1)[0], pooled, 1000, rng)[:, :50].sum(1).std()
        for n in (30, 30_000)
    )
    assert few > 3 * many


def test_draws_with_a_small_pool_are_wider():
    rng = np.random.default_rng(4)
    counts = drawn(POOL, 10, 1)[0]
    spreads = [
        posterior_draws(counts, drawn(POOL, n, 1)[0], 1000, rng)[:, :50].sum(1).std()
        for n in (5, 50_000)
    ]
    assert spreads[0] > 1.2 * spreads[1]


cells = st.lists(st.integers(0, 200), min_size=3, max_size=60)


@given(cells, st.floats(0, 1), st.integers(0, 999))
@settings(deadline=None, max_examples=150)
def test_weights_and_worth_are_parts_of_one(counts, trust, seed):
    """Whatever the shapes: also for parts of rows, and for scores with few values."""
    rng = np.random.default_rng(seed)
    counts = trust * np.array(counts, float)
    pooled = rng.integers(0, 50, len(counts)) * (rng.random(len(counts)) < 0.3)
    q = (pooled + 1 / len(counts)) / (pooled.sum() + 1)
    chances = kappa_posterior(counts, q)
    assert np.isfinite(chances).all()
    assert chances.sum() == pytest.approx(1)
    weight = own_weight(counts, q)
    assert 0 <= weight <= 1
    assert posterior_mean(counts, q, weight).sum() == pytest.approx(1)
    assert 0 < worth(pooled.astype(float), counts) <= 1
    shapes = posterior_draws(counts, pooled.astype(float), 5, rng)
    assert np.isfinite(shapes).all()


def test_cells_have_about_equal_mass():
    """A client of a few rows fills cells, not bins: one row only says nothing."""
    assert shrinkage.CELLS < BINS
    lone = np.eye(BINS)[50]
    np.testing.assert_allclose(kappa_posterior(lone, np.full(BINS, 1 / BINS)), 1 / len(KAPPAS))
