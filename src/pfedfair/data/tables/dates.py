"""Dates and times, taken apart: the year is a number, month, weekday and hour are categories."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError

DATE = re.compile(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}([ T]\d.*)?")
ZONE = re.compile(r"(\d:\d\d\S*?) ?(?:[zZ]|[+-]\d\d(?::?\d\d)?)$")
MOST = 1000  # words that are looked at
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PARTS = ("year", "month", "weekday", "hour")


def are_dates(words: list[str], mostly: float = 1.0) -> bool:
    """Whether texts, or most of them, are dates such as 2024-01-31, perhaps with times."""
    some = words[:: max(1, len(words) // MOST)]
    like = [word for word in some if DATE.fullmatch(word)]
    least = max(mostly * len(some), 1)
    return len(like) >= least and int(read(pd.Series(like)).notna().sum()) >= least


def read(column: pd.Series[Any]) -> pd.Series[Any]:
    """The times of a column, by the clock of their own zone; what cannot be read is none."""
    codes, times = _times(column)
    return pd.Series(times.take(codes).array, index=column.index)


def _times(column: pd.Series[Any]) -> tuple[np.ndarray, pd.Series[Any]]:
    """Number the different cells of a column; return the numbers, and the time that each means."""
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
    """How a part is called, as if it were a column."""
    return f"{column} ({part})"


def part_of(column: pd.Series[Any], part: str) -> pd.Series[Any]:
    """A part of the dates: the year with its fraction, or the month, weekday or hour."""
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
    """The column and the part that a name means; the part is "" if it is a column."""
    base, _, part = name.rpartition(" (")
    return (base, part[:-1]) if part.endswith(")") and part[:-1] in PARTS else (name, "")


def column_of(frame: pd.DataFrame, name: str) -> pd.Series[Any] | None:
    """A column by its name, or a part of one; None if there is none such."""
    if name in frame:
        return frame[name]
    base, part = base_of(name)
    return part_of(frame[base], part) if part in PARTS and base in frame else None


def needed(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    """A column that is an input, or a part of one."""
    found = column_of(frame, name)
    if found is None:
        raise InputError(f"The rows lack the column '{base_of(name)[0]}', an input of the model.")
    return found


def parts_of(column: pd.Series[Any], every: bool = False) -> list[str]:
    """The parts in which the dates of a column differ; `every` part that other rows may have."""
    times = read(column).dropna()
    timed = bool((times.dt.normalize() != times).any())
    able = PARTS if timed else PARTS[:-1]
    return [p for p in able if every or part_of(column, p).nunique() > 1]
