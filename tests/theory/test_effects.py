"""Effects of clients, against numerical integration, scipy's optimiser and simulated clients."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, norm

from pfedfair.theory import effects
from pfedfair.theory.belief import Belief
from pfedfair.theory.effects import (
    Effects,
    Mixture,
    around_likelihood,
    learn,
    mixture,
    posterior,
    statistics,
    unknown,
    usually,
)
from pfedfair.theory.shrinkage import FLAT, KAPPAS, spread
from pfedfair.theory.tilts import Likelihood, basis, likelihood, tilted

BINS = 400
EDGES = np.linspace(-5, 5, BINS + 1)
AT = (EDGES[1:] + EDGES[:-1]) / 2
NORMAL = np.diff(norm.cdf(EDGES))
NORMAL /= NORMAL.sum()
SD = np.array([0.25, 0.12, 0.25, 0.1])
TOGETHER = np.array(
    [[1, 0.3, 0.9, 0.2], [0.3, 1, 0.2, 0.8], [0.9, 0.2, 1, 0.3], [0.2, 0.8, 0.3, 1]]
)
SIGMA = SD[:, None] * TOGETHER * SD


def held(covariance=SIGMA, none=0.0, ways=None, mean=None):
    size = len(covariance)
    mean = np.zeros(size) if mean is None else mean
    return Effects(none, mean, covariance, usually(size) if ways is None else ways)


def exactly(counts, theta):
    """The multinomial log-likelihood of one group less that of no effects."""
    p = tilted(NORMAL, theta)
    return (np.log(p) - np.log(NORMAL)) @ counts


def simulated(number, rows, population=SIGMA, seed=0, pool=100_000):
    """True effects, counts of two groups, and all rows else's counts."""
    rng = np.random.default_rng(seed)
    theta = rng.multivariate_normal(np.zeros(4), population, number)
    shapes = np.stack([tilted(NORMAL, theta[:, 2 * z : 2 * z + 2]) for z in (0, 1)], axis=1)
    counts = np.array([[rng.multinomial(rows, p) for p in one] for one in shapes], dtype=float)
    pooled = np.stack([pool * NORMAL] * 2)
    return theta, shapes, counts, pooled


def agreed(likelihoods, rounds):
    population = unknown(2)
    for _ in range(rounds):
        population = learn(sum(statistics(one, population) for one in likelihoods), population)
    return population


@pytest.mark.parametrize("theta", [(0.0, 0.0), (0.4, 0.0), (-0.3, -0.4), (0.2, 0.15)])
def test_a_normal_shape_becomes_every_other_normal_shape(theta):
    precision = 1 - np.sqrt(2) * theta[1]
    expected = np.diff(norm.cdf(EDGES, theta[0] / precision, precision**-0.5))
    found = tilted(NORMAL, np.array(theta))
    assert np.abs(np.cumsum(found - expected)).max() < 0.004  # ends of the scores are cut at 3


def test_directions_are_centred_and_of_length_one():
    u = basis(NORMAL)
    np.testing.assert_allclose(u @ NORMAL, 0, atol=1e-12)
    np.testing.assert_allclose((u * NORMAL) @ u.T, np.eye(2), atol=0.06)  # 3 is the end
    np.testing.assert_array_equal(basis(np.eye(5)[2])[0], 0)  # all have the same score


def test_a_likelihood_is_quadratic_around_its_peak():
    counts = np.random.default_rng(0).multinomial(600, tilted(NORMAL, np.array([0.3, -0.1])))
    one = likelihood(counts[None].astype(float), NORMAL[None])
    peak = minimize(lambda t: t @ t / 2 - exactly(counts, t), np.zeros(2), tol=1e-10).x
    np.testing.assert_allclose(np.linalg.solve(one.curve + np.eye(2), one.slope), peak, atol=1e-5)
    offs = np.random.default_rng(1).normal(0, 0.02, (20, 2))
    for theta in peak + offs:
        quadratic = one.constant[0] + one.slope @ theta - theta @ one.curve @ theta / 2
        assert quadratic == pytest.approx(exactly(counts, theta), abs=0.1)


def test_groups_without_rows_say_nothing():
    counts = np.stack([np.zeros(BINS), 50 * NORMAL, 50 * NORMAL])
    one = likelihood(counts, np.stack([NORMAL, np.zeros(BINS), NORMAL]))
    assert not one.slope[:4].any()
    assert not one.curve[:4].any()
    assert (one.curve[4:, 4:].diagonal() > 40).all()


def by_integration(log_likelihood, population, wide=1.2, steps=241):
    """Evidence, mean and covariance of two effects, on a grid."""
    axis = np.linspace(-wide, wide, steps)
    theta = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    density = np.zeros(len(theta))
    for way, move in zip(population.ways, population.stretched, strict=True):
        covariance = move @ population.covariance @ move.T
        density += way * multivariate_normal(population.mean, covariance).pdf(theta)
    weight = density * np.exp(log_likelihood(theta)) * (axis[1] - axis[0]) ** 2
    total = weight.sum()
    mean = weight @ theta / total
    off = theta - mean
    return np.log(total), mean, (weight[:, None] * off).T @ off / total


def test_posterior_is_the_integral_over_theta():
    population = held(np.array([[0.02, 0.01], [0.01, 0.015]]), mean=np.array([0.05, -0.02]))
    one = Likelihood(np.array([30.0, -12.0]), np.array([[120.0, 30.0], [30.0, 90.0]]), np.zeros(1))
    found, evidence = posterior(one, population)
    total, mean, covariance = by_integration(
        lambda t: t @ one.slope - np.einsum("ni,ij,nj->n", t, one.curve, t) / 2, population
    )
    assert evidence == pytest.approx(total, abs=1e-6)
    np.testing.assert_allclose(found.mean, mean, atol=1e-6)
    np.testing.assert_allclose(found.covariance, covariance, atol=1e-6)


@pytest.mark.parametrize("rows", [30, 300])
def test_posterior_of_counts_is_near_the_exact_one(rows):
    population = held(np.array([[0.03, 0.005], [0.005, 0.01]]))
    shape = tilted(NORMAL, np.array([0.3, -0.1]))
    counts = np.random.default_rng(3).multinomial(rows, shape).astype(float)
    found, evidence = posterior(likelihood(counts[None], NORMAL[None]), population)
    u, n = basis(NORMAL), counts.sum()

    def exact(theta):
        power = theta @ u
        return power @ counts - n * np.log(np.exp(power) @ NORMAL)

    total, mean, covariance = by_integration(exact, population, steps=121)
    assert evidence == pytest.approx(total, abs=0.2)
    sd = np.sqrt(covariance.diagonal())
    np.testing.assert_allclose(found.mean, mean, atol=0.25 * sd.max())
    np.testing.assert_allclose(np.sqrt(found.covariance.diagonal()), sd, rtol=0.12)


def test_a_mixtures_moments_points_and_draws():
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(3, 4, 4)) / 4
    found = Mixture(np.array([0.5, 0.3, 0.2]), rng.normal(size=(3, 4)), roots @ roots.mT)
    drawn = found.draw(200_000, rng)
    np.testing.assert_allclose(drawn.mean(0), found.mean, atol=0.02)
    np.testing.assert_allclose(np.cov(drawn.T), found.covariance, atol=0.03)
    points = found.points()
    np.testing.assert_allclose(points.mean(0), found.mean, atol=1e-12)
    np.testing.assert_allclose(np.cov(points.T, bias=True), found.covariance, atol=1e-12)


def test_a_population_is_learnt_from_sums_and_each_round_explains_more():
    theta, _, counts, pooled = simulated(80, 400)
    shapes = pooled / pooled.sum(1, keepdims=True)
    each = [likelihood(one, shapes) for one in counts]
    evidence, population = [], unknown(2)
    for _ in range(9):
        sums = sum(statistics(one, population) for one in each)
        evidence.append(sums[-2])
        population = learn(sums, population)
    assert (np.diff(evidence) > -0.5).all()  # the made-up client has a say too
    assert evidence[-1] > evidence[0] + 10
    assert population.none < 1e-6
    assert population.ways[0] > 0.9
    truth = np.cov(theta.T)
    sd, true_sd = (np.sqrt(c.diagonal()) for c in (population.covariance, truth))
    np.testing.assert_allclose(sd, true_sd, rtol=0.25)
    assert population.covariance[0, 2] / (sd[0] * sd[2]) > 0.8  # groups that move together
    np.testing.assert_allclose(population.mean, theta.mean(0), atol=0.05)
    assert len(statistics(each[0], population)) == effects.length(2)
    again = effects.from_vector(population.vector, 2)
    np.testing.assert_array_equal(again.vector, population.vector)


@pytest.mark.parametrize("clients", [3, 12, 50])
def test_clients_that_are_alike_have_no_effects(clients):
    _, _, counts, pooled = simulated(clients, 300, population=1e-12 * np.eye(4))
    shapes = pooled / pooled.sum(1, keepdims=True)
    population = agreed([likelihood(one, shapes) for one in counts], 5)
    assert population.none > 0.99


def test_learning_is_the_mean_and_covariance_with_made_up_clients():
    """Clients that are sums exactly, around another mean than before, and by simple averages."""
    theta = np.random.default_rng(0).normal(0.1, 0.3, (7, 4))
    before = held(mean=np.full(4, 0.05))
    off = theta - before.mean
    ways = len(before.ways)
    sums = np.concatenate([[7], off.sum(0), (off.T @ off).ravel(), 7 * np.eye(ways)[0], [40, 30]])
    found = learn(sums, before)
    mean = theta.mean(0)
    np.testing.assert_allclose(found.mean, mean)
    squares = sum(np.outer(one - mean, one - mean) for one in theta)
    np.testing.assert_allclose(found.covariance, (squares + 0.05**2 * np.eye(4)) / 8)
    odds = 0.5 * (np.exp(40 - 7 * np.log(8)) + np.exp(30))  # 14 parameters
    assert found.none == pytest.approx(1 / (1 + odds))
    np.testing.assert_allclose(found.doubted.mean, theta.sum(0) / 9)
    expected = (7 * found.covariance + 2 * 0.2**2 * np.eye(4)) / 9
    np.testing.assert_allclose(found.doubted.covariance, expected)


def test_a_population_of_an_older_run_is_read():
    vector = held(none=0.3).vector
    again = effects.from_vector(np.delete(vector, 1), 2)
    np.testing.assert_array_equal(again.vector, vector)
    np.testing.assert_array_equal(again.doubted.covariance, again.covariance)


def test_without_rows_nothing_is_learnt():
    before = unknown(2)
    assert learn(np.zeros(effects.length(2)), before) is before


def test_an_odd_client_is_not_pulled_back_as_if_it_were_usual():
    """One of forty differs where the others do not: in how far its groups are apart."""
    theta, _, counts, pooled = simulated(40, 500)
    odd = np.array([0.35, 0.0, -0.35, 0.0])
    rng = np.random.default_rng(5)
    counts[0] = [rng.multinomial(500, tilted(NORMAL, odd[2 * z : 2 * z + 2])) for z in (0, 1)]
    shapes = pooled / pooled.sum(1, keepdims=True)
    each = [likelihood(one, shapes) for one in counts]
    population = agreed(each, 8)
    usual = Effects(0.0, population.mean, population.covariance, np.eye(len(population.ways))[0]
                    .clip(min=1e-300))  # fmt: skip
    found, pulled = (mixture(each[0], one).mean for one in (population, usual))
    assert np.abs(found - odd).max() < 0.8 * np.abs(pulled - odd).max()
    errors = [
        np.mean([np.square(mixture(one, with_).mean - t) for one, t in
                 zip(each[1:], theta[1:], strict=True)])
        for with_ in (population, usual)
    ]  # fmt: skip
    assert errors[0] < 1.1 * errors[1]  # and it costs the others little


def test_rows_drawn_around_the_effects_tell_less_of_them():
    """Simulated: location of a Dirichlet's rows varies by (1 + kappa) / (N + kappa) more."""
    kappa, n, rng = KAPPAS[20], 300, np.random.default_rng(0)
    certain = np.where(np.arange(49) == 20, 1 - 48e-12, 1e-12)
    u = basis(NORMAL)[0]
    means = [u @ rng.multinomial(n, rng.dirichlet(kappa * NORMAL + 1e-9)) / n for _ in range(3000)]
    counts = np.stack([n * NORMAL] * 2)
    shapes = np.stack([NORMAL] * 2)
    whole = likelihood(counts, shapes)
    around = around_likelihood(whole, counts, shapes, held(), certain)
    assert around.curve[0, 0] / whole.curve[0, 0] == pytest.approx((1 + kappa) / (n + kappa))
    assert 1 / around.curve[0, 0] == pytest.approx(np.var(means), rel=0.1)


# --- what a client believes --------------------------------------------------------------------


def rates(shapes, cuts):
    return np.array([shapes[..., z, :] @ (cut < AT) for z, cut in enumerate(cuts)])


def test_beliefs_cover_the_truth_and_are_nearer_to_it_than_without_effects():
    """Eighty clients of 400 rows: gaps at two thresholds, in units of their doubt."""
    _, shapes, counts, pooled = simulated(80, 400, seed=2)
    others = np.stack([spread(n) for n in pooled])
    population, prior = agreed([likelihood(one, others) for one in counts], 8), FLAT
    scores, errors, rng = [], {"effects": [], "none": []}, np.random.default_rng(0)
    for own, true in zip(counts, shapes, strict=True):
        gap = np.subtract(*rates(true, (0.5, 0.3)))
        for name, view in (("effects", population), ("none", None)):
            belief = Belief(counts=own, pooled=pooled, prior=prior, population=view)
            np.testing.assert_allclose(belief.shapes.sum(1), 1, rtol=1e-9)
            errors[name].append(np.subtract(*rates(belief.shapes, (0.5, 0.3))) - gap)
            if view is not None:
                drawn = np.subtract(*rates(belief.draws(150, rng).transpose(1, 0, 2), (0.5, 0.3)))
                assert drawn.mean() == pytest.approx(errors[name][-1] + gap, abs=0.01)
                scores.append((gap - drawn.mean()) / drawn.std())
    assert 0.75 < np.std(scores) < 1.2
    assert np.mean(np.abs(scores) < 1.96) > 0.9
    assert np.std(errors["effects"]) < 0.85 * np.std(errors["none"])


def test_many_rows_speak_for_themselves_whatever_their_shape():
    """A shape with two humps, which no effect describes."""
    humps = np.diff(norm.cdf(EDGES, -1.5, 0.3)) + np.diff(norm.cdf(EDGES, 1.5, 0.3))
    humps /= humps.sum()
    pooled = np.stack([20_000 * NORMAL] * 2)
    off = []
    for rows in (50, 1000, 50_000):
        counts = np.stack([np.random.default_rng(0).multinomial(rows, humps)] * 2).astype(float)
        belief = Belief(counts=counts, pooled=pooled, prior=FLAT, population=held())
        off.append(np.abs(np.cumsum(belief.shapes[0] - humps)).max())
    assert (np.diff(off) < 0).all()
    assert off[-1] < 0.01


def test_with_a_given_kappa_or_no_effects_a_belief_is_as_without():
    _, _, counts, pooled = simulated(1, 100)
    for kappa, population in ((50.0, held()), (None, held(none=1.0))):
        with_, without = (
            Belief(counts=counts[0], pooled=pooled, prior=FLAT, kappa=kappa, population=one)
            for one in (population, None)
        )
        np.testing.assert_array_equal(with_.shapes, without.shapes)
        drawn = [one.draws(5, np.random.default_rng(0)) for one in (with_, without)]
        np.testing.assert_array_equal(*drawn)


def test_a_group_that_no_other_client_has_is_ones_own():
    _, _, counts, pooled = simulated(1, 100)
    pooled[1] = 0
    belief = Belief(counts=counts[0], pooled=pooled, prior=FLAT, population=held())
    np.testing.assert_allclose(belief.shapes[1], counts[0, 1] / 100)
    assert np.isfinite(belief.draws(5, np.random.default_rng(0))).all()
    no_rows = Belief(counts=0 * counts[0], pooled=pooled, prior=FLAT, population=held())
    np.testing.assert_allclose(no_rows.shapes.sum(1), 1)


@given(st.integers(0, 10**6), st.sampled_from([10, 40, 500]), st.sampled_from([0.01, 0.3, 3.0]),
       st.sampled_from([1, 7, 3000]), st.sampled_from([0.0, 30.0, 20_000.0]))  # fmt: skip
@settings(deadline=None, max_examples=60)
def test_beliefs_are_distributions_whatever_the_shapes(seed, bins, level, rows, pool):
    rng = np.random.default_rng(seed)
    shapes = rng.dirichlet(np.full(bins, level) + 1e-6, 2)
    counts = 0.37 * np.stack([rng.multinomial(rows, p) for p in shapes])
    belief = Belief(
        counts=counts, pooled=pool * rng.dirichlet(np.full(bins, level) + 1e-6, 2), prior=FLAT,
        population=held(),
    )  # fmt: skip
    for found in (belief.shapes, belief.draws(3, rng)):
        assert np.isfinite(found).all()
        assert found.min() >= 0
        np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-9)
    around = around_likelihood(belief.likelihood, belief.counts, belief.pooled_shapes, held(), FLAT)
    sums = statistics(around, held())
    assert np.isfinite(sums).all()
    population = learn(sums, held())
    assert (np.linalg.eigvalsh(population.covariance) > 0).all()


# --- few clients -------------------------------------------------------------------------------


def test_few_clients_with_few_rows_cannot_show_that_they_are_alike():
    """Gaps at two thresholds of 5 clients of 60 rows a group: what may be covers what is."""
    inside, none = [], []
    for seed in range(40):
        _, shapes, counts, pooled = simulated(5, 60, seed=seed)
        others = np.stack([spread(n) for n in pooled])
        population = agreed([likelihood(one, others) for one in counts], 5)
        none.append(population.none)
        rng = np.random.default_rng(seed)
        for own, true in zip(counts, shapes, strict=True):
            gap = np.subtract(*rates(true, (0.5, 0.3)))
            belief = Belief(counts=own, pooled=pooled, prior=FLAT, population=population)
            drawn = np.subtract(*rates(belief.draws(100, rng).transpose(1, 0, 2), (0.5, 0.3)))
            inside.append(abs(gap - drawn.mean()) < 1.96 * drawn.std())
    assert np.mean(none) < 0.5
    assert np.mean(inside) > 0.93
