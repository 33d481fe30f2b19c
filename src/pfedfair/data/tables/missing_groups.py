"""Rows whose sensitive attribute is missing: leave them out, make a group of them, or refuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError, known, option
from pfedfair.data.tables.cells import canonical, factor

EXCLUDE, GROUP, REFUSE = WAYS = ("exclude", "group", "refuse")
NAME = "missing"  # the value that a missing one counts as with `GROUP`
# Words that readers of files turn into missing values, in small letters.
READ_AS_MISSING = frozenset({"", "na", "n/a", "#n/a", "#na", "<na>", "null", "none", "nan"})


@dataclass(frozen=True)
class Missing:
    """How missing values of S are treated: one of `WAYS`, and further `unknown` words for them."""

    way: str = EXCLUDE
    unknown: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known("way to treat missing sensitive values", self.way, WAYS)

    def mask(self, frame: pd.DataFrame, attributes: Sequence[str]) -> pd.DataFrame:
        """Return the sensitive columns where the `unknown` words are missing values."""
        return pd.DataFrame({c: self._masked(frame[c]) for c in attributes}, index=frame.index)

    def _masked(self, column: pd.Series[Any]) -> pd.Series[Any]:
        if not self.unknown:
            return column
        words = {(canonical(word) or "").lower() for word in self.unknown}
        codes, values = factor(column)
        is_unknown = np.array([*(value.lower() in words for value in values), False])[codes]
        return column.mask(is_unknown)

    def never_found(self, frame: pd.DataFrame, attributes: Sequence[str]) -> list[str]:
        """Return the `unknown` words that no row has."""
        found = {value.lower() for c in attributes for value in factor(frame[c])[1]}
        words = {word: (canonical(word) or "").lower() for word in self.unknown}
        return [word for word, key in words.items() if key not in found | READ_AS_MISSING]


def fill(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column whose missing values are `NAME`."""
    missing = factor(column)[0] == -1
    if not missing.any():
        return column
    if isinstance(column.dtype, pd.CategoricalDtype):
        categories = column.cat.categories.union([NAME], sort=False)
        return column.cat.set_categories(categories).mask(missing, NAME)
    return column.astype(object).mask(missing, NAME)


def known_rows(columns: pd.DataFrame) -> np.ndarray:
    """Return which rows have a value in every column."""
    present = [factor(columns[c])[0] >= 0 for c in columns]
    found: np.ndarray = np.all(present, axis=0)
    if len(found) and not found.any():
        raise InputError(
            f"No row has a value of S ('{','.join(map(str, columns))}'): name another column."
        )
    return found


def note(excluded: int, rows: int, sensitive: str) -> str:
    """Return the note on rows that are left out."""
    return (
        f"{words(excluded, rows, sensitive)}, of training and of every measurement; "
        f"{option('missing_sensitive', GROUP)} makes a group of them."
    )


def words(excluded: int, rows: int, sensitive: str) -> str:
    """Return how many rows of all are left out.

    >>> words(1, 50, "sex"), words(1200, 6000, "sex,race")
    ("1 of 50 rows without a value of 'sex' is left out", \
"1,200 of 6,000 rows without a value of 'sex,race' are left out")
    """
    verb = "is" if excluded == 1 else "are"
    return f"{excluded:,} of {rows:,} rows without a value of '{sensitive}' {verb} left out"
