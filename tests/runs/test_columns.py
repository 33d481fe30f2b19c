import numpy as np
import pandas as pd
import pytest

from pfedfair._util.errors import InputError
from pfedfair.runs.columns import append_columns, per_row, within


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
