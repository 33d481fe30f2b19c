"""Exact noise: its distribution, by integers alone, and what it takes from the system."""

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from pfedfair._util import noise

N = 200_000
CHANCE = 1e-7  # of a false alarm: the noise has no seed


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 3.0])
def test_whole_numbers_have_laplaces_chances(epsilon):
    drawn = noise.laplace(epsilon, N)
    assert drawn.dtype == np.int64
    q = np.exp(-epsilon)
    far = int(np.log(N / 100) / epsilon)  # each cell expects dozens
    each = (1 - q) / (1 + q) * q ** np.abs(np.arange(-far, far + 1))
    beyond = (1 - each.sum()) / 2
    expected = N * np.array([beyond, *each, beyond])
    found = np.bincount(drawn.clip(-far - 1, far + 1) + far + 1, minlength=2 * far + 3)
    assert chisquare(found, expected).pvalue > CHANCE


def test_neighbours_have_the_same_possible_answers():
    """The last digits of floating-point noise told 0 from 1; whole numbers have none."""
    for value in (0, 1):
        answers = value + noise.laplace(1.0, N).astype(np.float64)
        assert set(range(-5, 6)) <= set(answers.tolist())
        np.testing.assert_array_equal(answers, answers.round())


@pytest.mark.parametrize("epsilon", [noise.MIN_EPSILON, noise.MAX_EPSILON])
def test_the_smallest_and_the_largest_epsilon_fit_into_64_bits(epsilon):
    size = np.abs(noise.laplace(epsilon, 2000))
    mean = 1 / np.sinh(epsilon) if epsilon < 1 else 0
    assert mean / 1.2 <= size.mean() <= mean * 1.2


def test_gaussian_noise_is_normal_with_a_deviation_of_the_unit():
    drawn = noise.gaussian(N)
    assert drawn.dtype == np.int64
    assert kstest(drawn / noise.UNIT, "norm").pvalue > CHANCE


@pytest.mark.parametrize("a", [0, 1, 7, 8, 20])
def test_exponentials_of_fractions(a):
    happens = noise._bernoulli_exp(np.full(N, a), 3)
    p = np.exp(-a / 8)
    assert happens.mean() == pytest.approx(p, abs=6 * np.sqrt(p * (1 - p) / N))


def test_no_seed_repeats_it(monkeypatch):
    np.random.seed(0)  # noqa: NPY002
    first = noise.laplace(0.1, 50)
    np.random.seed(0)  # noqa: NPY002
    assert (noise.laplace(0.1, 50) != first).any()
    asked = []
    monkeypatch.setattr(noise.os, "urandom", lambda n: asked.append(n) or bytes(n))
    noise._words(5)
    assert asked == [40]


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 1e-7, 1e7, float("nan")])
def test_an_epsilon_without_noise_is_refused(epsilon):
    with pytest.raises(ValueError, match="no noise is made"):
        noise.laplace(epsilon, 3)
