"""How much privacy many answers cost together."""

from math import exp, sqrt

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr
from scipy.stats import binom

from pfedfair.engines.site.accounting import epsilon_of, relative_noise

Z = 7.667160  # the noise of one answer of epsilon 0.5 and delta 1e-5


def gaussian_delta(z, epsilon):
    """Exact for continuous noise, as it is in the limit (Balle and Wang, 2018)."""
    a, b = 1 / (2 * z), epsilon * z
    return ndtr(a - b) - exp(epsilon + log_ndtr(-a - b))


def laplace_delta(each, n, epsilon):
    """Exact for n counts with discrete noise: each loss is -each or each."""
    k = np.arange(n + 1)
    loss = (2 * k - n) * each
    chances = binom.pmf(k, n, 1 / (1 + exp(-each)))
    return float((chances * np.maximum(0, -np.expm1(epsilon - loss))).sum())


@pytest.mark.parametrize(
    ("gaussian", "laplace", "delta", "expected"),
    [
        ({Z: 1}, {}, 1e-5, 0.5),
        ({Z: 20}, {}, 1e-5, 2.57036),  # and not 20 times 0.5
        ({Z: 20}, {}, 2e-4, 2.13061),
        ({}, {0.5: 20}, 1e-5, 9.86110),
        ({}, {1.0: 1}, 1e-5, 0.99999),
        ({Z: 20}, {1.0: 3}, 1e-5, 5.44064),
        ({}, {0.1: 400}, 1e-5, 10.63795),
    ],
    ids=str,
)
def test_numbers(gaussian, laplace, delta, expected):
    assert epsilon_of(gaussian, laplace, delta) == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
@pytest.mark.parametrize(("z", "n"), [(0.4, 1), (1.0, 1), (3.0, 5), (30.0, 400)])
def test_gaussian_answers_cost_no_more_than_is_said(z, n, delta):
    epsilon = epsilon_of({z: n}, {}, delta)
    assert gaussian_delta(z / sqrt(n), epsilon) <= delta
    assert gaussian_delta(z / sqrt(n), 0.8 * epsilon) > delta  # nor much less


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
@pytest.mark.parametrize(("each", "n"), [(0.05, 900), (0.5, 20), (1.0, 4), (3.0, 2), (40.0, 3)])
def test_counts_cost_no_more_than_is_said(each, n, delta):
    epsilon = epsilon_of({}, {each: n}, delta)
    assert laplace_delta(each, n, epsilon) <= delta
    assert laplace_delta(each, n, 0.7 * epsilon) > delta


def test_both_kinds_together_cost_no_more_than_is_said():
    """By many draws of the losses themselves."""
    rng = np.random.default_rng(0)
    mu, n = sqrt(5) / 3, 400_000
    loss = rng.normal(mu**2 / 2, mu, n)
    for _ in range(3):
        loss += 0.4 * np.where(rng.random(n) < 1 / (1 + exp(-0.4)), 1, -1)
    excess = np.maximum(0, -np.expm1(epsilon_of({3.0: 5}, {0.4: 3}, 0.01) - loss))
    assert 0.002 < excess.mean() < 0.01


def test_nothing_costs_nothing_and_one_pure_answer_its_epsilon():
    assert epsilon_of({}, {}, 1e-5) == 0.0
    assert epsilon_of({}, {0.3: 1}, 1e-12) == pytest.approx(0.3, abs=1e-6)
    assert epsilon_of({1e6: 1}, {}, 1e-5) == 0.0
    assert 800 < epsilon_of({}, {5.0: 200}, 1e-5) <= 1000  # at the most what they add up to


@pytest.mark.parametrize("epsilon", [0.001, 0.1, 0.5, 1, 4, 20, 1000])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_noise_is_as_large_as_epsilon_asks_for(epsilon, delta):
    z = relative_noise(epsilon, delta)
    assert gaussian_delta(z, epsilon) <= delta
    assert epsilon_of({z: 1}, {}, delta) <= epsilon
    assert epsilon_of({0.999 * z: 1}, {}, delta) > epsilon
