"""How the text of a table is written: numbers, dates, missing values.

1.037 may be 1037, and 31.12.2024 no category. Formats are inferred once, from the training rows,
and are part of a run: every other table is read with them, whatever its file. A cell that cannot be
read with them contradicts the training rows. Columns without a format are categories, whose
spelling is `cells.canonical`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pfedfair._util.errors import InputError, shorten
from pfedfair.data.tables.cells import MISSING, factor, floats, is_number, kind_of, texts

DECIMALS, THOUSANDS = (".", ","), ("", ".", ",", " ", "'")
MOSTLY = 0.95  # share of a column's cells that must have its format
MOST_WORDS = 100  # of a column of numbers or dates that stand for a missing value
NAMED = 4  # columns that a note names
SPACES = "[\u00a0\u2009\u202f]"  # marks of thousands, as a space
CODE = r"^0\d+$"  # leading zeros: a code, no number
BARE = r"^[+-]?\d+[eE]\d+$"  # 1E5 is a code, 1.0E5 and 1E+5 are numbers
# Words that mean a missing value among numbers and dates, in small letters; elsewhere a category.
PLACEHOLDERS = (
    "-", "--", "---", ".", "..", "na", "n.a.", "none", "missing", "unknown", "not available",
)  # fmt: skip
LEAST = 0.5  # share of a column's cells that are numbers, if the others are placeholders
FRACTION = r"\.|[eE][+-]"  # no code
INFINITE = r"(?i)^[+-]?inf(inity)?$"
DATE = {
    "ymd": r"(?P<y>\d{4})[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})",
    "dmy": r"(?P<d>\d{1,2})(?P<mark>[-/.])(?P<m>\d{1,2})(?P=mark)(?P<y>\d{4})",
    "mdy": r"(?P<m>\d{1,2})(?P<mark>[-/])(?P<d>\d{1,2})(?P=mark)(?P<y>\d{4})",
}
ISO = "ymd"
EXAMPLE = {"ymd": "2024-12-31", "dmy": "31.12.2024", "mdy": "12/31/2024"}
SWAPPED = {"dmy": "mdy", "mdy": "dmy"}
TIME = r"(?:[ T](?P<time>\d.*))?"
ZONE = re.compile(r"([ T]\d\d?(?::\S*?)?) ?(?:[zZ]|[+-]\d\d(?::?\d\d)?)$")
SAMPLE = 1000  # words that are examined for dates


class Read(NamedTuple):
    """A column's values, and which cells have a value that the format cannot read."""

    values: Any
    odd: np.ndarray


@dataclass(frozen=True)
class NumberFormat:
    """Numbers with this `decimal` mark, and perhaps a mark between `thousands`.

    Attributes
    ----------
    missing
        Words of the training rows that count as missing values, besides `cells.MISSING`.
    """

    decimal: str = "."
    thousands: str = ""
    missing: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """What cells are, with an example."""
        return f"number like 1{self.thousands}234{self.decimal}5"

    @cached_property
    def pattern(self) -> str:
        decimal, mark = map(re.escape, (self.decimal, self.thousands))
        whole = rf"([1-9]\d{{0,2}}({mark}\d{{3}})+|\d+)" if mark else r"\d+"
        return rf"^[+-]?({whole}({decimal}\d*)?|{decimal}\d+)([eE][+-]?\d+)?$"

    @property
    def is_plain(self) -> bool:
        """Whether numbers are written as in most programs."""
        return self.decimal == "." and not self.thousands

    def unmarked(self, words: pa.Array) -> pa.Array:
        """Return words with a decimal point and without marks of thousands."""
        if self.thousands in (" ", "'"):
            words = pc.replace_substring_regex(words, SPACES, " ")
            words = pc.replace_substring(words, "’", "'")
        if self.thousands:
            words = pc.replace_substring(words, self.thousands, "")
        return words if self.decimal == "." else pc.replace_substring(words, self.decimal, ".")

    def matches(self, words: pa.Array) -> np.ndarray:
        """Whether words are numbers of this format."""
        if self.thousands in (" ", "'"):
            words = pc.replace_substring_regex(words, SPACES, " ")
            words = pc.replace_substring(words, "’", "'")
        return _flags(pc.match_substring_regex(words, self.pattern))

    def read(self, column: pd.Series[Any]) -> Read:
        """Return the numbers of a column, NaN for a missing value."""
        if is_number(column):
            return Read(floats(column), np.zeros(len(column), bool))
        if column.dtype == object:
            kinds = column.map(_is_numeric).to_numpy(bool)
            if kinds.any():  # numbers among words
                found, odd = np.full(len(column), np.nan), np.zeros(len(column), bool)
                found[kinds] = floats(pd.Series(column[kinds].astype(np.float64)))
                found[~kinds], odd[~kinds] = self.read(column[~kinds].astype("str"))
                return Read(found, odd)
        words = texts(column)
        try:
            values = pc.cast(words, pa.float64()) if self.is_plain else None
        except pa.ArrowException:
            values = None
        odd = np.zeros(len(column), bool)
        if values is None:
            able = self.matches(words)
            clean = pc.if_else(pa.array(able), self.unmarked(words), None)
            values = pc.cast(clean, pa.float64())
            odd = ~able & _present(words, self.missing)
        return Read(floats(pd.Series(values.to_numpy(zero_copy_only=False))), odd)


@dataclass(frozen=True)
class DateFormat:
    """Dates whose day, month and year have this `order`; see `NumberFormat` for `missing`."""

    order: str = ISO
    missing: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """What cells are, with an example."""
        return f"date like {EXAMPLE[self.order]}"

    def read(self, column: pd.Series[Any]) -> Read:
        """Return the local times of a column, NaT for a missing value."""
        none = np.zeros(len(column), bool)
        if pd.api.types.is_datetime64_any_dtype(column):
            if isinstance(column.dtype, pd.ArrowDtype):
                column = _unwrapped(column)
            return Read(column.dt.tz_localize(None), none)
        words = texts(column)
        codes, seen = pd.factorize(pd.Series(words.to_pandas(), dtype=object))
        times = _times([*seen, np.nan], self.order)
        if self.order != ISO:  # which has one meaning in every table
            times = times.fillna(_times([*seen, np.nan], ISO))
        found = times.take(codes).array  # -1 is the last
        odd = pd.isna(found) & _present(words, self.missing)
        return Read(pd.Series(found, index=column.index, name=column.name), np.asarray(odd))


Format = NumberFormat | DateFormat


class Odd(NamedTuple):
    """Cells of a column that contradict the training rows: which rows, one of them, and why."""

    rows: np.ndarray
    word: str
    why: str

    def words(self, column: str) -> str:
        """Describe a cell."""
        return f"{column} is '{shorten(self.word)}', {self.why} as in training"

    def joined(self, other: Odd | None) -> Odd:
        """Return these cells and others of the same column, described by the others."""
        return self if other is None else other._replace(rows=self.rows | other.rows)


@dataclass(frozen=True)
class Formats:
    """The formats of a table's columns of numbers and dates."""

    columns: Mapping[str, Format] = field(default_factory=dict)

    def convert(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Odd]]:
        """Return a table with numbers and times in these columns; and cells that are none."""
        changed: dict[str, Any] = {}
        found: dict[str, Odd] = {}
        for name, format in self.columns.items():
            if name not in frame or _is_read(frame[name], format):
                continue
            changed[name], odd = format.read(frame[name])
            if odd.any():
                word = str(frame[name].iloc[int(odd.argmax())]).strip()
                found[name] = Odd(odd, word, f"no {format.what}")
        return (frame.assign(**changed) if changed else frame), found

    def of(self, columns: Iterable[str]) -> Formats:
        """Return the formats of some columns."""
        return Formats({c: self.columns[c] for c in columns if c in self.columns})

    def to_dict(self) -> dict[str, Any]:
        return {name: asdict(format) for name, format in self.columns.items()}

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> Formats:
        """Create formats from their `to_dict`, perhaps read from JSON."""
        found: dict[str, Format] = {}
        for name, one in about.items():
            missing = tuple(map(str, one["missing"]))
            if "order" in one:
                found[name] = DateFormat(_one_of(one["order"], DATE), missing)
            else:
                decimal, thousands = one["decimal"], one["thousands"]
                marks = _one_of(decimal, DECIMALS), _one_of(thousands, THOUSANDS)
                found[name] = NumberFormat(*marks, missing)
        return cls(found)

    @classmethod
    def usual(cls, numbers: Iterable[str], dates: Iterable[str]) -> Formats:
        """Return the formats of columns of which nothing else is known."""
        return cls(dict.fromkeys(numbers, NumberFormat()) | dict.fromkeys(dates, DateFormat()))


def _one_of(value: Any, known: Collection[str]) -> str:
    """Return a value that a file may have; raise ValueError for any other."""
    if value not in known:
        raise ValueError(f"a format has '{value}', which is none of {', '.join(known)}")
    return str(value)


def infer(
    frame: pd.DataFrame, columns: Iterable[str], codes: Collection[str] = (), separator: str = ","
) -> tuple[Formats, tuple[str, ...]]:
    """Infer the formats of columns from the training rows; return them and notes.

    Columns in `codes` are categories. 1,037 by itself is ambiguous: it is 1037 if other columns
    do not show decimal commas, and if the cells of the file are separated by commas.
    """
    words: dict[str, pa.Array] = {}
    found: dict[str, Format] = {}
    for name in columns:
        column = frame[name]
        if name in codes or pd.api.types.is_bool_dtype(column):
            continue
        if is_number(column):
            found[name] = NumberFormat()
        elif pd.api.types.is_datetime64_any_dtype(column):
            found[name] = DateFormat()
        elif not isinstance(column.dtype, pd.CategoricalDtype):
            cells = texts(column)
            words[name] = cells.filter(pa.array(_present(cells)))
    commas = _has_decimal_commas(words.values(), separator)
    ambiguous = []
    for name, cells in words.items():
        cells = _without_placeholders(cells)
        number = _number_format(cells, commas)
        if number is not None:
            found[name] = number
        elif order := _date_order(cells):
            if order == "ambiguous":
                ambiguous.append(name)
            else:
                found[name] = DateFormat(order)
    notes = list(_notes(found, words))
    if ambiguous:
        notes.append(
            f"Dates in {_listed(ambiguous)} may be day/month or month/day: they are categories; "
            "write them as 2024-12-31."
        )
    return Formats(found), tuple(notes)


def _without_placeholders(words: pa.Array) -> pa.Array:
    """Return words without those that mean a missing value among numbers, if others are most."""
    gone = _flags(pc.is_in(pc.utf8_lower(words), pa.array(PLACEHOLDERS)))
    return words.filter(pa.array(~gone)) if 0 < gone.sum() <= (1 - LEAST) * len(words) else words


def _notes(formats: Mapping[str, Format], words: Mapping[str, pa.Array]) -> Iterator[str]:
    """Describe marks and orders that another reader might read otherwise."""
    numbers = {c: f for c, f in formats.items() if isinstance(f, NumberFormat) and c in words}
    commas = [c for c, f in numbers.items() if f.decimal == "," and _has(words[c], ",")]
    if commas:
        yield f"Commas are decimal, 1,5 is 1.5, as in {_listed(commas)}."
    for mark in dict.fromkeys(f.thousands for f in numbers.values() if f.thousands):
        marked = [c for c, f in numbers.items() if f.thousands == mark and _has(words[c], mark)]
        if marked:
            yield f"'{mark}' marks thousands, 1{mark}234 is 1234, in {_listed(marked)}."
    for order, example in EXAMPLE.items():
        dates = [c for c, f in formats.items() if f == DateFormat(order)]
        if dates and order != ISO:
            yield f"Dates are written as {example} in {_listed(dates)}."


def _has(words: pa.Array, mark: str) -> bool:
    return bool(pc.any(pc.match_substring(words, mark)).as_py())


def typed(frame: pd.DataFrame, codes: Collection[str] = ()) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return a table with the numbers and dates that its own cells show; and notes.

    Other words among these are missing values, but columns of `codes` with such stay as they are.
    """
    formats, notes = infer(
        frame, list(map(str, frame)), separator=frame.attrs.get("separator", ",")
    )
    found, odd = formats.convert(frame)
    return found.assign(**{c: frame[c] for c in odd if c in codes}), notes


def with_missing_words(formats: Formats, frame: pd.DataFrame, odd: Mapping[str, Odd]) -> Formats:
    """Return the formats to which words of training rows are missing values."""
    columns = dict(formats.columns)
    for name, cells in odd.items():
        seen = texts(frame[name][cells.rows]).unique().to_pylist()[:MOST_WORDS]
        format = columns[name]
        columns[name] = type(format)(**asdict(format) | {"missing": (*format.missing, *seen)})
    return Formats(columns)


def of_other_kinds(column: pd.Series[Any], rows: np.ndarray, known: Collection[str]) -> Odd | None:
    """Return which of these rows' cells are of no kind that the `known` categories are.

    True or false, say, where training rows had yes and no: the column is written in another way.
    """
    kinds = {kind_of(word) for word in known}
    codes, words = factor(column[rows])
    is_odd = np.array([*(kind_of(word) not in kinds for word in words), False])[codes]
    if not is_odd.any():
        return None
    found = np.zeros(len(column), bool)
    found[np.flatnonzero(rows)[is_odd]] = True
    return Odd(found, words[codes[is_odd.argmax()]], f"not {' or '.join(sorted(kinds))}")


def doubtful(formats: Formats, frame: pd.DataFrame, odd: Mapping[str, Odd]) -> dict[str, Odd]:
    """Return the cells that an `odd` one makes doubtful: if it is 10,5, then 1,037 may be 1.037.

    Where commas are decimal in one cell, those of other cells need not mark thousands; so for
    points. If a cell is 25/12/2024, the date 05/12/2024 of another need not be of May.
    """
    numbers = {c: f for c, f in formats.columns.items() if isinstance(f, NumberFormat)}
    decimal = {mark for c in odd if c in numbers
               if (mark := _other_decimal(numbers[c], texts(frame[c][odd[c].rows])))}  # fmt: skip
    found = {}
    for name, format in numbers.items():
        if format.thousands in decimal and name in frame and not is_number(frame[name]):
            cells = texts(frame[name])
            rows = _flags(pc.match_substring(cells, format.thousands)) & format.matches(cells)
            if rows.any():
                word = cells[int(rows.argmax())].as_py()
                why = f"which may be no number with '{format.thousands}' between thousands"
                found[name] = Odd(rows, word, why)
    for name in odd:
        order = SWAPPED.get(getattr(formats.columns[name], "order", ""))
        if order and _times(texts(frame[name][odd[name].rows]).to_pylist(), order).notna().any():
            times = _times(texts(frame[name]).to_pylist(), order)
            word = str(frame[name].iloc[int(times.notna().argmax())]).strip()
            found[name] = Odd(times.notna().to_numpy(), word, "which may be no date")
    return found


def _other_decimal(format: NumberFormat, words: pa.Array) -> str:
    """Return the decimal mark that words show, if it is not that of a format, or ""."""
    own, other = format.decimal, "." if format.decimal == "," else ","
    shown = NumberFormat(other, own).matches(words) & ~NumberFormat(own, other).matches(words)
    return other if shown.any() else ""


def refuse(odd: Mapping[str, Odd], rows: int, what: str = "The rows") -> None:
    """Refuse cells that the formats of the training rows cannot read."""
    for column, cells in odd.items():
        number = int(cells.rows.sum())
        raise InputError(
            f"{what}: {cells.words(column)}, and so are {number:,} of {rows:,} cells: write them "
            "as in the training rows, or leave them empty if they mean a missing value."
        )


def _is_numeric(cell: Any) -> bool:
    return isinstance(cell, int | float | np.number) and not isinstance(cell, bool | np.bool_)


def _is_read(column: pd.Series[Any], format: Format) -> bool:
    """Whether a column has the type already that its format reads."""
    if isinstance(format, NumberFormat):
        return is_number(column)
    return pd.api.types.is_datetime64_dtype(column)


def _unwrapped(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return times that Arrow holds as those of pandas."""
    found = pa.array(column).to_pandas().array
    return pd.Series(pd.to_datetime(found), index=column.index, name=column.name)


def _present(words: pa.Array, missing: Collection[str] = ()) -> np.ndarray:
    """Whether words are values, and not missing."""
    values = pa.array([*MISSING, *missing], pa.string())
    gone = _flags(pc.is_null(words)) | _flags(pc.is_in(words, values))
    return np.asarray(~(gone | _flags(pc.match_substring_regex(words, INFINITE))))


def _flags(flags: pa.Array) -> np.ndarray:
    """Return Booleans; a null is false."""
    return np.asarray(pc.fill_null(flags, False).to_numpy(zero_copy_only=False), dtype=bool)


def _has_decimal_commas(columns: Iterable[pa.Array], separator: str) -> bool:
    """Whether a table's numbers have decimal commas."""
    doubtful = False
    for words in columns:
        commas = words.filter(pc.match_substring(words, ","))
        if not len(commas):
            continue
        as_decimal = [NumberFormat(",", mark).matches(words) for mark in (".", " ", "'")]
        if np.any(as_decimal, axis=0).mean() < MOSTLY:
            continue
        if (~NumberFormat(".", ",").matches(commas)).any() or _has_zero(commas):
            return True
        doubtful = True
    return doubtful and separator != ","


def _has_zero(words: pa.Array) -> bool:
    """Whether a word such as 0,125 or 0123,5 shows that its comma is decimal."""
    return bool(pc.any(pc.match_substring_regex(words, r"^[+-]?0\d*,")).as_py())


def _number_format(words: pa.Array, commas: bool) -> NumberFormat | None:
    """Return the format of words if most of them are numbers, and none is a code."""
    if not len(words) or pc.any(pc.match_substring_regex(words, CODE)).as_py():
        return None
    plain = [NumberFormat(".", mark) for mark in ("", ",", " ", "'")]
    decimal = [NumberFormat(",", mark) for mark in (".", " ", "'")] if commas else []
    bare = _flags(pc.match_substring_regex(words, BARE))
    best, most = None, 0.0
    for format in (*decimal, *plain):
        share = float(format.matches(words).mean())
        if share > most:
            best, most = format, share
        if most == 1:
            break
    if bare.any() and (most < 1 or not pc.any(pc.match_substring_regex(words, FRACTION)).as_py()):
        most -= bare.mean()
    return best if most >= MOSTLY else None


def _date_order(words: pa.Array) -> str:
    """Return the order of most words' dates; "" if they are none, or "ambiguous"."""
    seen = words.unique()
    sample = pd.Series(seen.to_pylist()[:: max(1, len(seen) // SAMPLE)], dtype=object)
    least = max(MOSTLY * len(sample), 1)
    for order in ("ymd", "dmy"):
        parts = sample.astype(object).str.extract(f"^{DATE[order]}{TIME}$").dropna(subset=["y"])
        if len(parts) < least:
            continue
        if order == "ymd":
            return order if _times(sample, order).notna().sum() >= least else ""
        first, second = parts["d"].astype(int), parts["m"].astype(int)
        is_dotted = (parts["mark"] == ".").all()
        if is_dotted or ((first > 12).any() and (second <= 12).all()):
            return "dmy" if _times(sample, "dmy").notna().sum() >= least else ""
        if (second > 12).any() and (first <= 12).all():
            return "mdy" if _times(sample, "mdy").notna().sum() >= least else ""
        return "ambiguous" if max(first.max(), second.max()) <= 12 else ""
    return ""


def _times(words: Iterable[Any], order: str) -> pd.Series[Any]:
    """Return the local times of words, NaT where they are none."""
    cells = pd.Series(list(words), dtype=object).str.replace(ZONE, r"\1", regex=True)
    parts = cells.str.extract(f"^{DATE[order]}{TIME}$")
    iso = parts["y"] + "-" + parts["m"].str.zfill(2) + "-" + parts["d"].str.zfill(2)
    timed = parts["time"].notna()
    iso = iso.where(~timed, iso + "T" + parts["time"])
    return pd.to_datetime(iso, format="ISO8601", errors="coerce")


def _listed(names: Collection[str]) -> str:
    named = ", ".join(f"'{name}'" for name in [*names][:NAMED])
    return f"{named} and {len(names) - NAMED} more" if len(names) > NAMED else named
