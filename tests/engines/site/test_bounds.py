"""Descriptions that lie: refused by the site's name, or counted for no more than they should."""

import logging
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import pfedfair as pff
from pfedfair.data.tables.summary import Values
from pfedfair.engines.site.bounds import (
    FAR,
    bound_descriptions,
    bound_weights,
    find_unbelievable,
    moments,
)
from pfedfair.engines.site.schema import agree, describe


def sites(encoding, n=5, rows=200):
    """Sites whose columns are alike, a site for each 200 rows."""
    rng = np.random.default_rng(0)
    found = []
    for i in range(n):
        x = rng.normal(40, 10, rows)
        frame = pd.DataFrame({"x": x, "colour": rng.choice(["red", "blue"], rows)})
        frame = frame.assign(y=np.arange(rows) % 2, s=np.arange(rows) // 2 % 2)
        data = pff.from_frame(frame, "y", "s", part=True, encoding=encoding)
        found.append(describe(data, np.arange(rows), f"site {i}", i, ""))
    return found


def lying(one, *, rows=None, mean=40.0, spread=10.0):
    """The same site, that says other numbers of column x."""
    rows = rows or one.rows
    if one.summary is None:
        return replace(one, rows=rows, numbers={"x": (mean * rows, spread**2 * rows, rows)})
    half = np.array([rows - rows // 2, rows // 2])
    values = Values(np.array([mean - spread, mean + spread]), half, 0)
    return replace(one, rows=rows, summary=replace(one.summary, numbers={"x": values}))


@pytest.mark.parametrize("encoding", ["standard", "piecewise"])
@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ({"rows": 10**12, "spread": 1e20}, "it says that it has 1,000,000,000,000 rows"),
        ({"rows": 10**6}, "it says that it has 1,000,000 rows, the others have 200"),
        ({"mean": 1e305, "spread": 1e150}, "column 'x' has numbers that are too large to be"),
        ({"spread": 1e20}, "column 'x' has numbers around .*, spread by 1e[+]20; the others' are"),
        ({"mean": -1e9}, "column 'x' has numbers around -1e[+]09"),
    ],
    ids=["rows and spread", "rows", "overflow", "spread", "mean"],
)
def test_a_lying_description_is_refused_by_name(encoding, lie, words):
    honest = sites(encoding)
    expected, _ = agree(honest[1:])
    schema, refused = agree([lying(honest[0], **lie), *honest[1:]])
    assert list(refused) == ["site 0"]
    assert pd.Series(refused["site 0"]).str.contains(words).item(), refused
    assert schema == expected  # the liar has left no trace


@pytest.mark.parametrize("encoding", ["standard", "piecewise"])
def test_nobody_counts_for_more_than_all_others_and_no_column_is_too_wide(encoding, caplog):
    caplog.set_level(logging.WARNING, "pfedfair")
    honest = sites(encoding)
    liar = lying(honest[0], rows=100_000, mean=9000.0, spread=9000.0)  # just below what is refused
    assert not find_unbelievable([liar, *honest[1:]])
    made, *rest = bound_descriptions([liar, *honest[1:]])
    assert rest == honest[1:]
    assert made.rows == 4 * 200
    (mean, spread), (centre, usual) = moments(made)["x"], moments(honest[1])["x"]
    assert abs(mean - centre) < 12 * usual
    assert spread < 12 * usual


@pytest.mark.parametrize("encoding", ["standard", "piecewise"])
def test_honest_sites_are_counted_as_they_are(encoding):
    honest = sites(encoding)
    assert not find_unbelievable(honest)
    assert bound_descriptions(honest) == honest
    two = [lying(honest[0], rows=10_000, mean=9.0, spread=9000.0), honest[1]]
    assert bound_descriptions(two) == two  # with two sites there is no majority
    assert bound_weights([1, 10**6]) == [1, 10**6]


def test_what_only_some_sites_have_is_no_lie():
    """Most sites have only zeros: a site with numbers is not called a liar."""
    honest = [lying(one, mean=0.0, spread=0.0) for one in sites("standard")[1:]]
    odd = lying(sites("standard")[0], mean=3.0, spread=FAR)
    assert not find_unbelievable([odd, *honest])


def test_more_cells_than_rows_long_names_and_many_categories_are_refused():
    first, *honest = sites("piecewise")
    more = replace(first, rows=100)
    long = replace(first, groups=("f" * 1000, "m"))
    named = {"red": 1} | {str(i): 0 for i in range(20_000)}
    colour = replace(first.summary.categories["colour"], counts=named)
    many = replace(first, summary=replace(first.summary, categories={"colour": colour}))
    for one, words in (
        (more, "cells in 100 rows"),
        (long, "1000 characters"),
        (many, "20,001 cat"),
    ):
        assert words in find_unbelievable([one, *honest])["site 0"]


def test_if_nobody_can_be_believed_that_is_said():
    liars = [replace(one, rows=10**12) for one in sites("standard")]
    with pytest.raises(
        pff.InputError, match=r"No site's description can be believed. Site 'site 0'"
    ):
        agree(liars)
