"""Compare rows to decide on with the training rows: ranges, missing values, shifted columns.

A run stores each column's range and, for every client, how many training rows have each position
of the encoder (a segment between knots, a category, a missing value). The shift of a column is the
population stability index: the sum over positions of ``(p - q) log(p / q)``, for the shares p of
the new rows and q of the training rows of the clients that these rows are of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from pfedfair.data.tables.cells import floats
from pfedfair.data.tables.encoder import Inputs
from pfedfair.data.tables.ordinals import OrderedColumns
from pfedfair.data.tables.piecewise import Piecewise
from pfedfair.federation import Federation

MOST_CLIENTS = 256  # whose positions are stored one by one; of more, their sum
SHIFTED = 0.25  # from this index on a column has clearly moved, by convention
RARE = 0.01  # positions with a smaller share of the training rows count as one
FEWEST = 50  # rows from which shifts are measured
NAMED = 6  # columns that are described


@dataclass(frozen=True, eq=False)
class Reference:
    """The training rows' values, by column.

    Attributes
    ----------
    encoder
        What says which position a value has.
    counts
        Training rows by client (or of all) and position, ``(clients, positions)``: the positions of
        one column after those of another, a missing value's first.
    ranges
        The least and the largest number of each column of numbers.
    """

    encoder: Piecewise | OrderedColumns
    counts: np.ndarray
    ranges: Mapping[str, tuple[float, float]]

    @classmethod
    def of(cls, federation: Federation) -> Reference | None:
        """Return the training rows' values; None if the inputs are no columns."""
        data, part, encoder = federation.data, federation.partition, federation.encoder
        if data.array is not None:
            return None
        rows = np.concatenate(part.train)
        if isinstance(encoder, Piecewise | OrderedColumns):
            packed = federation.table.x.numpy()
        else:
            encoder = Piecewise.fit(data, rows, part.column or data.client or None)
            packed = encoder.pack(data.frame)
        if packed.ndim != 2:  # a run without its rows
            return None
        each = [_count(encoder, packed[own]) for own in part.train]
        counts = np.stack(each if len(each) <= MOST_CLIENTS else [np.sum(each, axis=0)])
        ranges = {}
        for name in encoder.numbers:
            if name not in data.frame:  # a part of a date
                continue
            values = floats(data.frame[name].iloc[rows])
            if not np.isnan(values).all():
                ranges[name] = float(np.nanmin(values)), float(np.nanmax(values))
        return cls(encoder, counts, ranges)

    def to_dict(self, own: Inputs) -> dict[str, Any]:
        """Describe the reference, without `counts`; `own` is the model's encoder."""
        encoder = None if self.encoder is own else self.encoder.to_dict()
        return {"encoder": encoder, "ranges": {c: list(ends) for c, ends in self.ranges.items()}}

    @classmethod
    def from_dict(cls, about: Mapping[str, Any], counts: Tensor, own: Inputs) -> Reference:
        """Create a reference from its `to_dict`, its counts and the model's encoder."""
        encoder = own if about["encoder"] is None else Piecewise.from_dict(about["encoder"])
        if not isinstance(encoder, Piecewise | OrderedColumns):
            raise ValueError("the reference has no encoder")
        if counts.shape[1] != sum(_sizes(encoder)):
            raise ValueError("the reference does not fit the encoder")
        ranges = {str(c): (float(low), float(high)) for c, (low, high) in about["ranges"].items()}
        return cls(encoder, counts.numpy(), ranges)


@dataclass(eq=False)
class Guard:
    """What new rows have in the places of the training rows' values, a part at a time."""

    reference: Reference
    rows: int = 0

    def __post_init__(self) -> None:
        self.counts = np.zeros(self.reference.counts.shape[1], np.int64)
        self.of_client = Counter[int]()
        self.outside = Counter[str]()

    def add(
        self, frame: pd.DataFrame, packed: np.ndarray, encoder: Inputs, clients: Mapping[int, int]
    ) -> Iterator[tuple[str, np.ndarray]]:
        """Count rows, as many of each client; yield warnings and the rows that they are for."""
        reference = self.reference
        if encoder is not reference.encoder:
            packed = reference.encoder.pack(frame)
        self.counts += _count(reference.encoder, packed)
        self.of_client.update(clients)
        self.rows += len(packed)
        for name, (low, high) in reference.ranges.items():
            values = floats(frame[name])
            with np.errstate(invalid="ignore"):
                rows = (values < low) | (values > high)
            if n := int(rows.sum()):
                self.outside[name] += n
                yield f"{name} is outside {low:g} to {high:g}", rows
        for k, (name, at) in enumerate(_slices(reference.encoder)):
            if not reference.counts[:, at][:, 0].any() and name in frame:
                yield f"{name} is missing, as in no training row", packed[:, k] < 0

    def notes(self) -> list[str]:
        """Describe columns that have moved, and rows outside of the training rows' ranges."""
        moved = self.moved()
        texts = [f"'{name}' has moved since training (index {index:.2f}{self._why(name)})"
                 for name, index in moved[:NAMED]]  # fmt: skip
        if more := len(moved) - NAMED:
            texts += [f"{more} other columns have moved, too"] if more > 0 else []
        others = [name for name in self.outside if name not in dict(moved)]
        if others:
            named = ", ".join(f"{name} {self.outside[name]:,}" for name in others[:NAMED])
            texts.append(f"Rows outside of the training rows' range, marked in 'warning': {named}")
        return texts

    def moved(self) -> list[tuple[str, float]]:
        """Return the columns that have clearly moved, and by how much, the most first."""
        if self.rows < FEWEST:
            return []
        found = []
        expected = self._expected()
        for name, at in _slices(self.reference.encoder):
            index, noise = stability(expected[at], self.counts[at])
            if index > max(SHIFTED, 2 * noise):
                found.append((name, index))
        return sorted(found, key=lambda pair: -pair[1])

    def _expected(self) -> np.ndarray:
        """Return the training rows' counts, as if clients had the new rows' shares."""
        counts = self.reference.counts.astype(np.float64)
        if len(counts) == 1:
            return np.asarray(counts[0])
        total = counts.sum(1, keepdims=True)
        share = np.array([self.of_client[k] for k in range(len(counts))]) / max(self.rows, 1)
        return np.asarray((counts / np.maximum(total, 1) * share[:, None]).sum(0) * total.sum())

    def _why(self, name: str) -> str:
        """Describe the missing values and rows out of range that a shift may come from."""
        at = dict(_slices(self.reference.encoder))[name]
        here = self.counts[at][0] / max(self.rows, 1)
        expected = self._expected()[at]
        before = expected[0] / max(expected.sum(), 1e-9)
        parts = []
        if here > before + 0.05:
            parts.append(f"missing in {here:.0%} of the rows, {before:.0%} in training")
        if n := self.outside.get(name, 0):
            low, high = self.reference.ranges[name]
            parts.append(f"{n:,} of {self.rows:,} rows outside {low:g} to {high:g}")
        return "".join(f"; {part}" for part in parts)


def stability(expected: Sequence[float] | np.ndarray, found: np.ndarray) -> tuple[float, float]:
    """Return the population stability index of counts, and what chance leads to expect.

    Rare positions count as one, and half a row more is counted everywhere.

    >>> stability([50.0, 50.0], np.array([50, 50]))[0]
    0.0
    """
    expected = np.asarray(expected, np.float64)
    rare = expected < RARE * expected.sum()
    before, after = (np.append(counts[~rare], counts[rare].sum()) for counts in (expected, found))
    used = before + after > 0
    if not used.any():
        return 0.0, 0.0
    before, after = before[used] + 0.5, after[used] + 0.5
    p, q = after / after.sum(), before / before.sum()
    noise = (len(p) - 1) * (1 / after.sum() + 1 / before.sum())
    return float(((p - q) * np.log(p / q)).sum()), float(noise)


def _sizes(encoder: Piecewise | OrderedColumns) -> list[int]:
    """Return how many positions each column has, that of a missing value included."""
    knots = [len(column.knots) + 1 for column in encoder.numbers.values()]
    return knots + [len(column.names) + 2 for column in encoder.categories.values()]


def _slices(encoder: Piecewise | OrderedColumns) -> list[tuple[str, slice]]:
    """Return the positions of each column."""
    ends = np.cumsum([0, *_sizes(encoder)])
    return [(name, slice(a, b))
            for name, a, b in zip(encoder.columns, ends, ends[1:], strict=False)]  # fmt: skip


def _count(encoder: Piecewise | OrderedColumns, packed: np.ndarray) -> np.ndarray:
    """Count rows by position."""
    each = [np.bincount(packed[:, k].astype(np.int64) + 1, minlength=size)
            for k, size in enumerate(_sizes(encoder))]  # fmt: skip
    return np.asarray(np.concatenate([np.zeros(0, np.int64), *each]))
