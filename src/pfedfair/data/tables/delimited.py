"""Infer the layout of delimited text from its content.

Files may have other separators than commas, byte-order marks, compression, or an encoding of
Windows. A note reports each uncertain inference.
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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pfedfair._util.errors import InputError, shorten
from pfedfair._util.limits import Unpacked
from pfedfair.data.tables.cells import DECIMAL, WHOLE

HEAD = 1 << 18  # characters that are examined
LONGEST = 1 << 25  # characters of the first line
LONGEST_NAME = 1 << 16  # characters of a column's name
BLOCK = 1 << 20
SEPARATORS = ("\t", ";", "|", ",")  # of equally good ones the first
ALIKE = 0.9  # of the lines have as many cells as the first, if a separator fits
HINT = re.compile(r'"?sep=(.)"?\s*')  # a first line for spreadsheet programs
MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
PACKED: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}


@dataclass(frozen=True)
class Layout:
    """The format of a text file: the options of pandas' reader, and notes."""

    path: Path
    encoding: str
    separator: str
    names: tuple[str, ...]
    above: int = 0  # lines above the names
    notes: tuple[str, ...] = ()

    def open(self) -> IO[str]:
        """Open the file as text."""
        file = unpacked(self.path, self.path.open("rb"))
        return io.TextIOWrapper(file, encoding=self.encoding, newline="")

    def options(self) -> dict[str, Any]:
        return {
            "sep": self.separator, "encoding": self.encoding, "header": 0,
            "names": list(self.names), "skiprows": self.above, "index_col": False,
            "skipinitialspace": True, "keep_default_na": False,
            "low_memory": False,  # a column has one type
        }  # fmt: skip


def look(path: Path) -> Layout:
    """Infer the format of a file; refuse columns without a unique name."""
    with path.open("rb") as file, unpacked(path, file) as content:
        encoding, notes = _encoding(path, content)
        while content is not file and content.read(BLOCK):
            pass  # the size of all of it is checked before a part of it is used
    with path.open("rb") as file:
        lines = io.TextIOWrapper(unpacked(path, file), encoding=encoding, newline="")
        text = _begin(path, lines)
        cut = bool(lines.read(1))
    if not text.strip():
        raise InputError(f"{path} is empty: it should have a line of names, and one for each row.")
    hint = HINT.fullmatch(text.split("\n", 1)[0])
    if hint:
        text = text.split("\n", 1)[1]
    separator, rows = _separator(text, cut, hint.group(1) if hint else None)
    names = _names(path, rows)
    return Layout(path, encoding, separator, names, int(bool(hint)), notes=notes)


def unpacked(path: Path, file: IO[bytes]) -> IO[bytes]:
    """Return what an opened file unpacks to, at most as much as `check_expansion` allows."""
    begin = file.read(6)
    file.seek(0)
    how = next((how for mark, how in PACKED.items() if begin.startswith(mark)), None)
    return file if how is None else io.BufferedReader(Unpacked(path, file, how), BLOCK)


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
        values = WHOLE.fullmatch(twice) or DECIMAL.fullmatch(twice)
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
