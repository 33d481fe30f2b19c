"""Tables in parts: the same rows as when read whole, whatever a part happens to look like."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.data.tables import stream
from pfedfair.data.tables.cells import canonical
from pfedfair.data.tables.sink import check_output, sink
from pfedfair.data.tables.stream import Rows
from pfedfair.data.tables.table import read_table


def together(rows, *arguments):
    """All parts, one behind the other."""
    parts = list(rows.parts(*arguments))
    return [pd.concat([p[k] for p in parts], ignore_index=True) for k in (0, 1)]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(stream, "ROWS", 3)


CELLS = st.sampled_from(["1", "01", "1.0", "x", "", "0.5", "True", "false", "12345678901234567890"])


@given(cells=st.lists(CELLS, min_size=1, max_size=12))
def test_how_a_part_is_typed_does_not_change_what_cells_say(cells, tmp_path_factory):
    path = tmp_path_factory.mktemp("parts") / "t.csv"
    numbers = np.arange(len(cells)) / 3
    pd.DataFrame({"code": cells, "n": numbers, "id": cells}).to_csv(path, index=False)
    before, stream.ROWS = stream.ROWS, 2
    try:
        frame, copy = together(Rows.open(path), ["code", "n"], {"code"}, ["id"])
    finally:
        stream.ROWS = before
    assert [canonical(cell) for cell in frame["code"]] == [canonical(cell) for cell in cells]
    np.testing.assert_array_equal(frame["n"], numbers)
    assert list(copy["id"]) == cells  # as they were written


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_same_as_when_read_whole(kind, tmp_path, small):
    frame = pd.DataFrame({
        "a": [1.5, np.nan, -2.0, 1e300, 0.1, 3, 4], "w": ["x", "y", "z", "x", "y", None, "z"],
        "i": pd.array([1, 2, None, 4, 2**60 + 1, 6, 7], dtype="Int64"), "d": [True] * 7,
    })  # fmt: skip
    path = tmp_path / f"t.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    shares = []
    rows = Rows.open(path)
    assert rows.columns == ("a", "w", "i", "d")
    parts = list(rows.parts(["i", "a", "w"], {"w", "i"}, ["i", "d"], shares.append))
    assert [len(part) for part, _ in parts] == [3, 3, 1]
    assert shares[-1] == pytest.approx(1.0)
    whole, copy = (pd.concat([p[k] for p in parts], ignore_index=True) for k in (0, 1))
    np.testing.assert_array_equal(whole["a"], read_table(path)["a"])
    words = [canonical(cell) for cell in whole["i"]]
    assert words == ["1", "2", None, "4", str(2**60 + 1), "6", "7"]
    assert [canonical(cell) for cell in whole["w"]] == ["x", "y", "z", "x", "y", None, "z"]
    assert list(copy["i"]) == ["1", "2", "", "4", str(2**60 + 1), "6", "7"]
    assert set(copy["d"].str.lower()) == {"true"}


def test_what_cannot_be_read_in_parts_is_read_whole(tmp_path, small):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    assert Rows.open(path, ["a"]).frame is None
    assert Rows.open(path, ["c"]).frame is not None  # perhaps other separators
    frame, copy = together(Rows.open(path, ["c"]), ["a"], set(), ["b"])
    assert (frame["a"].tolist(), copy["b"].tolist()) == ([1], ["2"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3,4,5\n", "is not a readable table"),
        ("a,b\n1,2,3\n4,5,6\n", "is not a readable table"),
        ("a,b,a\n1,2,3\n", "more than one column 'a'"),
        ("", "is empty: it should have a line of names"),
        ('a,b\n"1,2\n', "is not a readable table"),
    ],
)
def test_broken_files_are_one_sentence(tmp_path, text, message):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(pff.InputError, match=message):
        together(Rows.open(path, ["a"]), ["a", "b"], set(), ["b"])


def test_a_broken_parquet_file_is_one_sentence(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": [1.0]}).to_parquet(path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(pff.InputError, match="is not a readable table"):
        Rows.open(path)
    with pytest.raises(pff.InputError, match="There is no file"):
        Rows.open(tmp_path / "none.csv")


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
