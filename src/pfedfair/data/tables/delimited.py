"""Read delimited text, whose format is inferred from its content.

Files may have other separators than commas, decimal commas, byte-order marks, compression, or an
encoding of Windows. A note reports each uncertain inference.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import pandas as pd

from pfedfair._util.errors import InputError, shorten

HEAD = 1 << 18  # characters that are examined
LONGEST = 1 << 25  # characters of the first line
LONGEST_NAME = 1 << 16  # characters of a column's name
BLOCK = 1 << 20
SEPARATORS = ("\t", ";", "|", ",")  # of equally good ones the first
ALIKE = 0.9  # of the lines have as many cells as the first, if a separator fits
HINT = re.compile(r'"?sep=(.)"?\s*')  # a first line for spreadsheet programs
MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
OPENERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
PACKED = {gzip.open: "gzip", bz2.open: "bz2", lzma.open: "xz"}
SAMPLE = 1000  # words of a column that are examined first
NUMBERLIKE = re.compile(r"\s*[+-]?[\d.,]+([eE][+-]?\d+)?\s*")
MOSTLY = 0.95  # of a column's words are written as numbers
COMMA = re.compile(r"\s*[+-]?(\d{1,3}(\.\d{3})+|\d+)?,\d+([eE][+-]?\d+)?\s*")  # 1.234,5
POINTS = re.compile(r"\s*[+-]?\d{1,3}(\.\d{3})+\s*")  # 1.234, where commas are decimal
WHOLE = re.compile(r"\s*[+-]?\d+\s*")
THOUSANDS = re.compile(r"\s*[+-]?\d{1,3}(,\d{3})+(\.\d*)?\s*")  # 1,234.5
UNMARKED = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*")


@dataclass(frozen=True)
class Layout:
    """The format of a text file: the options of pandas' reader, and notes."""

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
            "low_memory": False,  # else some codes of a column are read as numbers
        }  # fmt: skip


def look(path: Path) -> Layout:
    """Infer the format of a file; refuse columns without a unique name."""
    with path.open("rb") as file:
        begin = file.read(6)
    opened: Any = next((how for mark, how in OPENERS.items() if begin.startswith(mark)), open)
    with opened(path, "rb") as file:
        encoding, notes = _encoding(path, file)
    with opened(path, "rt", encoding=encoding, newline="") as file:
        text = _begin(path, file)
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


def _begin(path: Path, file: IO[str]) -> str:
    """Return the text to examine: the first `HEAD` characters, and all of the first line."""
    text = file.read(HEAD)
    if len(text) < HEAD or "\n" in text or "\r" in text:
        return text
    text += file.readline(LONGEST)
    if len(text) > LONGEST:
        raise InputError(
            f"The first line of {path} has more than {LONGEST:,} characters: it should be a line "
            "of names, with one line for each row below it."
        )
    return text


def read(layout: Layout) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Read the whole file; return its columns and notes."""
    frame = pd.read_csv(layout.path, **layout.options())
    if layout.separator != "," and layout.decimal == "." and any(_has_commas(frame)):
        layout = replace(layout, decimal=",")
        commas = tuple(_has_commas(frame))
        note = f"Commas are decimal, 1,5 is 1.5, as in {_listed(commas)}."
        frame = pd.read_csv(layout.path, **layout.options())
        layout = replace(layout, notes=(*layout.notes, note))
    frame, notes = parse_numbers(frame, layout.decimal)
    return frame, (*layout.notes, *notes)


def parts(layout: Layout, rows: int) -> Iterator[pd.DataFrame]:
    """Read a file in parts of so many `rows`; `layout` says whether commas are decimal."""
    with pd.read_csv(layout.path, chunksize=rows, **layout.options()) as reader:
        for frame in reader:
            yield parse_numbers(frame, layout.decimal)[0]


def parse_numbers(frame: pd.DataFrame, decimal: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Parse numbers with thousands separators, or with decimal commas among words."""
    changed: dict[str, pd.Series[Any]] = {}
    for name in _texts(frame):
        column = frame[name]
        if decimal == ",":
            found = column.str.fullmatch(COMMA) | column.str.fullmatch(POINTS)
            able = found | column.str.fullmatch(WHOLE)
        else:
            found = column.str.fullmatch(THOUSANDS)
            able = found | column.str.fullmatch(UNMARKED)
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
    note = f"'{mark}' marks thousands, 1{mark}234 is 1234, in {_listed(marked)}."
    return frame.assign(**clean), (note,) if marked else ()


def _encoding(path: Path, file: IO[bytes]) -> tuple[str, tuple[str, ...]]:
    """Infer the encoding: by a byte-order mark, else UTF-8 if the file is valid, else Windows."""
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
    """Return the encoding of a file that is not in UTF-8, and a note with an example."""
    data = error.object
    wrong = data.decode("utf-8", "replace").count("�")
    if sum(ord(letter) > 127 for letter in data.decode("utf-8", "ignore")) > wrong:
        line = lines + data[: error.start].count(b"\n") + 1
        raise InputError(f"{path} is in UTF-8, but for line {line}: save it as UTF-8 anew.")
    undefined = any(byte in data for byte in b"\x81\x8d\x8f\x90\x9d")
    name = "latin-1" if undefined else "cp1252"
    around = data[max(error.start - 20, 0) : error.start + 20].decode(name)
    words = [word for word in re.findall(r"\w+", around) if not word.isascii()]
    such = f", such as '{words[0]}'" if words else ""
    return name, (
        f"{path.name} is not in UTF-8: letters are read as Windows and Latin-1 write them{such}; "
        "if they look wrong, save it as UTF-8.",
    )


def _separator(text: str, cut: bool, hint: str | None) -> tuple[str, list[list[str]]]:
    """Return the separator that gives most cells, equally many in each line, and the first rows.

    A separator after which quotes do not end a cell is used only if there is no other.
    """
    found: dict[str, list[list[str]]] = {}
    score: dict[str, tuple[bool, bool, int]] = {}
    for separator in (hint,) if hint else SEPARATORS:
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator,
                           skipinitialspace=True)  # fmt: skip
        rows: list[list[str]] = []
        with suppress(csv.Error):  # a cell may be too long; rows above it will do
            rows += (row for row in lines if row)
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
    lines = text[: text.rfind("\n") + 1] or text  # the last line may be cut
    try:
        for _ in csv.reader(io.StringIO(lines, newline=""), delimiter=separator,
                            skipinitialspace=True, strict=True):  # fmt: skip
            pass
    except csv.Error:
        return False
    return True


def _names(path: Path, rows: list[list[str]]) -> tuple[str, ...]:
    """Return the names of columns; unnamed ones are named as by pandas."""
    first, *others = rows
    named = [name.strip() for name in first]
    if (longest := max(map(len, named))) > LONGEST_NAME:
        raise InputError(
            f"The first line of {path} has a name of {longest:,} characters: it should be a line "
            "of names of columns."
        )
    twice = next((name for name, n in Counter(named).items() if n > 1 and name), None)
    if twice is not None:
        values = UNMARKED.fullmatch(twice)
        what = "if its first line has values, put a line of names above it" if values else (
            "rename or delete one")  # fmt: skip
        raise InputError(f"{path} has more than one column '{shorten(twice)}': {what}.")
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
    """Return the columns of words of which a sample looks like numbers."""
    found = []
    for name in frame.columns:
        if pd.api.types.is_string_dtype(frame[name]):
            words = frame[name].dropna()
            sample = words.iloc[:: max(1, len(words) // SAMPLE)]
            if len(sample) and sample.str.fullmatch(NUMBERLIKE).mean() >= 0.5:
                found.append(name)
    return found


def _has_commas(frame: pd.DataFrame) -> list[str]:
    """Return the columns of numbers with decimal commas."""
    found = []
    for name in _texts(frame):
        column = frame[name].dropna()
        commas = column.str.fullmatch(COMMA)
        able = commas | column.str.fullmatch(WHOLE) | column.str.fullmatch(POINTS)
        if commas.any() and able.sum() >= MOSTLY * len(column):
            found.append(name)
    return found


def _listed(names: tuple[str, ...]) -> str:
    named = ", ".join(f"'{name}'" for name in names[:4])
    return f"{named} and {len(names) - 4} more" if len(names) > 4 else named
