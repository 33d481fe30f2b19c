import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from pfedfair._util.errors import InputError
from pfedfair.runs.columns import RowDraws, append_columns, per_row, within


@given(n=st.integers(1, 60), width=st.integers(0, 4), levels=st.integers(1, 5), seed=st.integers(0))
def test_a_lot_belongs_to_its_row(n, width, levels, seed):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, levels, (n, width)).astype(np.float32)
    draws = RowDraws(rows, seed % 2**31).random(n)
    assert ((draws >= 0) & (draws < 1)).all()
    assert len(np.unique(draws)) == n  # rows that are alike have different ones
    order = rng.permutation(n)
    mixed = RowDraws(rows[order], seed % 2**31).random(n)
    np.testing.assert_array_equal(np.sort(mixed), np.sort(draws))
    first = [next(i for i in range(n) if (rows[i] == row).all()) for row in rows]
    single = np.array([RowDraws(rows[i : i + 1], seed % 2**31).random(1)[0] for i in range(n)])
    np.testing.assert_array_equal(single, draws[first])


@pytest.mark.parametrize("rows", [np.arange(20_000.0)[:, None], np.zeros((20_000, 3))])
def test_lots_are_uniform_and_depend_on_the_seed(rows):
    one, two = (RowDraws(rows, seed).random(len(rows)) for seed in (0, 1))
    assert kstest(one, "uniform").pvalue > 0.001
    assert kstest(two, "uniform").pvalue > 0.001
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.03
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 0.03


def test_what_is_said_of_people():
    frame = pd.DataFrame({"sex": ["f", "m"], "old": [0, 1]}, index=[7, 3])
    given = per_row(pd.Series(["x", "y"], name="race", index=[1, 2]), frame, "S")
    assert given.to_dict("list") == {"race": ["x", "y"]}
    assert list(per_row(["f", "m"], frame, "S")) == ["S"]
    assert list(per_row(np.zeros((2, 2)), frame, "S")) == ["S 0", "S 1"]
    assert list(per_row(["sex"], frame, "S")) == ["sex"]
    assert per_row(None, frame, "S") is None
    assert list(per_row(None, frame, "S", ["old"])) == ["old"]
    with pytest.raises(InputError, match="X has 2 rows, S has 3"):
        per_row([1, 2, 3], frame, "S")
    with pytest.raises(InputError, match="a value for each row"):
        per_row(np.zeros((2, 1, 1)), frame, "S")


def test_the_same_column_and_another_of_its_name():
    frame = pd.DataFrame({"sex": ["f", "m"], "old": [0, 1]})
    given = pd.DataFrame({"sex": ["f", "m"], "old": [1, 1], "race": ["a", "b"]})
    assert within(frame, given) == ["sex"]
    wider, names = append_columns(frame, given)
    assert names == ["sex 2", "old 2", "race"]
    assert wider["old 2"].tolist() == [1, 1]
    assert wider["old"].tolist() == [0, 1]
