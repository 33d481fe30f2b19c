"""Parts of times: the year is a number; month, weekday and hour are categories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError
from pfedfair.data.tables.formats import DateFormat

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PARTS = ("year", "month", "weekday", "hour")


def _times(column: pd.Series[Any]) -> tuple[np.ndarray, pd.Series[Any]]:
    """Number the distinct times of a column; return the numbers, and each time."""
    codes, seen = pd.factorize(DateFormat().read(column).values, use_na_sentinel=False)
    return codes, pd.Series(seen)


def name_of(column: str, part: str) -> str:
    """Return the name of a part, as if it were a column."""
    return f"{column} ({part})"


def part_of(column: pd.Series[Any], part: str) -> pd.Series[Any]:
    """Return a part of the dates: the year with its fraction, or the month, weekday or hour."""
    codes, times = _times(column)
    time = times.dt
    if part == "year":
        found = time.year + (time.day_of_year - 1) / 366
    elif part == "weekday":
        found = time.day_of_week.map(dict(enumerate(DAYS)))
    else:
        found = time.month if part == "month" else time.hour
    return pd.Series(found.take(codes).array, index=column.index, name=column.name)


def base_of(name: str) -> tuple[str, str]:
    """Return the column and the part that a name means; the part is "" for a column."""
    base, _, part = name.rpartition(" (")
    return (base, part[:-1]) if part.endswith(")") and part[:-1] in PARTS else (name, "")


def column_of(frame: pd.DataFrame, name: str) -> pd.Series[Any] | None:
    """Return a column by its name, or a part of one; None if it does not exist."""
    if name in frame:
        return frame[name]
    base, part = base_of(name)
    return part_of(frame[base], part) if part in PARTS and base in frame else None


def require_column(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    """Return an input column, or a part of one; raise if it is missing."""
    found = column_of(frame, name)
    if found is None:
        raise InputError(f"The rows lack the column '{base_of(name)[0]}', an input of the model.")
    return found


def parts_of(column: pd.Series[Any], every: bool = False) -> list[str]:
    """Return the parts in which the dates of a column differ, or `every` possible part."""
    times = _times(column)[1].dropna()
    timed = bool((times.dt.normalize() != times).any())
    able = PARTS if timed else PARTS[:-1]
    return [p for p in able if every or part_of(column, p).nunique() > 1]
