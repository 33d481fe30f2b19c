"""Lines of CSV: the bytes that pandas writes."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas._libs.parsers import STR_NA_VALUES

from pfedfair._util.text import inert
from pfedfair.data.tables.lines import FORM, decimals, lines
from pfedfair.data.tables.stream import EMPTY, Rows

WORDS = st.text(st.sampled_from('ab,"\r\n=+-@\t 1é')) | st.sampled_from(["", "-5", "=1+1", "x"])
NUMBERS = st.floats() | st.floats(0, 1) | st.integers(0, 10**7).map(lambda n: n / 10**7 + 5e-8)


@given(st.lists(NUMBERS, min_size=1))
def test_decimal_numbers_are_as_python_writes_them(values):
    expected = ["" if value != value else FORM % value for value in values]
    assert decimals(np.array(values, dtype=float)).to_pylist() == expected


def test_very_many_numbers_and_those_at_the_edges():
    rng = np.random.default_rng(0)
    edges = [0.0, -0.0, 1.0, 0.1, 0.01, 1e-3, 1e-4, 0.09999996, 0.99999951, 1e-4 - 1e-12, 0.5, -0.5]
    values = np.concatenate([rng.random(50_000), 10 ** rng.uniform(-7, 3, 50_000), edges,
                             rng.integers(0, 10**7, 50_000) / 1e7 + 5e-8])  # fmt: skip
    assert decimals(values).to_pylist() == [FORM % value for value in values.tolist()]


@given(st.lists(st.tuples(WORDS, WORDS, NUMBERS, st.integers(-9, 10**12)), min_size=1))
def test_lines_are_what_pandas_writes(rows):
    frame = pd.DataFrame(rows, columns=["a", "b", "c", "d"])
    frame["c"] = frame["c"].astype(float)
    plain = inert(frame).copy()
    plain["c"] = ["" if value != value else FORM % value for value in frame["c"]]
    expected = plain.to_csv(index=False, header=False).encode()
    for kind in (object, "str", "category"):
        made = frame.astype({"a": kind, "b": kind})
        assert lines(made).to_pybytes() == expected


@pytest.mark.parametrize("column", [
    [True, False], pd.to_datetime(["2020-01-01", "2020-01-02"]), ["a", None], [1, "a"],
    pd.Categorical(["a", None]), pd.Categorical([1, 2]), pd.array([0.5, None], dtype="Float64"),
], ids=str)  # fmt: skip
def test_other_columns_are_left_to_pandas(column):
    assert lines(pd.DataFrame({"a": column, "b": [1, 2]})) is None


def test_what_is_copied_stays_as_it_was_written_also_words_for_empty_cells(tmp_path):
    assert set(EMPTY) == set(STR_NA_VALUES)
    path = tmp_path / "t.csv"
    pd.DataFrame({"id": EMPTY, "w": EMPTY, "n": EMPTY, "x": 1}).to_csv(path, index=False)
    for copied in (["id"], ["id", "n"]):  # once it is read in one go, once in two
        ((frame, copy),) = Rows.open(path).parts(["w", "n"], {"w"}, copied)
        assert list(copy["id"]) == list(EMPTY)
        assert frame.isna().all(axis=None)
