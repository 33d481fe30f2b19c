"""Tables that are written part by part."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas._libs.parsers import STR_NA_VALUES

from pfedfair._util.text import escape_formulas
from pfedfair.data.tables.sink import FORM, sink
from pfedfair.data.tables.stream import EMPTY, Rows

WORDS = st.text(st.sampled_from('ab,"\r\n=+-@\t 1é')) | st.sampled_from(["", "-5", "=1+1", "x"])
NUMBERS = st.floats() | st.floats(0, 1)


def test_decimal_numbers_of_all_kinds_have_six_digits(tmp_path):
    some = [1 / 3, None, 123456789.0]
    frame = pd.DataFrame({
        "numpy": np.array([1 / 3, np.nan, np.inf]),
        "nullable": pd.array(some, dtype="Float64"),
        "arrow": pd.array(some, dtype="double[pyarrow]"),
        4: np.array([0.1, 2, -1e-300], dtype=np.float64),
    })  # fmt: skip
    with sink(tmp_path / "out.csv") as write:
        write(frame)
        write(frame.iloc[:1])
    first = "0.333333,0.333333,0.333333,0.1"
    expected = ["numpy,nullable,arrow,4", first, ",,,2", "inf,1.23457e+08,1.23457e+08,-1e-300"]
    assert (tmp_path / "out.csv").read_text().splitlines() == [*expected, first]
    assert frame["numpy"].dtype == np.float64  # the caller's table is as it was


@given(st.lists(st.tuples(WORDS, WORDS, NUMBERS, st.integers(-9, 10**12)), min_size=1))
def test_lines_are_what_pandas_writes(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("sink") / "out.csv"
    frame = pd.DataFrame(rows, columns=["=a", "b,b", "c", "d"])
    frame["c"] = frame["c"].astype(float)
    expected = escape_formulas(frame).copy()
    expected["c"] = ["" if value != value else FORM % value for value in frame["c"]]
    for kind in (object, "str", "category"):
        with sink(path) as write:
            write(frame.astype({"=a": kind, "b,b": kind}))
        assert path.read_bytes() == expected.to_csv(index=False).encode()


@pytest.mark.parametrize("column", [
    [True, False], pd.array([1, None], dtype="Int64"), ["a", None], [1, "a"],
    pd.Categorical(["a", None]), pd.Categorical([1, 2]), pd.array([0.5, None], dtype="Float64"),
], ids=str)  # fmt: skip
def test_other_columns_are_as_in_pandas(tmp_path, column):
    frame = pd.DataFrame({"a": column, "b": [1, 2]})
    with sink(tmp_path / "out.csv") as write:
        write(frame)
    assert (tmp_path / "out.csv").read_text() == frame.to_csv(index=False)


def test_what_is_copied_stays_as_it_was_written_also_words_for_missing_values(tmp_path):
    assert set(EMPTY) == set(STR_NA_VALUES)
    path = tmp_path / "t.csv"
    pd.DataFrame({"id": EMPTY, "w": EMPTY, "n": EMPTY, "x": 1}).to_csv(path, index=False)
    for copied in (["id"], ["id", "n"]):  # once it is read in one go, once in two
        ((frame, copy),) = Rows.open(path).parts(["w", "n"], {"w"}, copied)
        assert list(copy["id"]) == list(EMPTY)
        assert frame.isna().all(axis=None)
