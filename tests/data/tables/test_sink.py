"""Tables that are written part by part."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas._libs.parsers import STR_NA_VALUES

import pfedfair as pff
from pfedfair._util.text import escape_formulas
from pfedfair.data.tables.cells import MISSING, factor, written
from pfedfair.data.tables.reading import open_table
from pfedfair.data.tables.sink import FORM, check_output, sink

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


def test_copied_cells_are_as_they_were_written_also_words_for_missing_values(tmp_path):
    assert {*STR_NA_VALUES} <= {*MISSING}
    path = tmp_path / "t.csv"
    frame = pd.DataFrame({"id": MISSING, "w": MISSING, "n": MISSING, "x": 1})
    frame.to_csv(path, index=False)
    (part,) = open_table(path).parts(["id", "w", "n"], ["n"])
    assert written(part["id"]).fill_null("").to_pylist() == [*MISSING]
    assert part["n"].isna().all()
    assert (factor(part["w"])[0] == -1).all()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_is_written_part_by_part_is_read_whole(kind, tmp_path):
    path = tmp_path / f"out.{kind}"
    parts = [pd.DataFrame({"n": [1, 2], "x": [0.25, np.nan], "w": ["", "a, b"]}),
             pd.DataFrame({"n": [3], "x": [np.nan], "w": [""]})]  # fmt: skip
    with sink(path) as write:
        for part in parts:
            write(part)
        assert not path.exists()
    read = (pd.read_csv(path, keep_default_na=False, na_values={"x": [""]}) if kind == "csv"
            else pd.read_parquet(path))  # fmt: skip
    pd.testing.assert_frame_equal(read, pd.concat(parts, ignore_index=True), check_dtype=False)

    def half():
        with sink(path) as write:
            write(parts[0])
            raise RuntimeError("half")

    with pytest.raises(RuntimeError, match="half"):
        half()
    assert len(list(tmp_path.iterdir())) == 1


def test_outputs_that_cannot_be(tmp_path):
    there = tmp_path / "t.csv"
    there.write_text("a\n")
    cases = (tmp_path / "t.txt", (there,), "must end in"), (there, (), "t.csv exists")
    for path, inputs, message in (*cases, (there, (there,), "is the input")):
        with pytest.raises(pff.InputError, match=message):
            check_output(path, bool(inputs), *inputs)
    check_output(tmp_path / "u.CSV", False, there)
    check_output(there, True)


def test_numbers_are_written_as_pandas_would(tmp_path):
    odd = [0.1, 1.0, -0.0, 1e-7, 123456.5, 1234567.0, float("nan"), float("inf"), -1e300]
    frame = pd.DataFrame({"score": odd, "small": np.float32([*odd[:8], 2.5]), "who": "=x, y"})
    frame["rule"], frame["n"] = pd.Series(["a", None, ""] * 3, dtype=object), range(9)
    with sink(tmp_path / "out.csv") as write:
        write(frame.iloc[:5])
        write(frame.iloc[5:])
    expected = frame.assign(who="'=x, y").to_csv(index=False, float_format="%.6g")
    assert (tmp_path / "out.csv").read_text() == expected
