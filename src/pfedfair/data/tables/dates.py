"""Parts of dates and times: the year is a number; month, weekday and hour are categories."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError

DATE = re.compile(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}([ T]\d.*)?")
ZONE = re.compile(r"(\d:\d\d\S*?) ?(?:[zZ]|[+-]\d\d(?::?\d\d)?)$")
MOST = 1000  # words that are examined
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PARTS = ("year", "month", "weekday", "hour")


def are_dates(words: list[str], mostly: float = 1.0) -> bool:
    """Whether texts, or most of them, are dates such as 2024-01-31, perhaps with times."""
    sample = words[:: max(1, len(words) // MOST)]
    like = [word for word in sample if DATE.fullmatch(word)]
    least = max(mostly * len(sample), 1)
    return len(like) >= least and int(read(pd.Series(like)).notna().sum()) >= least


def read(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return the local times of a column; cells that cannot be read are missing."""
    codes, times = _times(column)
    return pd.Series(times.take(codes).array, index=column.index)


def _times(column: pd.Series[Any]) -> tuple[np.ndarray, pd.Series[Any]]:
    """Number the distinct cells of a column; return the numbers, and the time of each."""
    if pd.api.types.is_datetime64_any_dtype(column):
        codes, seen = pd.factorize(column.dt.tz_localize(None), use_na_sentinel=False)
        return codes, pd.Series(seen)
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    words = column
    if not isinstance(column.dtype, pd.StringDtype):
        words = column.astype(object).where(column.notna(), None).map(str, na_action="ignore")
    codes, seen = pd.factorize(words, use_na_sentinel=False)
    each = pd.Series(seen).astype(object)
    each = each.where(each.notna(), None).str.replace(ZONE, r"\1", regex=True)
    return codes, pd.to_datetime(each, format="ISO8601", errors="coerce")


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
    times = read(column).dropna()
    timed = bool((times.dt.normalize() != times).any())
    able = PARTS if timed else PARTS[:-1]
    return [p for p in able if every or part_of(column, p).nunique() > 1]
