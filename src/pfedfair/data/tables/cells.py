"""The value of a cell of a table, independent of the program that read it.

The codes 1, "1" and 1.0 are equal; so are True and "true". Cells without a word or number
are missing values.
"""

from __future__ import annotations

import re
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError

EMPTY = frozenset({"", "?", "nan", "<na>"})  # words for a missing value
WHOLE = re.compile(r"[+-]?\d+(\.0*)?")
LARGEST = 1e300  # larger numbers count as this one: sums and differences stay finite
DECIMAL = re.compile(r"[+-]?((\d+\.\d*|\.\d+)([eE][+-]?\d+)?|\d+[eE][+-]\d+)")  # 1e5 is a code


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
    word = str(cell).strip()
    lower = word.lower()
    if lower in EMPTY:
        return None
    if lower in ("true", "false"):
        return lower.title()
    if WHOLE.fullmatch(word):
        return str(int(word.partition(".")[0]))
    return canonical(float(word)) if DECIMAL.fullmatch(word) else word


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
    for cell in seen:
        word = canonical(cell)
        order.append(-1 if word is None else known.setdefault(word, len(known)))
    return np.array([*order, -1], dtype=np.int64)[codes], list(known)


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
