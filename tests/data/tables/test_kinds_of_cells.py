"""What a cell says, whatever read it."""

import datetime
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.data.tables.cells import canonical, factor, floats, order
from pfedfair.data.tables.dates import column_of, part_of, parts_of
from pfedfair.data.tables.formats import DateFormat, infer

CODES = st.lists(st.integers(-5, 400), min_size=1, max_size=30)


@given(CODES, st.sampled_from([int, float, str, "text", "object", "category", "Int64"]))
def test_a_code_is_a_code_however_it_was_read(codes, kind):
    column = pd.Series(codes)
    column = column.map(" {}.0 ".format) if kind == "text" else column.astype(kind)
    found, words = factor(column)
    assert [words[code] for code in found] == [str(code) for code in codes]


@given(st.lists(st.none() | st.integers(0, 9), min_size=1, max_size=20))
def test_a_blank_cell_says_nothing_about_the_others(cells):
    """Pandas reads whole numbers as 1.0 where a cell is blank."""
    text = "code\n" + "\n".join("?" if c is None else str(c) for c in cells) + "\n"
    read = pd.read_csv(StringIO(text), na_values=["?"])["code"]
    found, words = factor(read)
    assert [None if code < 0 else words[code] for code in found] == [
        None if c is None else str(c) for c in cells
    ]
    np.testing.assert_array_equal(
        floats(pd.read_csv(StringIO(text))["code"]), [np.nan if c is None else c for c in cells]
    )


@pytest.mark.parametrize(
    ("cell", "word"),
    [
        (None, None), (np.nan, None), (pd.NA, None), (pd.NaT, None), ("", None), ("  ", None),
        ("?", None), ("NaN", None), (np.bool_(True), "True"), ("false", "False"), (-0.0, "0"),
        ("-07", "-7"), (np.float32(2), "2"), (1e300, str(int(1e300))), (0.25, "0.25"),
        (".25", "0.25"), ("1e5", "1e5"), ("12345678901234567890", "12345678901234567890"),
        ("A1", "A1"), (" red ", "red"), ("None", None), (np.inf, "inf"),
        (datetime.date(2024, 1, 31), "2024-01-31"),
    ],
)  # fmt: skip
def test_canonical(cell, word):
    assert canonical(cell) == word


def test_words_sort_with_numbers_first_by_size():
    words = ["b", "10", "9", "-1", "0.5", "a"]
    assert sorted(words, key=order) == ["-1", "0.5", "9", "10", "a", "b"]


def test_words_and_infinite_numbers_are_no_numbers():
    column = pd.Series(["1", 2, "x", None, "-inf", " 3.5 ", True])
    np.testing.assert_array_equal(floats(column)[:6], [1, 2, np.nan, np.nan, np.nan, 3.5])
    np.testing.assert_array_equal(floats(pd.Series([1.0, np.inf, np.nan])), [1, np.nan, np.nan])
    seconds = floats(pd.Series(pd.to_timedelta(["1min", None])))
    np.testing.assert_array_equal(seconds, [60, np.nan])


def test_lists_are_refused():
    with pytest.raises(pff.InputError, match="Column 'c' holds lists"):
        factor(pd.Series([[1], [2]], name="c"))


TIMES = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1))


@given(st.lists(TIMES, min_size=1, max_size=10), st.booleans())
def test_dates_have_the_parts_that_python_says(times, text):
    column = pd.Series(times)
    column = column.map(str) if text else column
    frame = pd.DataFrame({"t": column})
    assert column_of(frame, "t (month)").tolist() == [t.month for t in times]
    assert column_of(frame, "t (weekday)").tolist() == [f"{t:%A}" for t in times]
    assert column_of(frame, "t (hour)").tolist() == [t.hour for t in times]
    year = column_of(frame, "t (year)")
    assert np.floor(year).tolist() == [t.year for t in times]
    np.testing.assert_allclose(
        (year % 1) * 366, [t.timetuple().tm_yday - 1 for t in times], 0, 1e-6
    )
    assert column_of(frame, "t (second)") is None


def test_only_dates_are_dates():
    def found(words):
        return infer(pd.DataFrame({"d": pd.Series(words, dtype=str)}), ["d"])[0].columns.get("d")

    iso = ["2024-01-31", "2023/12/01", "2024-01-31 10:00", "2024-01-31T10:00:00+02:00"]
    assert found(iso) == DateFormat("ymd")
    assert found(["31.01.2024", "1.2.2023 10:30"]) == DateFormat("dmy")
    assert found(["01/31/2024", "02/03/2024"]) == DateFormat("mdy")
    assert found(["31/01/2024", "02/03/2024"]) == DateFormat("dmy")
    for words in ([], ["2024-01-31", "late"], ["2024-13-01"], ["01/02/2024", "03/04/2024"]):
        assert found(words) is None


def test_parts_that_are_the_same_for_all_are_left_out():
    column = pd.Series(["2024-01-01", "2024-01-08", None])
    assert parts_of(column) == ["year"]
    assert parts_of(column, every=True) == ["year", "month", "weekday"]
    assert "hour" in parts_of(pd.Series(["2024-01-01 10:00", "2024-01-01 11:00"]))
    assert part_of(column, "weekday").isna().tolist() == [False, False, True]
