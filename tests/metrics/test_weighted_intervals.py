"""Intervals of weighted rows: against the textbook's variance, and how often they have the truth.

Weights that go with decisions are the hard case: a row that says yes also weighs more.
"""

import numpy as np
import pytest

from pfedfair import metrics
from pfedfair.metrics import intervals
from pfedfair.metrics.weights import effective, kish, moments_of

Z = intervals.quantile(0.95)


def test_without_weights_all_numbers_are_those_of_the_counts():
    """Exactly, not to rounding."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, [[12], [5000], [10**7]], (3, 4000))
    hits = (rng.random(rows.shape) * (rows + 1)).astype(np.int64)
    found = effective(moments_of(hits), moments_of(rows))
    np.testing.assert_array_equal(found[0], hits)
    np.testing.assert_array_equal(found[1], rows)
    np.testing.assert_array_equal(kish(moments_of(rows)), rows)
    counts = rng.integers(0, 30, (40, 3, 2, 2))
    one, other = (metrics.confidence_intervals(counts, moments=moments)
                  for moments in (None, moments_of(counts)))  # fmt: skip
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


def moments(hit, weight):
    """Moments of hits and of all rows, along the last axis."""
    powers = np.stack([weight**0, weight, weight**2])
    return (powers * hit).sum(-1), powers.sum(-1)


def drawn(rng, rate, spread, tilt, shape):
    """Decisions, lognormal weights that are e^tilt larger for hits, and the weighted rate."""
    hit = rng.random(shape) < rate
    weight = np.exp(spread * rng.normal(size=shape) + tilt * hit)
    odds = rate / (1 - rate) * np.exp(tilt)
    return hit, weight, odds / (1 + odds)


def test_the_variance_is_the_linearised_one():
    """Sum of w^2 (d - R)^2 over the squared sum of weights, with many rows."""
    for rate, tilt in ((0.1, 1.0), (0.5, -1.0), (0.9, 0.3)):
        hit, weight, _ = drawn(np.random.default_rng(1), rate, 0.7, tilt, 200_000)
        r = np.average(hit, weights=weight)
        variance = (weight**2 * (hit - r) ** 2).sum() / weight.sum() ** 2
        x, n = effective(*moments(hit, weight))
        assert x / n == pytest.approx(r)
        assert r * (1 - r) / n == pytest.approx(variance, rel=0.01)


@pytest.mark.parametrize(("spread", "least"), [(0.1, 0.9), (1.0, 0.45)])
def test_a_rate_of_0_or_1_has_a_number_near_kishs(spread, least):
    """Its linearised variance is 0."""
    weight = np.exp(spread * np.random.default_rng(2).normal(size=60))
    number = weight.sum() ** 2 / (weight**2).sum()
    for hit in (np.zeros(60, dtype=bool), np.ones(60, dtype=bool)):
        x, n = effective(*moments(hit, weight))
        assert x in (0, n)
        assert least * number < n <= 1.05 * number
    assert kish(moments(hit, weight)[1]) == pytest.approx(number)


def test_no_rows_and_the_unit_of_weights():
    empty = np.zeros((3, 2))
    assert [part.tolist() for part in effective(empty, empty)] == [[0, 0], [0, 0]]
    hit, weight, _ = drawn(np.random.default_rng(3), 0.3, 1.0, 1.0, 50)
    one, other = effective(*moments(hit, weight)), effective(*moments(hit, 1000 * weight))
    np.testing.assert_allclose(one, other)


@pytest.mark.parametrize("spread", [0.5, 1.0])
@pytest.mark.parametrize(("rate", "tilt"), [(0.1, 1.0), (0.1, 0.0), (0.3, 1.0), (0.5, 1.0),
                                            (0.3, -1.0)])  # fmt: skip
def test_coverage_with_weights_that_go_with_decisions(rate, tilt, spread):
    """At least 93 % of rates and of gaps at 200 rows a group, where Kish's number has 84 to 93."""
    rng = np.random.default_rng(4)
    hit, weight, truth = drawn(rng, rate, spread, tilt, (2, 3000, 200))
    x, n = effective(*moments(hit, weight))
    low, high = intervals.rate(x, n, Z)
    assert ((low <= truth) & (truth <= high)).mean() >= 0.93
    low, high = intervals.difference(x[0], n[0], x[1], n[1], Z)
    assert ((low <= 0) & (high >= 0)).mean() >= 0.93


def test_kishs_number_is_too_large_where_hits_weigh_more():
    """And too small where they weigh less: intervals are shorter then."""
    for tilt, longer in ((1.0, True), (-1.0, False)):
        hit, weight, _ = drawn(np.random.default_rng(5), 0.1, 0.5, tilt, (500, 200))
        found, rows = effective(*moments(hit, weight))[1], kish(moments(hit, weight)[1])
        assert ((found < rows).mean() > 0.95) == longer
        assert ((found > rows).mean() > 0.95) != longer


def test_intervals_of_weighted_groups():
    """All that `confidence_intervals` returns, by the moments of the rows it is about."""
    rng = np.random.default_rng(6)
    s, y, decided = rng.integers(2, size=(3, 400))
    weight = np.exp(rng.normal(size=400) + decided)
    tallied = metrics.tally(s, y, decided, 2, 2, weight)
    found = metrics.confidence_intervals(tallied[1], moments=tallied)
    for z in (0, 1):
        own = s == z
        ends = intervals.rate(*effective(*moments(decided[own] == 0, weight[own])), Z)
        np.testing.assert_allclose([found[f"npr_s{z}_{end}"] for end in ("low", "high")], ends)
    ends = intervals.rate(*effective(*moments(y == decided, weight)), Z)
    np.testing.assert_allclose([found["accuracy_low"], found["accuracy_high"]], ends)
    parts = [effective(*moments(decided[own], weight[own])) for own in
             ((s == 0) & (y == 1), (s == 1) & (y == 1))]  # fmt: skip
    ends = intervals.fold(*intervals.difference(*parts[0], *parts[1], Z))
    np.testing.assert_allclose([found["eopp_low"], found["eopp_high"]], ends, atol=1e-8)
    assert found["eopp_people"] == int(min(parts[0][1], parts[1][1]))
