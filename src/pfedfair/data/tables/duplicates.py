"""Detect columns that copy the label or S, in other words or on another scale.

If each value has many rows, a copy has one word for each value. If nearly all values differ, this
holds for any two columns and is no evidence: then a copy has the same order of rows, or the
reversed one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pfedfair.data.tables.cells import floats

COPY = 20  # rows that are evidence of a copy
SLIPS, MOST_SLIPS = 0.01, 10  # of a copy: share of rows that may differ, and extra words
MAX_VALUES = 50  # of a column that may determine another one
MOST_CODES = 20  # numbers that may stand for words: more are compared by their order
MIN_ROWS_PER_VALUE = 4  # on average, for a comparison by words


@dataclass(frozen=True)
class Protected:
    """A column that no input may copy.

    `codes` say which of `n` values each row has; `numbers` are the values of a column of numbers.
    """

    name: str
    codes: np.ndarray
    n: int
    numbers: np.ndarray | None = None

    @classmethod
    def of(cls, name: str, codes: np.ndarray, numbers: np.ndarray | None = None) -> Protected:
        found, values = pd.factorize(codes, sort=True)
        return cls(name, found, len(values), numbers)

    def is_copied(
        self, forms: Sequence[tuple[np.ndarray, int]], column: pd.Series[Any], kind: str
    ) -> bool:
        """Whether a column of this `kind` is a copy, by its values' codes in any of the `forms`."""
        by_order = self.numbers is not None and self.n > MOST_CODES and kind != "text"
        if len(column) >= MIN_ROWS_PER_VALUE * self.n and not by_order:
            return any(same_words(*form, self.codes, self.n) for form in forms)
        if self.numbers is None:
            return False
        values = np.zeros(0) if kind == "date" else floats(column)
        if kind == "date":
            times = column.to_numpy("datetime64[ns]")
            values = np.where(np.isnat(times), np.nan, times.astype(np.float64))
        return same_order(values, self.numbers)


def same_order(cells: np.ndarray, other: np.ndarray) -> bool:
    """Whether two columns of numbers order the rows equally, or in reverse.

    Missing values (NaN) and a few slips are allowed. Both must have about as many distinct numbers.

    >>> same_order(np.arange(30.0), 100 - np.arange(30.0) ** 2)
    True
    """
    present = ~(np.isnan(cells) | np.isnan(other))
    if present.sum() < max(COPY, len(cells) / 2):
        return False
    cells, other = cells[present], other[present]
    different, n = len(np.unique(cells)), len(np.unique(other))
    if n < 2 or abs(different - n) > MOST_SLIPS + SLIPS * n:
        return False
    slips = int(max(1, SLIPS * len(cells)))
    return any(_rises(way[np.lexsort((way, other))], slips) for way in (cells, -cells))


def _rises(values: np.ndarray, slips: int) -> bool:
    """Whether numbers never fall once at most `slips` of them are removed."""
    falls = int((np.diff(values) < 0).sum())
    if falls == 0 or falls > 2 * slips:  # one number makes at most two falls
        return falls == 0
    ends: list[float] = []  # the least end of a row of 1, 2, 3... numbers that never fall
    for value in values.tolist():
        at = bisect_right(ends, value)
        ends[at : at + 1] = [value]
    return len(values) - len(ends) <= slips


def fold_case(cells: np.ndarray, words: Sequence[str]) -> Iterator[tuple[np.ndarray, int]]:
    """Yield the codes and number of words that ignore case and spaces, if this merges any."""
    known: dict[str, int] = {}
    order = [known.setdefault(" ".join(w.casefold().split()), len(known)) for w in words]
    if len(known) < len(words):
        yield np.array([*order, -1], dtype=np.int64)[cells], len(known)


def same_words(cells: np.ndarray, different: int, other: np.ndarray, n: int) -> bool:
    """Whether two columns are equal, perhaps in other words, but for a few slips.

    Missing values are ignored, or are one of the words. Cells are codes from 0 of so many
    `different` values, -1 if missing; `other` has `n` different ones.
    """
    if len(cells) < COPY or different > MOST_SLIPS + n:
        return False
    both = (cells + 1) * n + other
    if (different + 1) * n <= len(cells):
        size = np.bincount(both)
        found = np.flatnonzero(size)
        size = size[found]
    else:  # a table of all pairs would be larger than the columns
        found, size = np.unique(both, return_counts=True)
    word, value = found // n - 1, found % n
    present = word >= 0
    if different + int(not present.all()) == n > 1 and len(found) == n:
        return True
    word, value, size = word[present], value[present], size[present]
    if size.sum() < max(COPY, len(cells) / 2):
        return False
    of_word, of_value = np.zeros(different, dtype=np.int64), np.zeros(n, dtype=np.int64)
    np.add.at(of_word, word, size)
    np.add.at(of_value, value, size)
    n = int(np.count_nonzero(of_value))
    if n < 2 or different < n or different > MOST_SLIPS + n:
        return False
    order = np.lexsort((word, -size, value))
    most = order[np.flatnonzero(np.diff(value[order], prepend=-1))]  # the word for each value
    right = size[most]
    slips = np.maximum(of_value[value[most]], of_word[word[most]]) - right
    allowed = np.maximum(1, SLIPS * right) * (right >= COPY)
    return len(set(word[most].tolist())) == n and bool((slips <= allowed).all())


def determines(cells: np.ndarray, different: int, other: np.ndarray, n: int) -> bool:
    """Whether each of a column's few and frequent values occurs with one value of another."""
    if not 2 <= different <= MAX_VALUES or n > MAX_VALUES:
        return False
    pairs = np.bincount((cells + 1) * n + other, minlength=(different + 1) * n)
    pairs = pairs.reshape(different + 1, n)[1:]  # not of missing values
    pure = bool((np.count_nonzero(pairs, axis=1) == 1).all())
    rows, several = int(pairs.sum(1).min()), int(np.count_nonzero(pairs.sum(0))) > 1
    return pure and rows >= COPY and several
