"""The value of a cell of a table, independent of the file or program that it comes from.

The codes 1, "1", "01" and 1.0 are equal; so are True and "true". One list of words means a missing
value, in every format.
"""

from __future__ import annotations

import re
from datetime import datetime, time
from numbers import Integral, Real
from typing import Any
from unicodedata import normalize

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pfedfair._util.errors import InputError

# Words for a missing value; "?" is that of older data sets, the others are those of pandas.
MISSING = (
    "", "?", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "<na>", "N/A", "NA", "NAN", "NULL", "NaN", "Nan", "None", "n/a", "nan", "null",
)  # fmt: skip
WHOLE = re.compile(r"[+-]?\d+(\.0*)?", re.ASCII)
LARGEST = 1e300  # larger numbers count as this one: sums and differences stay finite
# 1e5 is a code
DECIMAL = re.compile(r"[+-]?((\d+\.\d*|\.\d+)([eE][+-]?\d+)?|\d+[eE][+-]\d+)", re.ASCII)
ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:.*)?", re.ASCII)
_MISSING = frozenset(MISSING)


def canonical(cell: Any) -> str | None:
    """Return one text for all spellings of a value; None for a missing value.

    >>> [canonical(cell) for cell in (1, "1", 1.0, " 01 ", "1.0", True, "TRUE", 0.5, "a b", "?")]
    ['1', '1', '1', '1', '1', 'True', 'True', '0.5', 'a b', None]
    >>> canonical("0.00005"), canonical("5.0E-5"), canonical(np.float32(0.1)), canonical("3E5")
    ('5e-05', '5e-05', '0.1', '3E5')
    """
    if cell is None or cell is pd.NA or cell is pd.NaT:
        return None
    if isinstance(cell, bool | np.bool_):
        return str(bool(cell))
    if isinstance(cell, Integral):
        return str(int(cell))
    if isinstance(cell, Real):
        number = float(str(cell)) if isinstance(cell, np.floating) else float(cell)
        if np.isnan(number):
            return None
        return str(int(number)) if number.is_integer() else repr(number)
    if isinstance(cell, datetime) and cell.tzinfo is None and cell.time() == time():
        return cell.date().isoformat()
    word = (cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)).strip()
    word = word if word.isascii() else normalize("NFC", word)
    if word in _MISSING:
        return None
    if (lower := word.lower()) in ("true", "false"):
        return lower.title()
    if WHOLE.fullmatch(word):
        return str(int(word.partition(".")[0]))
    return canonical(float(word)) if DECIMAL.fullmatch(word) else word


def kind_of(word: str) -> str:
    """Return what a canonical word is: a number, "true or false", a date or a word.

    >>> [kind_of(word) for word in ("12", "0.5", "True", "2024-01-31", "red")]
    ['a number', 'a number', 'true or false', 'a date', 'a word']
    """
    if word in ("True", "False"):
        return "true or false"
    if WHOLE.fullmatch(word) or DECIMAL.fullmatch(word):
        return "a number"
    return "a date" if ISO_DATE.fullmatch(word) else "a word"


def order(word: str) -> tuple[bool, float, str]:
    """Return a sort key of words: numbers come first, by value."""
    number = bool(WHOLE.fullmatch(word) or DECIMAL.fullmatch(word))
    return not number, float(word) if number else 0.0, word


def factor(column: pd.Series[Any]) -> tuple[np.ndarray, list[str]]:
    """Number the values of a column, -1 for missing values; return the numbers and the values."""
    try:
        codes, seen = pd.factorize(column)
    except TypeError:
        raise InputError(
            f"Column '{column.name}' holds lists or the like: make numbers or words of them, or "
            "drop it."
        ) from None
    known: dict[str, int] = {}
    order = []
    # An index in single precision would yield its numbers in double.
    for cell in seen.to_numpy() if is_single(seen.dtype) else seen:
        word = canonical(cell)
        order.append(-1 if word is None else known.setdefault(word, len(known)))
    return np.array([*order, -1], dtype=np.int64)[codes], list(known)


def is_single(kind: Any) -> bool:
    """Whether a type is that of floating-point numbers of less than double precision."""
    if isinstance(kind, pd.CategoricalDtype):
        kind = kind.categories.dtype
    if isinstance(kind, pd.ArrowDtype):
        return kind.pyarrow_dtype in (pa.float16(), pa.float32())
    return isinstance(kind, np.dtype) and kind.kind == "f" and kind.itemsize < 8


def is_number(column: pd.Series[Any]) -> bool:
    """Whether a column's type is one of numbers."""
    types = pd.api.types
    numeric = types.is_numeric_dtype(column) and not types.is_bool_dtype(column)
    return bool(numeric or types.is_timedelta64_dtype(column))


def floats(column: pd.Series[Any]) -> np.ndarray:
    """Return the numbers of a column; NaN where a cell is missing, infinite or no number."""
    if pd.api.types.is_timedelta64_dtype(column):
        values = column.dt.total_seconds().to_numpy(np.float64)
    elif not pd.api.types.is_numeric_dtype(column):
        codes, words = factor(column)
        read = pd.to_numeric(pd.Series([*words, ""], dtype=object), errors="coerce")
        values = read.to_numpy(np.float64)[codes]
    else:
        if pd.api.types.is_complex_dtype(column):
            raise InputError(f"Column '{column.name}' holds complex numbers: take them apart.")
        values = column.to_numpy(np.float64, na_value=np.nan)
    found = np.where(np.isfinite(values), values, np.nan)
    return np.clip(found, -LARGEST, LARGEST, out=found)


def texts(column: pd.Series[Any]) -> pa.Array:
    """Return a column's cells as text, without blanks around them; missing cells are null."""
    return pc.utf8_trim_whitespace(written(column))


def written(column: pd.Series[Any]) -> pa.Array:
    """Return a column's cells as text; missing cells are null.

    Numbers are written as briefly as possible: 5.0 as 5.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    try:
        found = pa.array(column, from_pandas=True)
        found = found if pa.types.is_string(found.type) else found.cast(pa.string())
    except (pa.ArrowException, TypeError):  # cells of several types
        try:
            brief = column.map(_brief, na_action="ignore")
        except ValueError:
            raise InputError(
                f"Column '{column.name}' holds lists or the like: make numbers or words of them, "
                "or drop it."
            ) from None
        found = pa.array(brief, pa.string(), from_pandas=True)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _brief(cell: Any) -> str:
    if isinstance(cell, list | dict | tuple | np.ndarray):
        raise ValueError(cell)
    whole = isinstance(cell, float | np.floating) and float(cell).is_integer()
    return str(int(cell)) if whole else str(cell)
