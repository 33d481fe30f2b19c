"""Rare numbers are replaced by those that they share with their neighbours."""

from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.data.tables.piecewise import SEGMENTS, fit_knots
from pfedfair.data.tables.summary import Values
from pfedfair.engines.site.neighbours import MOST_CELLS, _cut, pool_neighbours
from pfedfair.engines.site.rare_values import pool_numbers
from pfedfair.engines.site.rows import as_sites


def spread(x, n, cuts):
    """The squared deviations from the means of groups, in all."""
    parts = (np.repeat(x[i:j], n[i:j]) for i, j in cuts)
    return sum(float(np.square(part - part.mean()).sum()) for part in parts)


def ways(n, size):
    """All ways to put neighbours into groups of enough rows."""
    places = range(1, len(n))
    for number in range(len(n)):
        for inner in combinations(places, number):
            cuts = [*pairwise((0, *inner, len(n)))]
            if all(n[i:j].sum() >= size for i, j in cuts):
                yield cuts


@given(st.data())
def test_groups_have_the_least_spread_of_all(data):
    size = data.draw(st.integers(2, 5))
    x = np.unique(data.draw(st.lists(st.integers(-50, 50), min_size=1, max_size=11))).astype(float)
    counts = st.lists(st.integers(1, size - 1), min_size=len(x), max_size=len(x))
    n = np.array(data.draw(counts))
    if n.sum() < size:
        return
    found = _cut(x, n, size)
    assert found in list(ways(n, size))
    least = min(spread(x, n, cuts) for cuts in ways(n, size))
    assert spread(x, n, found) == pytest.approx(least, rel=1e-9, abs=1e-9)


def pooled(cells, least):
    """The distinct numbers of a pooled column, and how many rows have each."""
    return np.unique(pool_numbers(np.asarray(cells, dtype=float), least), return_counts=True)


@given(st.lists(st.integers(0, 9) | st.floats(-1e9, 1e9), max_size=80), st.integers(2, 10))
def test_each_number_is_a_value_or_a_mean_of_the_middle_of_so_many_neighbours(cells, least):
    cells = np.sort(np.array(cells, dtype=float)) + 0.0
    values, counts = pooled(cells, least)
    if len(cells) < least:
        assert np.isnan(values).all()
        return
    assert counts.min() >= least
    assert counts.sum() == len(cells)
    ends = [(i + least // 4, i + least - least // 4) for i in range(len(cells) - least + 1)]
    means = [cells[i:j].mean() for i, j in ends]
    for value in values:
        assert (cells == value).sum() >= least or value in means
    each, rows = np.unique(cells, return_counts=True)
    assert set(each[rows >= least]) <= set(values)  # they stay


def test_gaps_are_not_reached_over():
    values, counts = pooled(np.repeat([3.0, 4, 5, 900, 901, 902], 4), 10)
    assert counts.tolist() == [12, 12]  # ten from the smallest on would be all three
    assert values[0] < 6
    assert values[1] > 899


def test_one_extreme_number_does_not_move_its_neighbours():
    x = np.append(np.linspace(0, 1, 59), 1e6)
    found = pool_numbers(x, 10)
    assert found.max() < 1
    assert abs(found[:-1] - x[:-1]).max() < 0.3


def test_rare_numbers_of_a_large_site_stay_as_fine_as_others():
    rng = np.random.default_rng(0)
    x = np.where(rng.random(300_000) < 0.99, 0.0, rng.lognormal(size=300_000))
    summary = Values.of(pd.Series(pool_numbers(x, 10)))
    assert 200 < len(summary.values) <= 2 * MOST_CELLS  # groups of 300 had left ten of them
    found, whole = (np.array(fit_knots(one).knots) for one in (summary, Values.of(pd.Series(x))))
    assert len(found) == len(whole) == SEGMENTS + 2
    share = [np.searchsorted(np.sort(x[x > 0]), knots) / (x > 0).sum() for knots in (found, whole)]
    assert abs(share[0] - share[1]).max() < 0.01


@given(st.lists(st.integers(0, 30), min_size=2, max_size=80), st.integers(2, 9))
def test_numbers_keep_their_order(cells, least):
    each, counts = np.unique(np.array(cells, dtype=float), return_counts=True)
    if counts.sum() >= least:
        assert (np.diff(pool_neighbours(each, counts, least)) >= 0).all()


def test_adults_capital_gain_has_nearly_the_same_knots_at_five_sites():
    """Measured as shares of the rows with a gain, or a loss.

    Between a knot of one machine and the nearest one that five sites agree on there are at most 4 %
    of them, and 0.6 % on average; as many knots, or a few more.
    """
    data = pff.load("adult", model="additive")
    federation = data.federate(pff.partition.fixed_shares(), seed=0)
    rows = np.concatenate(federation.partition.train)
    agreed = as_sites(federation).encoder.numbers
    for column, own in federation.encoder.numbers.items():
        if not column.startswith("capital"):
            continue
        cells = data.frame[column].to_numpy()[rows]
        off = np.sort(cells[cells > 0])
        knots, others = np.array(own.knots), np.array(agreed[column].knots)
        assert others[0] == knots[0] == 0
        assert len(knots) <= len(others) <= SEGMENTS + 2
        low, high = np.minimum.outer(knots, others), np.maximum.outer(knots, others)
        between = np.searchsorted(off, high) - np.searchsorted(off, low, side="right")
        apart = between.clip(min=0).min(1)[1:] / len(off)
        assert apart.max() <= 0.04
        assert apart.mean() <= 0.006
