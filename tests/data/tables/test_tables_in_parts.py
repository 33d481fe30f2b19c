"""Tables in parts: the same cells as when read whole, whatever a part happens to look like."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.data.tables import reading
from pfedfair.data.tables.cells import canonical, written
from pfedfair.data.tables.reading import open_table


def together(path, *arguments):
    """All parts, one behind the other."""
    return pd.concat(open_table(path).parts(*arguments), ignore_index=True)


CELLS = st.sampled_from(["1", "01", "1.0", "x", "", "0.5", "True", "false", "12345678901234567890"])


@given(cells=st.lists(CELLS, min_size=1, max_size=12))
def test_how_a_part_is_typed_does_not_change_what_cells_say(cells, tmp_path_factory):
    path = tmp_path_factory.mktemp("parts") / "t.csv"
    numbers = np.arange(len(cells)) / 3
    pd.DataFrame({"code": cells, "n": numbers}).to_csv(path, index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "ROWS", 2)
        frame = together(path, ["code", "n"], ["n"])
    assert [canonical(cell) for cell in frame["code"]] == [canonical(cell) for cell in cells]
    np.testing.assert_array_equal(frame["n"], numbers)
    assert written(frame["code"]).fill_null("").to_pylist() == cells


@pytest.mark.parametrize("kind", ["csv", "parquet", "xlsx"])
def test_the_same_as_when_read_whole(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "ROWS", 3)
    frame = pd.DataFrame({
        "a": [1.5, np.nan, -2.0, 1e300, 0.1, 3, 4], "w": ["x", "y", "z", "x", "y", None, "z"],
        "i": pd.array([1, 2, None, 4, 2**50 + 1, 6, 7], dtype="Int64"), "d": [True] * 7,
    })  # fmt: skip
    path = tmp_path / f"t.{kind}"
    write = {"csv": frame.to_csv, "parquet": frame.to_parquet, "xlsx": frame.to_excel}[kind]
    write(path, index=False)
    shares = []
    table = open_table(path)
    assert table.columns == ("a", "w", "i", "d")
    parts = list(table.parts(["i", "a", "w", "d"], ["a"], shares.append))
    assert [len(part) for part in parts] == [3, 3, 1]
    assert shares[-1] == pytest.approx(1.0)
    in_parts = pd.concat(parts, ignore_index=True)
    whole = table.read()
    for name in frame:
        cells = [canonical(cell) for cell in frame[name]]
        assert [canonical(cell) for cell in in_parts[name]] == cells
        assert [canonical(cell) for cell in whole[name]] == cells
    copy = written(in_parts["i"]).fill_null("").to_pylist()
    assert copy == ["1", "2", "", "4", str(2**50 + 1), "6", "7"]


def test_large_integers_keep_their_digits(tmp_path):
    """A missing value makes no floats of them."""
    numbers = pd.array([2**60 + 1, None, 3], dtype="Int64")
    pd.DataFrame({"i": numbers}).to_parquet(tmp_path / "t.parquet")
    assert together(tmp_path / "t.parquet", ["i"])["i"].tolist()[0] == 2**60 + 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3,4,5\n", "line 3|Line 3"),
        ("a,b\n1,2,3\n4,5,6\n", "[Ll]ine 2 of .* has 3 cells"),
        ("a,b,a\n1,2,3\n", "more than one column 'a'"),
        ("", "is empty: it should have a line of names"),
        ('a,b\n"1,2\n', "is not a readable table"),
    ],
)
def test_broken_files_are_one_sentence(tmp_path, text, message):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(pff.InputError, match=message):
        together(path, ["a", "b"])


def test_a_broken_parquet_file_is_one_sentence(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": [1.0]}).to_parquet(path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(pff.InputError, match="is not a readable table"):
        open_table(path)
    with pytest.raises(pff.InputError, match="There is no file"):
        open_table(tmp_path / "none.csv")
