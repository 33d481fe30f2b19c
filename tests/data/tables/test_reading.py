"""Files as they come: what is read, what is noted, and what is refused."""

import bz2
import gzip
import lzma

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.data.tables import delimited, reading
from pfedfair.data.tables.formats import infer

FRAME = pd.DataFrame(
    {
        "name": ["Zoë", "a, b", 'she said "no"', "c; d|e\tf"],
        "pay": [1.5, -2.25, 1000.0, np.nan],
        "site": ["north", "south", "north", "south"],
        "n": [1, 2, 3, 4],
    }
)


def read(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_typed(path)


def read_typed(path):
    """Read a table, and its numbers as `from_frame` reads them."""
    frame, notes = reading.read(path)
    formats, more = infer(frame, list(frame), separator=frame.attrs.get("separator", ","))
    typed, _ = formats.convert(frame)
    for name in typed.select_dtypes(float):
        if (typed[name] % 1 == 0).all():
            typed[name] = typed[name].astype(int)
    return typed, (*notes, *more)


@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
@pytest.mark.parametrize("ending", ["csv", "TSV", "txt", "Csv"])
def test_separators_are_found_whatever_the_ending(tmp_path, sep, ending):
    frame, notes = read(tmp_path / f"t.{ending}", FRAME.to_csv(index=False, sep=sep))
    pd.testing.assert_frame_equal(frame, FRAME)
    assert notes == ()


@pytest.mark.parametrize(
    ("pack", "ending"),
    [(gzip.compress, "csv.gz"), (gzip.compress, "CSV.GZ"), (bz2.compress, "csv.bz2"),
     (lzma.compress, "tsv.xz"), (gzip.compress, "csv")],
)  # fmt: skip
def test_packed_files(tmp_path, pack, ending):
    frame, _ = read(tmp_path / f"t.{ending}", pack(FRAME.to_csv(index=False).encode()))
    pd.testing.assert_frame_equal(frame, FRAME)
    assert reading.stem(tmp_path / f"t.{ending}") == "t"


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"], ids=str
)
def test_byte_order_marks_and_wide_letters(tmp_path, encoding):
    frame, notes = read(tmp_path / "t.csv", FRAME.to_csv(index=False).encode(encoding))
    pd.testing.assert_frame_equal(frame, FRAME)
    assert notes == ()


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
def test_letters_of_windows_are_read_with_a_note(tmp_path, encoding):
    frame, notes = read(tmp_path / "t.csv", FRAME.to_csv(index=False).encode(encoding))
    pd.testing.assert_frame_equal(frame, FRAME)
    (note,) = notes
    assert "t.csv is not in UTF-8" in note
    assert "such as 'Zoë'" in note


def test_a_byte_that_cp1252_does_not_have_is_latin_1(tmp_path):
    frame, _ = read(tmp_path / "t.csv", b"a,b\nZo\xeb \x81,1\n")
    assert frame["a"].tolist() == ["Zoë \x81"]


def test_a_damaged_letter_is_not_taken_for_another_encoding(tmp_path):
    text = "a,b\n" + "ü,1\n" * 500
    with pytest.raises(pff.InputError, match=r"is in UTF-8, but for line 502: save it"):
        read(tmp_path / "t.csv", text.encode() + b"\xff,2\n")


def test_decimal_commas(tmp_path):
    text = FRAME.drop(columns="name").to_csv(index=False, sep=";", decimal=",")
    frame, notes = read(tmp_path / "t.csv", text)
    pd.testing.assert_frame_equal(frame, FRAME.drop(columns="name"))
    assert notes == ("Commas are decimal, 1,5 is 1.5, as in 'pay'.",)


def test_decimal_commas_after_the_first_lines(tmp_path):
    """The numbers of the lines that are looked at first are whole."""
    rows = 100_000
    frame, notes = read(tmp_path / "t.csv", "a;b\n" + "1;2\n" * rows + "1,5;2\n")
    assert frame["a"].iloc[-1] == 1.5
    assert frame["a"].sum() == rows + 1.5
    assert "Commas are decimal" in notes[0]


def test_points_for_thousands_where_commas_are_decimal(tmp_path):
    text = "pay;day;n\n1.234,5;31.12.2024;1.500\n2,5;01.01.2025;900\n"
    frame, notes = read(tmp_path / "t.csv", text)
    assert frame["pay"].tolist() == [1234.5, 2.5]
    assert frame["n"].tolist() == [1500, 900]
    assert frame["day"].astype(str).tolist() == ["2024-12-31", "2025-01-01"]
    assert notes[1] == "'.' marks thousands, 1.234 is 1234, in 'pay', 'n'."


def test_commas_for_thousands_in_quotes(tmp_path):
    frame, notes = read(tmp_path / "t.csv", 'pay,n\n"1,234.5",1\n"2,345,678",2\n12,3\n')
    assert frame["pay"].tolist() == [1234.5, 2345678, 12]
    assert notes == ("',' marks thousands, 1,234 is 1234, in 'pay'.",)
    frame, notes = read(tmp_path / "u.csv", 'towns,n\n"Bonn, Ulm",1\n"a,b",2\n')
    assert frame["towns"].tolist() == ["Bonn, Ulm", "a,b"]
    assert notes == ()


def test_words_among_decimal_commas_stay_words(tmp_path):
    frame, _ = read(tmp_path / "t.csv", "a;b\n" + "1,5;x\n" * 30 + "none at all;x\n")
    assert frame["a"].tolist()[:30] == [1.5] * 30
    assert frame["a"].isna().tolist()[30:] == [True]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("sep=;\na;b\n1;2\n", {"a": [1], "b": [2]}),
        ("\n\n a , b\n1, 2\n", {"a": [1], "b": [2]}),
        ('a, b\n1, "x, y"\n', {"a": [1], "b": ["x, y"]}),
        ("a\n1\n2\n", {"a": [1, 2]}),
        ("a,b\r1,2\r3,4\r", {"a": [1, 3], "b": [2, 4]}),
        ('a,b\r\n1,"two\r\nlines"\r\n', {"a": [1], "b": ["two\r\nlines"]}),
        ("income, EUR;sex\n1;f\n", {"income, EUR": [1], "sex": ["f"]}),
    ],
    ids=repr,
)
def test_odd_files(tmp_path, text, columns):
    frame, _ = read(tmp_path / "t.csv", text)
    assert frame.to_dict("list") == columns


def test_separators_at_the_end_of_lines_make_no_column_of_values(tmp_path):
    frame, _ = read(tmp_path / "t.csv", "a,b\n1,2,\n3,4,\n")
    assert frame[["a", "b"]].to_numpy().tolist() == [[1, 2], [3, 4]]
    assert frame["Unnamed: 2"].isna().all()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "is empty: it should have a line of names"),
        ("t.csv", b"\n \n", "is empty"),
        ("t.csv.gz", gzip.compress(b"", mtime=0), "is empty"),
        ("t.csv", b"hired,sex,hired\n1,2,3\n", "more than one column 'hired': rename or delete"),
        ("t.csv", b"sex ,hired, sex\n1,2,3\n", "more than one column 'sex'"),
        ("t.csv", b"39,7,39\n1,2,3\n", "'39': if its first line has values, put a line of names"),
        ("t.csv", b"a,b\n1,2,3\n4,5,6\n", "Line 2 of .* has 3 cells, its first line 2 names"),
        ("t.csv", b"a,b\n" + b"1,2\n" * 99_999 + b"1,2,3\n",
         "line 100001 has 3 cells, there are 2 names"),
        ("t.csv", b'a,b\n1,"x\n2,y\n', "is not a readable table"),
        ("t.csv", bytes(range(256)) * 9, "is not text: save it as"),
        ("t.parquet", b"PAR1 nothing", "is not a readable table"),
        ("t.parquet", b"a,b\n1,2\n", "is not a readable table .it is no .parquet file"),
        ("t.xlsx", b"PK\x03\x04 nothing", "is not a readable table"),
        ("t.xls", b"\xd0\xcf\x11\xe0", "cannot be read: save it as .csv, .xlsx or .parquet"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:30], "is not a readable table"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_in_a_sentence(tmp_path, name, content, message):
    with pytest.raises(pff.InputError, match=message) as refusal:
        read(tmp_path / name, content)
    assert "\n" not in str(refusal.value)


def test_a_first_line_longer_than_the_examined_text(tmp_path):
    names = [f"c{k}" for k in range(60_000)]
    path = tmp_path / "wide.csv"
    path.write_text(f"{','.join(names)}\n{','.join(['1'] * len(names))}\n")
    layout = delimited.look(path)
    assert len(path.read_text().split("\n")[0]) > delimited.HEAD
    assert layout.names == tuple(names)


def test_too_long_a_first_line_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "LONGEST", delimited.HEAD + 10)
    (tmp_path / "t.csv").write_text("x" * (delimited.HEAD + 99))
    with pytest.raises(pff.InputError, match=r"first line of .* has more than .* characters"):
        delimited.look(tmp_path / "t.csv")


def test_a_giant_name_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"a,{'x' * 200_000},hired\n1,f,1\n")
    with pytest.raises(pff.InputError, match=r"a name of 200,00. characters: it should be a line"):
        reading.read(path)


def test_a_giant_cell_hides_no_name_of_a_column(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"a,sex,hired\n{'x' * 3 * delimited.HEAD},f,1\n1,m,0\n")
    frame, _ = reading.read(path)
    assert list(frame) == ["a", "sex", "hired"]
    assert len(frame) == 2


def test_a_file_is_what_is_in_it_not_what_its_name_says(tmp_path):
    FRAME.to_parquet(tmp_path / "t.csv")
    pd.testing.assert_frame_equal(read_typed(tmp_path / "t.csv")[0], FRAME)


def test_excel(tmp_path):
    path = tmp_path / "t.XLSX"
    with pd.ExcelWriter(path, engine="openpyxl") as book:
        FRAME.rename(columns={"n": " n "}).to_excel(book, index=False, sheet_name="people")
        FRAME.to_excel(book, index=False, sheet_name="old")
    frame, notes = read_typed(path)
    pd.testing.assert_frame_equal(frame.astype(FRAME.dtypes), FRAME)
    assert notes == ("t.XLSX has several sheets: 'people' was read, not old.",)
    twice = pd.DataFrame([["sex", "hired", "sex"], ["f", 1, "m"]])
    twice.to_excel(tmp_path / "twice.xlsx", index=False, header=False)
    with pytest.raises(pff.InputError, match="more than one column 'sex'"):
        reading.read(tmp_path / "twice.xlsx")
    pd.DataFrame().to_excel(tmp_path / "none.xlsx", index=False)
    with pytest.raises(pff.InputError, match="is empty"):
        reading.read(tmp_path / "none.xlsx")


def test_excel_without_its_extra_says_what_to_install(tmp_path, monkeypatch):
    FRAME.to_excel(tmp_path / "t.xlsx", index=False)
    monkeypatch.setattr(reading, "find_spec", lambda name: None)
    with pytest.raises(pff.InputError, match=r"install pfedfair\[excel\] to read it, or save it"):
        reading.read(tmp_path / "t.xlsx")


def test_read_table_warns_of_what_there_is_to_say(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("a,b\nZoë,1\n".encode("cp1252"))
    with pytest.warns(reading.ReadingWarning, match="not in UTF-8"):
        assert reading.read_table(path)["a"].tolist() == ["Zoë"]


def test_files_in_parts_are_the_same_rows(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    big = pd.concat([FRAME] * 50, ignore_index=True)
    big.to_csv(path, index=False, sep=";")
    monkeypatch.setattr(reading, "ROWS", 60)
    for numbers in ((), ("pay", "n")):  # as text, or as numbers
        parts = list(reading.open_table(path).parts(list(big), numbers))
        assert [len(part) for part in parts] == [60, 60, 60, 20]
        whole = pd.concat(parts, ignore_index=True)
        typed, odd = infer(whole, list(whole))[0].convert(whole)
        assert not odd
        pd.testing.assert_frame_equal(typed.astype(big.dtypes), big)


WORD = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\ufeff"), min_size=1)
WORD = WORD.map(str.strip).filter(lambda w: w and not w.lower().startswith("sep="))


@example(names=["0", "0\t0"], cells=[[0, 0, 0, 0]], sep=",")
@example(names=["a;b", "c"], cells=[[1, 2, 3, 4]], sep=",")
@given(
    names=st.lists(WORD, min_size=2, max_size=4, unique=True),
    cells=st.lists(st.lists(st.integers(0, 99), min_size=4, max_size=4), min_size=1, max_size=9),
    sep=st.sampled_from([",", ";", "\t", "|"]),
)
@settings(max_examples=60)
def test_whatever_columns_are_called_python_writes_and_we_read(tmp_path_factory, names, cells, sep):
    """Names in quotes, with separators, quotes and lines in them."""
    path = tmp_path_factory.mktemp("t") / "t.csv"
    frame = pd.DataFrame([row[: len(names)] for row in cells], columns=names)
    frame.to_csv(path, index=False, sep=sep, quoting=1)
    read, _ = read_typed(path)
    pd.testing.assert_frame_equal(read, frame)
