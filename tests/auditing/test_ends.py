"""Intervals of an audit: how often they have the truth in them, and numbers by hand."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, norm

from pfedfair import metrics
from pfedfair.auditing import ends
from pfedfair.metrics import intervals

Z = intervals.quantile(0.95)
RATES = np.arange(1, 10) / 10


@pytest.mark.parametrize(("n", "m"), [(5, 5), (5, 20), (10, 10), (20, 100)])
def test_coverage_of_a_ratio(n, m):
    """Exact: every outcome of two binomials, weighted by its chance."""
    x, y = np.meshgrid(np.arange(n + 1), np.arange(m + 1), indexing="ij")
    low, high = ends.ratio(x, np.array(n), y, np.array(m), Z)
    far, near = ends.folded_ratio(low, high)
    found, folded = [], []
    for p, q in product(RATES, repeat=2):
        chance = np.outer(binom.pmf(np.arange(n + 1), n, p), binom.pmf(np.arange(m + 1), m, q))
        found.append(chance[(low <= p / q + 1e-9) & (p / q - 1e-9 <= high)].sum())
        size = min(p / q, q / p)
        folded.append(chance[(far <= size + 1e-9) & (size - 1e-9 <= near)].sum())
    assert 0.93 <= np.mean(found) <= 0.97
    assert min(found) >= 0.90
    assert np.mean(folded) >= np.mean(found)


def test_a_ratio_at_its_edges():
    hits, number = np.array([0, 4, 10, 0]), np.array([10, 10, 10, 0])
    low, high = ends.ratio(hits, number, np.array([5, 0, 10, 5]), np.array([10, 10, 10, 10]), Z)
    assert low[0] == 0
    assert high[0] < 1
    assert high[1] == np.inf
    assert low[1] > 1
    assert low[2] < 1 < high[2]
    assert np.isnan([low[3], high[3]]).all()
    far, near = ends.folded_ratio(low, high)
    assert far[1] == 0
    assert near[1] == pytest.approx(1 / low[1])
    assert near[2] == 1


@pytest.mark.parametrize("far", [0.0, 0.8, 2.0])
def test_coverage_of_an_area(far):
    rng, times = np.random.default_rng(0), 2000
    truth = norm.cdf(far / np.sqrt(2))
    one, other = rng.normal(far, 1, (times, 5, 1)), rng.normal(0, 1, (times, 1, 25))
    low, high = ends.area((one > other).mean((1, 2)), np.full(times, 5), np.full(times, 25), Z)
    assert 0.93 <= ((low <= truth) & (truth <= high)).mean() <= 0.98


FLIPS = {
    "none": ((0.3, 0.3), (0.3, 0.3), 0.1, 0.1),
    "the gap remains": ((0.2, 0.5), (0.5, 0.8), 0.1, 0.1),
    "the gap shrinks": ((0.2, 0.5), (0.5, 0.8), (0.25, 0.0), (0.0, 0.25)),
}


@pytest.mark.parametrize("name", FLIPS)
def test_coverage_of_the_difference_of_two_gaps(name):
    """Two groups, two labels; the second model turns some of the first one's decisions around."""
    rng, number = np.random.default_rng(0), np.array([[20, 15], [40, 30]])
    *rates, first, second = FLIPS[name]
    cells = np.zeros((2, 2, 2, 2))
    for s, y in product((0, 1), repeat=2):
        p, flip = rates[s][y], np.broadcast_to((first, second)[s], 2)
        cells[s, y] = [[(1 - p) * (1 - flip[0]), (1 - p) * flip[0]],
                       [p * flip[1], p * (1 - flip[1])]]  # fmt: skip
    flat = cells.reshape(2, 2, 4)
    counts = np.array([[[rng.multinomial(number[s, y], flat[s, y]) for y in (0, 1)] for s in (0, 1)]
                       for _ in range(250)]).reshape(-1, 2, 2, 2, 2)  # fmt: skip
    found = ends.gap_difference(counts, np.random.default_rng(1))
    expected = cells * number[..., None, None]
    one, other = metrics.measure(expected.sum(-1)), metrics.measure(expected.sum(-2))
    for gap in ("ddp", "eo", "eopp"):
        low, high = found[gap]
        truth = other[gap] - one[gap]
        assert ((low <= truth + 1e-9) & (truth <= high + 1e-9)).mean() >= 0.9, gap
