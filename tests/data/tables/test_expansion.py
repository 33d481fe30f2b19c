"""Small files that unpack to large ones are refused before they fill the memory."""

import bz2
import gzip
import lzma
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pfedfair as pff
from pfedfair._util.limits import UNLIMITED
from pfedfair.data.tables import delimited
from pfedfair.data.tables.reading import open_table, read_table

PACKED = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}
MEMORY = """
import resource, sys
from pathlib import Path
from pfedfair.data.tables.reading import open_table
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    open_table(Path(sys.argv[1])).read()
except Exception as error:
    print(type(error).__name__, error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def write_bomb(path, opened, size):
    block = b"0,0,0,0\n" * 2**17
    with opened(path, "wb") as file:
        file.write(b"a,b,c,d\n")
        for _ in range(size // len(block)):
            file.write(block)


@pytest.mark.parametrize("kind", PACKED)
def test_a_small_file_that_unpacks_to_a_large_one_is_refused(tmp_path, monkeypatch, kind):
    path = tmp_path / f"table.csv.{kind}"
    write_bomb(path, PACKED[kind], 2**23)
    monkeypatch.setattr("pfedfair._util.limits.UNLIMITED", 2**22)
    with pytest.raises(pff.InputError, match="if you trust it, unpack it yourself"):
        open_table(path)


def test_such_a_file_takes_little_memory(tmp_path):
    path = tmp_path / "table.csv.gz"
    write_bomb(path, gzip.open, 2 * UNLIMITED)
    assert path.stat().st_size < 2**20
    found = subprocess.run(
        [sys.executable, "-c", MEMORY, str(path)], capture_output=True, text=True, check=True
    )
    said, megabytes = found.stdout.splitlines()
    assert "InputError" in said
    assert int(megabytes) < 64


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_an_encoding_that_is_known_early_hides_nothing(tmp_path, monkeypatch, encoding):
    monkeypatch.setattr("pfedfair._util.limits.UNLIMITED", 2**22)
    monkeypatch.setattr(delimited, "BLOCK", 2**12)
    path = tmp_path / "table.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(("a,b\nä,1\n" + "0,0\n" * 2**21).encode(encoding))
    with pytest.raises(pff.InputError, match="unpacks to more than 200 times its size"):
        open_table(path)


def test_honest_tables_of_zeros_are_read(tmp_path):
    path = tmp_path / "table.csv.gz"
    write_bomb(path, gzip.open, 2**23)
    assert len(read_table(path)) == 2**20


def test_a_file_that_grows_after_it_was_examined_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "table.csv.gz"
    write_bomb(path, gzip.open, 2**20)
    table = open_table(path)
    monkeypatch.setattr("pfedfair._util.limits.UNLIMITED", 2**22)
    write_bomb(path, gzip.open, 2**23)
    for read in (table.read, lambda: list(table.parts(["a", "b"]))):
        with pytest.raises(pff.InputError, match="unpack it yourself"):
            read()


def test_a_sheet_that_unpacks_to_a_large_one_is_refused(tmp_path):
    pytest.importorskip("openpyxl")
    path, bomb = tmp_path / "table.xlsx", tmp_path / "bomb.xlsx"
    pd.DataFrame({"a": [1]}).to_excel(path, index=False)
    with zipfile.ZipFile(path) as book, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as out:
        for one in book.infolist():
            out.writestr(one, book.read(one))
        with out.open("xl/sharedStrings.xml", "w") as text:
            for _ in range(1 + (UNLIMITED >> 20)):
                text.write(b" " * 2**20)
    assert bomb.stat().st_size < 2**20
    with pytest.raises(pff.InputError, match=r"if you trust it, save it as \.csv"):
        open_table(bomb)


CELLS = {
    "the last cell of a sheet": '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>',
    "cells without names": '<row r="1048576">' + "<c/>" * 16384 + "</row>",
    "another prefix": '<x:row r="1048576"><x:c s="0" r="ZZ9"><v>1</v></x:c></x:row>',
}


@pytest.mark.parametrize("cells", CELLS.values(), ids=CELLS)
def test_a_sheet_with_cells_far_apart_is_refused(tmp_path, cells):
    """Of 5 kB: the reader would fill the table between them, 17 billion cells."""
    pytest.importorskip("openpyxl")
    path, bomb = tmp_path / "table.xlsx", tmp_path / "bomb.xlsx"
    pd.DataFrame({"a": [1]}).to_excel(path, index=False)
    with zipfile.ZipFile(path) as book, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as out:
        for one in book.infolist():
            content = book.read(one).replace(b"</sheetData>", cells.encode() + b"</sheetData>")
            out.writestr(one.filename, content.replace(b"<worksheet", b'<worksheet xmlns:x="x"'))
    assert bomb.stat().st_size < 8000
    with pytest.raises(pff.InputError, match=r"if you trust it, save it as \.csv"):
        open_table(bomb)


def test_parquet_that_is_large_in_memory_is_refused(tmp_path):
    """By its pages' sizes, and by its cells: a billion equal ones take no page at all."""
    cells, pages = tmp_path / "cells.parquet", tmp_path / "pages.parquet"
    zeros = pa.table({name: pa.array(np.zeros(2**22)) for name in "abcdefghi"})
    pq.write_table(zeros, cells, row_group_size=2**22)
    pq.write_table(pa.table({"a": ["x" * 2**21] * 200}), pages, compression="zstd",
                   use_dictionary=False)  # fmt: skip
    for path in (cells, pages):
        assert path.stat().st_size < 2**20
        with pytest.raises(pff.InputError, match="write it again without compression"):
            open_table(path)
