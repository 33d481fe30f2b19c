"""How much privacy many answers cost together."""

from math import log, sqrt

import numpy as np
import pytest

from pfedfair.engines.site.accounting import epsilon_of

Z = sqrt(2 * log(1.25 / 1e-5)) / 0.5  # the noise of one answer of epsilon 0.5 and delta 1e-5


@pytest.mark.parametrize(
    ("gaussian", "laplace", "delta", "expected"),
    [
        ({Z: 20}, {}, 1e-5, 1.8229149),
        ({Z: 20}, {}, 2e-4, 1.4589726),  # and not 20 times 0.5
        ({Z: 1}, {}, 1e-5, 0.3525725),
        ({}, {0.5: 20}, 1e-5, 9.1055437),
        ({}, {1.0: 1}, 1e-5, 0.9999800),
        ({Z: 20}, {1.0: 3}, 1e-5, 4.5979843),
        ({}, {0.1: 400}, 1e-5, 9.7392069),
    ],
    ids=str,
)
def test_it_is_what_googles_accountant_says(gaussian, laplace, delta, expected):
    """Numbers of dp-accounting 0.6.0, PLDAccountant with steps of 1e-4."""
    found = epsilon_of(gaussian, laplace, delta)
    assert found == pytest.approx(expected, rel=2e-3)
    if not laplace:
        assert found == pytest.approx(expected, abs=1e-6)


def test_it_is_never_too_small():
    """By many draws of the losses themselves."""
    rng = np.random.default_rng(0)
    mu, n = sqrt(5) / 3, 400_000
    loss = rng.normal(mu**2 / 2, mu, n)
    for _ in range(3):
        x = rng.laplace(0, 1 / 0.4, n)
        loss += 0.4 * (np.abs(x - 1) - np.abs(x))
    epsilon = epsilon_of({3.0: 5}, {0.4: 3}, 0.01)
    excess = np.maximum(0, -np.expm1(epsilon - loss))
    assert excess.mean() == pytest.approx(0.01, abs=5 * excess.std() / sqrt(n))


def test_nothing_costs_nothing_and_one_pure_answer_its_epsilon():
    assert epsilon_of({}, {}, 1e-5) == 0.0
    assert epsilon_of({}, {0.3: 1}, 1e-12) == pytest.approx(0.3, abs=1e-6)
    assert epsilon_of({1e6: 1}, {}, 1e-5) == 0.0
    assert 800 < epsilon_of({}, {5.0: 200}, 1e-5) < 1000  # at the most what they add up to
