"""Text with a row for each line: how it is written is found by looking at it.

Files come with other separators than commas, packed, with byte-order marks, from Windows, and with
decimal commas. What is not certain is noted.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import pandas as pd

from pfedfair._util.errors import InputError

HEAD = 1 << 18  # characters that are looked at
BLOCK = 1 << 20
SEPARATORS = ("\t", ";", "|", ",")  # the first of those that fit as well
ALIKE = 0.9  # of the lines have as many cells as the first, if a separator fits
HINT = re.compile(r'"?sep=(.)"?\s*')  # a first line for spreadsheet programs
MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
OPENERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
PACKED = {gzip.open: "gzip", bz2.open: "bz2", lzma.open: "xz"}
SOME = 1000  # words of a column that are looked at first
NUMBERLIKE = re.compile(r"\s*[+-]?[\d.,]+([eE][+-]?\d+)?\s*")
MOSTLY = 0.95  # of a column's words are written as numbers
COMMA = re.compile(r"\s*[+-]?(\d{1,3}(\.\d{3})+|\d+)?,\d+([eE][+-]?\d+)?\s*")  # 1.234,5
POINTS = re.compile(r"\s*[+-]?\d{1,3}(\.\d{3})+\s*")  # 1.234, where commas are decimal
WHOLE = re.compile(r"\s*[+-]?\d+\s*")
THOUSANDS = re.compile(r"\s*[+-]?\d{1,3}(,\d{3})+(\.\d*)?\s*")  # 1,234.5
PLAIN = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*")


@dataclass(frozen=True)
class Layout:
    """How a file of text is written: the options of pandas' reader, and what there is to say."""

    path: Path
    encoding: str
    compression: str | None
    separator: str
    names: tuple[str, ...]
    above: int = 0  # lines above the names
    decimal: str = "."
    notes: tuple[str, ...] = ()

    def options(self) -> dict[str, Any]:
        return {
            "sep": self.separator, "encoding": self.encoding, "compression": self.compression,
            "decimal": self.decimal, "header": 0, "names": list(self.names),
            "skiprows": self.above, "index_col": False, "skipinitialspace": True,
            "low_memory": False,  # in parts, codes of one column would be numbers here, words there
        }  # fmt: skip


def look(path: Path) -> Layout:
    """Find out how a file is written; refuse columns without a name of their own."""
    with path.open("rb") as file:
        begin = file.read(6)
    opened: Any = next((how for mark, how in OPENERS.items() if begin.startswith(mark)), open)
    with opened(path, "rb") as file:
        encoding, notes = _encoding(path, file)
    with opened(path, "rt", encoding=encoding, newline="") as file:
        text = file.read(HEAD)
        cut = bool(file.read(1))
    if not text.strip():
        raise InputError(f"{path} is empty: it should have a line of names, and one for each row.")
    hint = HINT.fullmatch(text.split("\n", 1)[0])
    if hint:
        text = text.split("\n", 1)[1]
    separator, rows = _separator(text, cut, hint.group(1) if hint else None)
    names = _names(path, rows)
    packed = PACKED.get(opened)
    return Layout(path, encoding, packed, separator, names, int(bool(hint)), notes=notes)


def read(layout: Layout) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Read the whole file; return its columns and what there is to say."""
    frame = pd.read_csv(layout.path, **layout.options())
    if layout.separator != "," and layout.decimal == "." and any(_has_commas(frame)):
        layout = replace(layout, decimal=",")
        commas = tuple(_has_commas(frame))
        note = f"Commas are decimal, 1,5 is 1.5, as in {_some(commas)}."
        frame = pd.read_csv(layout.path, **layout.options())
        layout = replace(layout, notes=(*layout.notes, note))
    frame, notes = parse_numbers(frame, layout.decimal)
    return frame, (*layout.notes, *notes)


def parts(layout: Layout, rows: int) -> Iterator[pd.DataFrame]:
    """Read a file so many rows at a time; `layout` says whether commas are decimal."""
    with pd.read_csv(layout.path, chunksize=rows, **layout.options()) as reader:
        for frame in reader:
            yield parse_numbers(frame, layout.decimal)[0]


def parse_numbers(frame: pd.DataFrame, decimal: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Write numbers that have marks for thousands, or decimal commas among words, as numbers."""
    changed: dict[str, pd.Series[Any]] = {}
    for name in _texts(frame):
        column = frame[name]
        if decimal == ",":
            found = column.str.fullmatch(COMMA) | column.str.fullmatch(POINTS)
            able = found | column.str.fullmatch(WHOLE)
        else:
            found = column.str.fullmatch(THOUSANDS)
            able = found | column.str.fullmatch(PLAIN)
        if not found.any() or able.sum() < MOSTLY * column.notna().sum():
            continue
        mark = "." if decimal == "," else ","
        written = column.str.replace(mark, "", regex=False).str.replace(",", ".", regex=False)
        changed[name] = column.where(~found.fillna(False).astype(bool), written)
    numbers = {c: pd.to_numeric(v, errors="coerce") for c, v in changed.items()}
    clean = {c: v if v.isna().sum() == frame[c].isna().sum() else changed[c]
             for c, v in numbers.items()}  # fmt: skip
    if not clean:
        return frame, ()
    mark = "." if decimal == "," else ","
    marked = tuple(c for c in clean if frame[c].str.contains(rf"\d[{mark}]\d{{3}}").any())
    note = f"'{mark}' marks thousands, 1{mark}234 is 1234, in {_some(marked)}."
    return frame.assign(**clean), (note,) if marked else ()


def _encoding(path: Path, file: IO[bytes]) -> tuple[str, tuple[str, ...]]:
    """By the mark at the beginning; otherwise UTF-8, if all of the file is, or that of Windows."""
    block = file.read(BLOCK)
    for mark, name in MARKS.items():
        if block.startswith(mark):
            return name, ()
    if b"\0" in block[:HEAD]:
        zeros = [block[:HEAD][at::2].count(0) for at in (0, 1)]
        if max(zeros) < 0.3 * min(len(block), HEAD) / 2:
            raise InputError(f"{path} is not text: save it as .csv, .xlsx or .parquet.")
        return "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le", ()
    decoder, done = codecs.getincrementaldecoder("utf-8")(), 0
    while True:
        try:
            decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            return _of_windows(path, error, block, done)
        if not block:
            return "utf-8", ()
        done += block.count(b"\n")
        block = file.read(BLOCK)


def _of_windows(
    path: Path, error: UnicodeDecodeError, block: bytes, lines: int
) -> tuple[str, tuple[str, ...]]:
    """The encoding of a file that is not in UTF-8, with a word of it to judge by."""
    some = error.object
    wrong = some.decode("utf-8", "replace").count("�")
    if sum(ord(letter) > 127 for letter in some.decode("utf-8", "ignore")) > wrong:
        line = lines + some[: error.start].count(b"\n") + 1
        raise InputError(f"{path} is in UTF-8, but for line {line}: save it as UTF-8 anew.")
    undefined = any(byte in some for byte in b"\x81\x8d\x8f\x90\x9d")
    name = "latin-1" if undefined else "cp1252"
    around = some[max(error.start - 20, 0) : error.start + 20].decode(name)
    words = [word for word in re.findall(r"\w+", around) if not word.isascii()]
    such = f", such as '{words[0]}'" if words else ""
    return name, (
        f"{path.name} is not in UTF-8: letters are read as Windows and Latin-1 write them{such}; "
        "if they look wrong, save it as UTF-8.",
    )


def _separator(text: str, cut: bool, hint: str | None) -> tuple[str, list[list[str]]]:
    """The separator that gives most cells, as many in each line; and the first lines' cells.

    One behind which quotes do not end a cell is no separator, if there is another.
    """
    found: dict[str, list[list[str]]] = {}
    score: dict[str, tuple[bool, bool, int]] = {}
    for separator in (hint,) if hint else SEPARATORS:
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator,
                           skipinitialspace=True)  # fmt: skip
        try:
            rows = [row for row in lines if row]
        except csv.Error:
            continue
        rows = rows[:-1] if cut and len(rows) > 1 else rows
        if not rows or (len(rows[0]) < 2 and not hint):
            continue
        width = len(rows[0])
        alike = sum(len(row) == width or not any(row[width:]) for row in rows) / len(rows)
        score[separator] = alike >= ALIKE, _quoted_well(text, separator), width
        found[separator] = rows
    if not found:
        each = map(str.strip, text.splitlines())
        return ",", [[line.strip('"')] for line in each if line]
    best = max(score, key=lambda separator: score[separator])
    return best, found[best]


def _quoted_well(text: str, separator: str) -> bool:
    """Whether cells that begin with a quote end with one."""
    some = text[: text.rfind("\n") + 1] or text  # the last line may be cut
    try:
        for _ in csv.reader(io.StringIO(some, newline=""), delimiter=separator,
                            skipinitialspace=True, strict=True):  # fmt: skip
            pass
    except csv.Error:
        return False
    return True


def _names(path: Path, rows: list[list[str]]) -> tuple[str, ...]:
    """The names of columns; what has no name is called as pandas does."""
    first, *others = rows
    named = [name.strip() for name in first]
    twice = next((n for k, n in enumerate(named) if n and n in named[:k]), None)
    if twice is not None:
        values = PLAIN.fullmatch(twice)
        what = "if its first line has values, put a line of names above it" if values else (
            "rename or delete one")  # fmt: skip
        raise InputError(f"{path} has more than one column '{twice}': {what}.")
    width = max((len(row) for row in others if any(row[len(named) :])), default=0)
    if width > len(named):
        line = next(k for k, row in enumerate(rows, 1) if len(row) == width)
        raise InputError(
            f"Line {line} of {path} has {width} cells, its first line {len(named)} names: give "
            "every column a name, and put quotes around cells with separators."
        )
    blank = max(map(len, rows)) - len(named)  # a separator at the end of each line
    return tuple(name or f"Unnamed: {k}" for k, name in enumerate([*named, *[""] * blank]))


def _texts(frame: pd.DataFrame) -> list[str]:
    """Columns of words that look like numbers, by some of them."""
    found = []
    for name in frame.columns:
        if pd.api.types.is_string_dtype(frame[name]):
            words = frame[name].dropna()
            some = words.iloc[:: max(1, len(words) // SOME)]
            if len(some) and some.str.fullmatch(NUMBERLIKE).mean() >= 0.5:
                found.append(name)
    return found


def _has_commas(frame: pd.DataFrame) -> list[str]:
    """Columns of numbers with decimal commas."""
    found = []
    for name in _texts(frame):
        column = frame[name].dropna()
        commas = column.str.fullmatch(COMMA)
        able = commas | column.str.fullmatch(WHOLE) | column.str.fullmatch(POINTS)
        if commas.any() and able.sum() >= MOSTLY * len(column):
            found.append(name)
    return found


def _some(names: tuple[str, ...]) -> str:
    named = ", ".join(f"'{name}'" for name in names[:4])
    return f"{named} and {len(names) - 4} more" if len(names) > 4 else named
