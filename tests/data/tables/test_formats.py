"""How the text of a table is written: inferred once, and the same for every other table."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.data.tables.formats import (
    DateFormat,
    Formats,
    NumberFormat,
    infer,
    refuse,
    with_missing_words,
)

NUMBERS = st.floats(-1e9, 1e9).map(lambda x: round(x, 3))
MARKS = [(".", ""), (".", ","), (",", "."), (",", " "), (".", "'"), (",", "'"), (".", " ")]


def written(number, decimal, thousands):
    """A number as Python writes it with these marks."""
    text = f"{number:,.3f}" if thousands else f"{number:.3f}"
    return text.translate(str.maketrans({",": thousands, ".": decimal}))


@given(st.lists(NUMBERS, min_size=1, max_size=20), st.sampled_from(MARKS))
def test_what_python_writes_is_read_by_its_format(numbers, marks):
    column = pd.Series([written(x, *marks) for x in numbers], dtype=str)
    values, odd = NumberFormat(*marks).read(column)
    np.testing.assert_array_equal(values, numbers)
    assert not odd.any()


@given(st.lists(NUMBERS, min_size=3, max_size=20), st.sampled_from(MARKS))
def test_the_format_is_inferred_where_the_numbers_show_it(numbers, marks):
    cells = [written(x, *marks) for x in (*numbers, 1234567.125, -0.5)]
    frame = pd.DataFrame({"x": pd.Series(cells, dtype=str)})
    formats, _ = infer(frame, ["x"])
    typed, odd = formats.convert(frame)
    np.testing.assert_array_equal(typed["x"], [*numbers, 1234567.125, -0.5])
    assert not odd


@pytest.mark.parametrize(
    ("cells", "separator", "expected"),
    [
        (["1,037", "12", "950"], ",", NumberFormat(".", ",")),  # of a file with commas between
        (["1,037", "12", "950"], ";", NumberFormat(",", ".")),
        (["12,5", "7"], ",", NumberFormat(",", ".")),  # nothing else can be meant
        (["1.234", "987"], ";", NumberFormat()),
        (["0.125", "0.250"], ";", NumberFormat()),
        (["001", "002"], ",", None),
        (["1E5", "2E3"], ",", None),
        (["1E5", "2.5E3"], ",", NumberFormat()),
        (["1", "2", "unknown", "unknown"], ",", NumberFormat()),
        (["1", "2", "low", "high"], ",", None),
        (["12 %", "7 %"], ",", None),
        (["inf", "1.5"], ",", NumberFormat()),
        (["2024-12-31", "2023-01-05"], ",", DateFormat()),
        (["31.12.2024", "1.2.2024"], ",", DateFormat("dmy")),
        (["12/31/2024", "1/2/2024"], ",", DateFormat("mdy")),
        (["01/02/2024", "03/04/2024"], ",", None),
    ],
    ids=str,
)
def test_a_columns_format(cells, separator, expected):
    frame = pd.DataFrame({"x": pd.Series(cells, dtype=str)})
    assert infer(frame, ["x"], separator=separator)[0].columns.get("x") == expected


def test_whole_amounts_are_as_other_columns_of_the_file_show():
    frame = pd.DataFrame({"pay": ["1.234,50", "12,25"], "amount": ["1.234", "2.000"]}, dtype=str)
    formats, notes = infer(frame, list(frame), separator=";")
    assert formats.convert(frame)[0]["amount"].tolist() == [1234, 2000]
    assert notes == (
        "Commas are decimal, 1,5 is 1.5, as in 'pay'.",
        "'.' marks thousands, 1.234 is 1234, in 'pay', 'amount'.",
    )


def test_dates_of_the_iso_form_are_read_whatever_the_training_rows_had():
    days = pd.Series(["31.12.2024", "2024-12-31", "12/31/2024", "2024-12-31 10:30", ""], dtype=str)
    values, odd = DateFormat("dmy").read(days)
    day = "2024-12-31"
    assert values.dt.strftime("%Y-%m-%d").fillna("").tolist() == [day, day, "", day, ""]
    assert odd.tolist() == [False, False, True, False, False]


def test_words_of_training_rows_are_missing_values_from_then_on():
    frame = pd.DataFrame({"x": [*map(str, range(60)), "n/k"]}, dtype=str)
    formats, _ = infer(frame, ["x"])
    typed, odd = formats.convert(frame)
    assert odd["x"].rows.sum() == 1
    assert np.isnan(typed["x"].iloc[-1])
    again = with_missing_words(formats, frame, odd)
    assert not again.convert(frame)[1]
    _, others = again.convert(pd.DataFrame({"x": ["n/k", "other"]}, dtype=str))
    assert others["x"].rows.tolist() == [False, True]
    message = r"x is 'other', no number like 1234.5 as in training, and so are 1 of 2 cells"
    with pytest.raises(pff.InputError, match=message):
        refuse(others, 2)
    assert Formats.from_dict(again.to_dict()) == again


def test_rows_that_are_left_out_are_no_missing_values(tmp_path):
    """Odd cells are counted among the rows that are used."""
    n = 200
    frame = pd.DataFrame({"a": [str(k) for k in range(n)], "s": ["f", "m"] * (n // 2),
                          "y": ["no", "yes", "yes", "no"] * (n // 4)})  # fmt: skip
    frame.loc[::50, "a"], frame.loc[:60, "s"] = "odd", ""
    frame.to_csv(tmp_path / "t.csv", index=False)
    data = pff.load(tmp_path / "t.csv", "y", "s", keep=["a"])
    assert not any("missing value" in note for note in data.notes)
    assert any("no finite numbers, and count as empty (a 2)" in note for note in data.notes)


@pytest.mark.parametrize(
    "changed",
    [
        {"decimal": ""},
        {"decimal": "(a+)+"},
        {"decimal": 1},
        {"thousands": "x"},
        {"thousands": None},
    ],
    ids=str,
)
def test_a_format_in_a_file_is_one_of_those_that_training_can_find(changed):
    about = {"x": {"decimal": ".", "thousands": "", "missing": []} | changed}
    with pytest.raises(ValueError, match="a format has"):
        Formats.from_dict(about)
    with pytest.raises(ValueError, match="a format has 'ydm'"):
        Formats.from_dict({"x": {"order": "ydm", "missing": []}})
