"""Rare values are pooled before training and before a table is described."""

import json
from collections import Counter

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.data.tables.cells import floats
from pfedfair.data.tables.piecewise import Numbers, Piecewise
from pfedfair.engines.site.rare_values import (
    pool_codes,
    pool_numbers,
    pool_rare_values,
    training_rows,
)
from pfedfair.engines.site.schema import agree, describe


@given(st.lists(st.integers(-1, 6), min_size=1, max_size=60), st.integers(2, 12))
def test_nobody_is_alone_in_a_category(cells, least):
    codes = np.array(cells)
    found = pool_codes(codes, 7, least)
    assert min(Counter(found.tolist()).values()) >= min(least, len(codes))
    kept = Counter(cells)
    for cell, new in zip(cells, found.tolist(), strict=True):
        if kept[cell] >= least:
            assert new == cell  # values of enough rows stay
    np.testing.assert_array_equal(pool_codes(found, 7, least), found)


MESSY = (
    st.none()
    | st.integers(0, 3)
    | st.sampled_from([float("inf"), -1e300, 1e300, 5e-324, -0.0, 1e16, 1e16 + 2])
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.floats(0, 1)
)


@given(st.lists(MESSY, min_size=1, max_size=90), st.integers(2, 12), st.randoms())
def test_no_number_is_that_of_fewer_rows_than_asked_for(cells, least, random):
    """Missing values too, whatever is in the column; and it does not depend on the rows' order."""
    values = floats(pd.Series([np.nan if cell is None else cell for cell in cells], dtype=float))
    found = pool_numbers(values, least)
    counted = Counter(np.where(np.isnan(found), "missing", found).tolist())
    assert len(counted) == 1 or min(counted.values()) >= least
    np.testing.assert_array_equal(pool_numbers(found, least), found)
    order = list(range(len(values)))
    random.shuffle(order)
    np.testing.assert_array_equal(pool_numbers(values[order], least), found[order])


@given(
    st.lists(st.integers(0, 6) | st.floats(-1e6, 1e6), min_size=30, max_size=90),
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40, unique=True),
)
def test_no_knots_and_no_scale_tell_fewer_rows_apart(cells, knots):
    values = pool_numbers(np.array(cells, dtype=float), 10)
    column = Numbers(tuple(sorted(knots)), (0.0,) * (len(knots) - 1), 0.0)
    scaled = ((values - knots[0]) / 1e-9).astype(np.float32)
    for inputs in (column.positions(pd.Series(values)).astype(np.float32), scaled):
        assert min(Counter(inputs.tolist()).values()) >= 10


def test_rows_of_a_rare_label_or_group_are_not_trained_on():
    frame = pd.DataFrame({"x": range(40), "s": ["f"] * 15 + ["m"] * 15 + ["x"] * 10})
    frame["y"] = ["no"] * 35 + ["yes"] * 5  # all of them of group x, of which five are left
    data = pff.from_frame(frame, "y", "s", keep=["x"], part=True)
    assert len(training_rows(data, np.arange(40), 10)) == 30
    assert len(training_rows(data, np.arange(40), 1)) == 40
    found = describe(data, np.arange(40), "a", 0, "")
    assert (found.rows, found.labels, found.groups) == (30, ("no",), ("f", "m"))


def table(n=60, encoding="piecewise"):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"bill": 0.0, "age": rng.integers(20, 60, n).astype(float)}, range(n))
    frame.loc[5, "bill"] = 98765.0
    frame["illness"] = rng.choice(["none", "cold"], n)
    frame.loc[7, "illness"] = "HIV+, born 1961"
    frame["weight"] = np.where(np.arange(n) < 3, 71.5, np.nan)
    frame = frame.assign(y=np.arange(n) % 2, s=np.arange(n) // 2 % 2)
    return pff.from_frame(frame, "y", "s", encoding=encoding, part=True)


def test_what_sites_describe_gives_nearly_the_same_knots():
    rng, n = np.random.default_rng(0), 4000
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.integers(0, 5, n).astype(float)})
    frame["b"] = frame["b"].where(rng.random(n) < 0.9)
    frame["c"] = rng.choice(["x", "y", "z"], n, p=[0.7, 0.28, 0.02])
    data = pff.from_frame(frame.assign(y=np.arange(n) % 2, s=np.arange(n) // 2 % 2), "y", "s")
    found = [describe(data, rows, str(k), k, "") for k, rows in
             enumerate(np.array_split(np.arange(n), 8))]  # fmt: skip
    found, whole = agree(found)[0].encoder, Piecewise.fit(data, np.arange(n))
    assert found.numbers["b"].knots == whole.numbers["b"].knots
    assert found.categories["c"].names == whole.categories["c"].names
    knots = [np.array(encoder.numbers["a"].knots) for encoder in (found, whole)]
    shares = [(frame["a"].to_numpy()[:, None] <= each).mean(0) for each in knots]
    assert len(shares[0]) == len(shares[1])
    assert abs(shares[0] - shares[1]).max() < 0.02


def test_a_description_has_no_value_of_a_single_row():
    for encoding in ("piecewise", "standard"):
        text = describe(table(encoding=encoding), np.arange(60), "a", 0, "").to_json()
        assert "HIV" not in text
        assert "98765" not in text
        assert "71.5" not in text
        assert "(few)" not in text
    sums = json.loads(text)["numbers"]
    assert sums["bill"] == [0.0, 0.0, 60]
    assert sums["weight"] == [0.0, 0.0, 0]  # three of sixty have one


def test_rows_for_the_test_stay_as_they_are():
    data = table()
    train = np.arange(0, 60, 2)
    names = [*data.numeric], [*data.categorical]
    new = pool_rare_values(data, [train], 10, names)
    test = np.arange(1, 60, 2)
    for column in ("bill", "illness", "age"):
        assert new.frame[column].iloc[test].tolist() == data.frame[column].iloc[test].tolist()
    assert set(new.frame["illness"].iloc[train]) == {"none", "cold"}
    assert pool_rare_values(data, [train], 1, names) is data
