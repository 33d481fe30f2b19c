import numpy as np
import pandas as pd
import pytest

import pfedfair as pff


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [0, 0, 0, 0]}, "'y' must have 2 to 20 different values, it has 1"),
        ({"s": ["m", "m", "m", "m"]}, "'s' must have 2 to 100 different values, it has 1"),
        ({"s": ["m", "f", "x", "m"]}, "has 3 groups with fewer than 30 rows, 'f' with 1 the first"),
        ({"s": ["m", None, "f", "m"]}, "has 1 empty cells"),
        ({"s": ["m", "?", "f", "m"]}, "has 1 empty cells"),
        ({"x": [[1], [2], [3], [4]]}, "Column 'x' holds lists"),
    ],
)
def test_bad_tables_are_refused_with_a_sentence(change, message):
    frame = pd.DataFrame({"x": [0.0, 1, 2, 3], "y": [0, 1, 0, 1], "s": ["m", "f", "f", "m"]})
    with pytest.raises(pff.InputError, match=message):
        pff.from_frame(frame.assign(**change), "y", "s")


def test_labels_are_coded_in_order_and_twenty_are_the_most():
    frame = pd.DataFrame({"x": np.arange(42.0), "y": np.arange(42) % 21, "s": np.arange(42) % 2})
    data = pff.from_frame(frame[frame["y"] > 0], "y", "s")
    assert data.label_names == tuple(map(str, range(1, 21)))
    np.testing.assert_array_equal(data.y, frame["y"][frame["y"] > 0] - 1)
    with pytest.raises(pff.InputError, match="'y' must have 2 to 20 different values, it has 21"):
        pff.from_frame(frame, "y", "s")


def test_roles_and_column_names_are_checked():
    frame = pd.DataFrame({"x": [0.0, 1, 2, 3], "y": [0, 1, 0, 1], "s": ["m", "f", "f", "m"]})
    for call, message in [
        (lambda: pff.from_frame(frame, "y", "y"), "cannot be both the label and the sensitive"),
        (lambda: pff.from_frame(frame, "y", "s", drop="x,q"), "no column 'q'"),
        (lambda: pff.from_frame(frame, "y", "s", drop=["z"]), "no column 'z' to drop"),
        (lambda: pff.from_frame(frame.set_axis(list("xyy"), axis=1), "y", "x"), "more than one"),
        (lambda: pff.from_frame(frame, "y", "s", drop=["x"]).federate(
            pff.partition.by_column("x", min_rows=1), sensitive_as_input=False), "no column left"),
    ]:  # fmt: skip
        with pytest.raises(pff.InputError, match=message):
            call()


def test_load_says_what_is_wrong(csv, tmp_path):
    assert len(pff.load(csv, "hired", "sex")) == 260
    for arguments, message in [
        (("adlut",), "Unknown data set 'adlut': did you mean 'adult'"),
        (("none.csv", "y", "s"), "There is no file none.csv"),
        ((csv,), "say which column is the label"),
        ((csv, "fired", "sex"), "no column 'fired' for the label"),
        (("adult", "y", "s"), "has its own label"),
    ]:
        with pytest.raises(pff.InputError, match=message):
            pff.load(*arguments)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 nothing")
    with pytest.raises(pff.InputError, match="is not a readable table"):
        pff.load(broken, "y", "s")
