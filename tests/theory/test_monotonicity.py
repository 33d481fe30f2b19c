"""Thresholds that do what any chances did, bin by bin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfedfair.theory.monotonicity import same_rate, same_rates


def positive(cut, bins):
    """The chance of a positive decision in each bin, whose rows all have its middle's score."""
    low, high, chance, below = cut
    assert 0 <= low <= high <= bins
    assert 0 <= below <= 1
    assert 0 <= chance <= 1 + 1e-12
    at = np.arange(bins) + 0.5
    return np.where(at >= high, 1.0, np.where(at >= low, chance, below))


def draw(seed, bins, empty=0.0, certain=False):
    """Masses, eta that rises over the bins, and some chances."""
    rng = np.random.default_rng(seed)
    mass = rng.gamma(0.5, size=bins)
    mass[rng.random(bins) < empty] = 0
    mass = mass / mass.sum() if mass.sum() > 0 else np.full(bins, 1 / bins)
    eta = np.sort(rng.random(bins))
    chances = rng.random(bins)
    return mass, eta, chances.round() if certain else chances


bins_and_seeds = given(
    bins=st.integers(1, 40),
    empty=st.sampled_from([0.0, 0.5]),
    certain=st.booleans(),
    seed=st.integers(0, 9999),
)


@bins_and_seeds
@settings(deadline=None, max_examples=200)
def test_same_rate_is_kept_and_nothing_is_more_accurate(bins, empty, certain, seed):
    mass, eta, chances = draw(seed, bins, empty, certain)
    cut = same_rate(chances, mass)
    assert cut.high - cut.low <= 1  # random draws in one bin
    found = positive(cut, bins)
    assert (np.diff(found) >= 0).all()
    assert found @ mass == pytest.approx(chances @ mass, abs=1e-9)
    right = [(mass * (p * eta + (1 - p) * (1 - eta))).sum() for p in (found, chances)]
    assert right[0] >= right[1] - 1e-9


@pytest.mark.parametrize("mass", [[0.5, 0.3, 0.2], [0.0, 1.0, 0.0], [0.4, 0.0, 0.6]])
def test_all_rows_and_none(mass):
    mass = np.array(mass)
    for rate in (0.0, 1.0):
        found = positive(same_rate(np.full(3, rate), mass), 3)
        assert found @ mass == pytest.approx(rate)
    both = mass * [0.2, 0.5, 0.9], mass * [0.8, 0.5, 0.1]
    true, false = (m / m.sum() for m in both)
    for rate in (0.0, 0.35, 1.0):
        found = positive(same_rates(np.full(3, rate), false, true), 3)
        assert (found @ false, found @ true) == pytest.approx((rate, rate))


def labels(mass, eta):
    """The masses of rows with label 0 and 1, each adding up to 1."""
    both = mass * (1 - eta), mass * eta
    return [m / m.sum() if m.sum() > 0 else m for m in both]


@bins_and_seeds
@settings(deadline=None, max_examples=300)
def test_same_rates_are_kept_between_the_curve_and_the_diagonal(bins, empty, certain, seed):
    """Rising chances favour label 1, so their rates are above the diagonal."""
    mass, eta, chances = draw(seed, bins, empty, certain)
    negative, true = labels(mass, 0.01 + 0.98 * eta)
    chances = np.sort(chances)
    found = positive(same_rates(chances, negative, true), bins)
    assert found @ negative == pytest.approx(chances @ negative, abs=1e-7)
    assert found @ true == pytest.approx(chances @ true, abs=1e-7)


@bins_and_seeds
@settings(deadline=None, max_examples=300)
def test_same_rates_at_any_point_inside(bins, empty, certain, seed):
    """A point of the ROC curve, mixed with random draws for all rows: any point of the region."""
    mass, eta, _ = draw(seed, bins, empty)
    negative, true = labels(mass, 0.01 + 0.98 * eta)
    rng = np.random.default_rng(seed)
    threshold, weight, rate = rng.uniform(0, bins), rng.random(), rng.random()
    if certain:  # on the curve itself
        weight = 1.0
    curve = np.clip(np.arange(1, bins + 1) - threshold, 0, 1)
    chances = weight * curve + (1 - weight) * rate
    found = positive(same_rates(chances, negative, true), bins)
    assert found @ negative == pytest.approx(chances @ negative, abs=1e-7)
    assert found @ true == pytest.approx(chances @ true, abs=1e-7)


@given(st.integers(2, 30), st.integers(0, 999))
@settings(deadline=None)
def test_a_threshold_stays_a_threshold(bins, seed):
    """Chances 0 below a bin and 1 above it are on the curve: no random draw for those below."""
    mass, eta, _ = draw(seed, bins)
    rng = np.random.default_rng(seed)
    edge, chance_below = rng.integers(bins), rng.random()
    chances = (np.arange(bins) > edge).astype(float)
    chances[edge] = chance_below
    negative, true = labels(mass, 0.01 + 0.98 * eta)
    cut = same_rates(chances, negative, true)
    np.testing.assert_allclose(positive(cut, bins) @ mass, chances @ mass, atol=1e-7)
    assert cut.below == pytest.approx(0, abs=1e-6)
    single = same_rate(chances, mass)
    np.testing.assert_allclose(positive(single, bins), chances, atol=1e-9)


@given(st.integers(1, 20), st.floats(0, 1), st.integers(0, 99))
@settings(deadline=None)
def test_a_useless_score(bins, rate, seed):
    """The same eta in all bins: the curve is the diagonal."""
    mass, _, _ = draw(seed, bins)
    chances = np.full(bins, rate)
    found = positive(same_rates(chances, mass, mass), bins)
    assert found @ mass == pytest.approx(rate, abs=1e-7)
