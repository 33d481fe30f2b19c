"""Summaries of clients' columns: counts of values and of categories, and sums of them.

Summaries of several clients add up to that of all their rows. A summary has every value; before
one leaves a site, its rare values are pooled, see `engines.site.rare_values`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pfedfair.data.dataset import Dataset
from pfedfair.data.tables.cells import factor, floats
from pfedfair.data.tables.dates import require_column


@dataclass(frozen=True, eq=False)
class Values:
    """A column of numbers: its sorted distinct values, the rows of each, the missing values."""

    values: np.ndarray
    counts: np.ndarray
    empty: int

    @classmethod
    def of(cls, column: pd.Series[Any]) -> Values:
        """Count a column's values."""
        cells = floats(column)
        present = cells[~np.isnan(cells)]
        values, counts = np.unique(present, return_counts=True)
        return cls(values, counts, len(cells) - len(present))

    @classmethod
    def sum(cls, parts: Iterable[Values]) -> Values:
        parts = list(parts)
        values = np.concatenate([part.values for part in parts])
        each, index = np.unique(values, return_inverse=True)
        total = np.zeros(len(each), dtype=np.int64)
        np.add.at(total, index, np.concatenate([part.counts for part in parts]))
        return cls(each, total, sum(part.empty for part in parts))

    def to_dict(self) -> dict[str, Any]:
        counts = self.counts.tolist()
        return {"values": self.values.tolist(), "counts": counts, "empty": self.empty}

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> Values:
        values = np.array(about["values"], dtype=np.float64)
        counts = np.array(about["counts"], dtype=np.int64)
        if values.ndim != 1 or values.shape != counts.shape or not np.isfinite(values).all():
            raise ValueError("a summary must have a finite number for each count")
        return cls(values, _row_counts(counts), int(_row_counts(about["empty"])))


@dataclass(frozen=True)
class Counts:
    """A column of categories: the rows of each, of unnamed ones, and with missing values."""

    counts: dict[str, int]
    other: int
    empty: int

    @classmethod
    def of(cls, column: pd.Series[Any]) -> Counts:
        """Count a column's categories; none of them is unnamed."""
        codes, words = factor(column)
        empty, *sizes = np.bincount(codes + 1, minlength=len(words) + 1).tolist()
        return cls(dict(zip(words, sizes, strict=True)), 0, empty)

    @classmethod
    def sum(cls, parts: Iterable[Counts]) -> Counts:
        counts: dict[str, int] = {}
        parts = list(parts)
        for part in parts:
            for word, n in part.counts.items():
                counts[word] = counts.get(word, 0) + n
        return cls(counts, sum(p.other for p in parts), sum(p.empty for p in parts))

    def to_dict(self) -> dict[str, Any]:
        return {"levels": self.counts, "other": self.other, "empty": self.empty}

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> Counts:
        counts = {str(word): int(_row_counts(n)) for word, n in about["levels"].items()}
        return cls(counts, int(_row_counts(about["other"])), int(_row_counts(about["empty"])))


@dataclass(frozen=True)
class Summary:
    """The counts of all columns, from which an encoder is fitted."""

    numbers: dict[str, Values]
    categories: dict[str, Counts]

    @classmethod
    def sum(cls, parts: Iterable[Summary]) -> Summary:
        first, *others = parts
        every = (first, *others)
        numbers = {c: Values.sum(part.numbers[c] for part in every) for c in first.numbers}
        counted = {c: Counts.sum(part.categories[c] for part in every) for c in first.categories}
        return cls(numbers, counted)

    @classmethod
    def of(cls, data: Dataset, rows: np.ndarray, exclude: str | None) -> Summary:
        """Summarise some rows; the column `exclude` is not an input."""
        names = [
            [c for c in columns if c != exclude] for columns in (data.numeric, data.categorical)
        ]
        numbers = {c: Values.of(require_column(data.frame, c).iloc[rows]) for c in names[0]}
        counted = {c: Counts.of(require_column(data.frame, c).iloc[rows]) for c in names[1]}
        return cls(numbers, counted)

    def to_dict(self) -> dict[str, Any]:
        numbers = {c: values.to_dict() for c, values in self.numbers.items()}
        counted = {c: counts.to_dict() for c, counts in self.categories.items()}
        return {"numbers": numbers, "categories": counted}

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> Summary:
        """Return the summary from its JSON dict; raise ValueError if it is not valid."""
        numbers = {str(c): Values.from_dict(v) for c, v in about["numbers"].items()}
        counted = {str(c): Counts.from_dict(v) for c, v in about["categories"].items()}
        return cls(numbers, counted)


def _row_counts(counts: Any) -> np.ndarray:
    """Return counts of rows as an array; raise ValueError for anything else."""
    found = np.asarray(counts)
    if found.dtype.kind not in "iu" or (found < 0).any():
        raise ValueError("a summary must have counts of rows")
    return found
