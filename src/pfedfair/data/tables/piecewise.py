"""Encode columns: numbers in a piecewise-linear basis, categories one-hot.

A linear function of these inputs is a sum of shapes, one for each column: piecewise linear in a
number, a constant for each category, and a constant for a missing value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pfedfair._util.errors import InputError
from pfedfair.data.dataset import Dataset
from pfedfair.data.tables.basis import MISSING, Basis
from pfedfair.data.tables.cells import factor, floats, order
from pfedfair.data.tables.dates import require_column
from pfedfair.data.tables.summary import Counts, Summary, Values

SEGMENTS = 32  # between knots at quantiles
SPIKE = 0.05  # a value with at least this share of the rows has a knot
ENDS = 10  # at most so many rows are beyond an outermost knot: no single row determines it
LEAST = 10  # rows of a category; rarer ones share one input, and a site does not name them
MOST = 1000  # categories of a column; the others share one input
USUAL = 8  # segments of a column for which the scale is 1


Unseen = tuple[dict[str, int], dict[str, int]]  # by column: cells of unknown categories, missing


@dataclass(frozen=True)
class Numbers:
    """A column of numbers.

    Each pair of neighbouring `knots` bounds a segment, whose basis function rises from 0 to 1;
    `means` are their means over the training rows. `empty` is the share of missing values.
    """

    knots: tuple[float, ...]
    means: tuple[float, ...]
    empty: float

    @property
    def scale(self) -> float:
        """The factor of each basis function."""
        return float((USUAL / max(len(self.means), 1)) ** 0.5)

    def positions(self, column: pd.Series[Any]) -> np.ndarray:
        """Return where cells are among the knots: 2.5 is halfway from the third to the fourth."""
        values = floats(column)
        found = np.interp(values, self.knots, np.arange(len(self.knots)))
        return np.where(np.isnan(values), MISSING, found)


@dataclass(frozen=True)
class Categories:
    """A column of categories.

    Categories that are not in `names` share one input; `other` is their share of the training rows,
    `empty` that of missing values. `shares` are those of the categories, and of the others, among
    the rows with a value.
    """

    names: tuple[str, ...]
    other: float
    empty: float
    shares: tuple[float, ...] = ()  # older encoders have none

    @property
    def inputs(self) -> int:
        """The number of categories with an input, that of others included."""
        return len(self.names) + (self.other > 0)

    def positions(self, column: pd.Series[Any]) -> np.ndarray:
        """Return the number of each cell's category; the number of all if it is none of them."""
        codes, words = factor(column)
        known = {name: number for number, name in enumerate(self.names)}
        each = [known.get(word, len(known)) for word in words]
        return np.asarray(np.array([*each, MISSING])[codes])


@dataclass(frozen=True)
class PackedColumns(ABC):
    """Columns that are stored as one number each: a position, see `basis`."""

    numbers: dict[str, Numbers]
    categories: dict[str, Categories]

    def __post_init__(self) -> None:
        sound = all(len(one.means) == max(len(one.knots) - 1, 0) for one in self.numbers.values())
        sound &= all(len(one.shares) in (0, one.inputs) for one in self.categories.values())
        if not sound:
            raise InputError("This encoder is damaged: its columns and their inputs do not match.")

    @property
    def columns(self) -> list[str]:
        """The columns, in the order in which they are packed."""
        return [*self.numbers, *self.categories]

    @property
    def names(self) -> tuple[list[str], list[str]]:
        """The columns of numbers, and those of categories."""
        return [*self.numbers], [*self.categories]

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.width,)

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of inputs."""

    @abstractmethod
    def unpack(self, packed: Tensor) -> Tensor:
        """Return the inputs of a model, ``(..., width)``, of what `pack` returned."""

    def pack(self, frame: Any) -> np.ndarray:
        """Return each column's position, float32 of shape ``(len(frame), columns)``."""
        packed = np.empty((len(frame), len(self.columns)), dtype=np.float32)
        for k, (name, column) in enumerate((self.numbers | self.categories).items()):
            packed[:, k] = column.positions(require_column(frame, name))
        return packed

    def transform(self, frame: Any) -> np.ndarray:
        """Return the inputs of the model, float32 of shape ``(len(frame), width)``."""
        return self.unpack(torch.from_numpy(self.pack(frame))).numpy()

    def unseen(self, frame: Any, packed: np.ndarray) -> Unseen:
        """Count unknown categories and missing values beyond what training rows lead to expect."""
        unknown, missing = {}, {}
        for k, (name, of) in enumerate((self.numbers | self.categories).items()):
            if n := _beyond(packed[:, k] == MISSING, of.empty):
                missing[name] = n
        for k, (name, column) in enumerate(self.categories.items(), len(self.numbers)):
            if n := _beyond(packed[:, k] == len(column.names), column.other):
                unknown[name] = n
        return unknown, missing

    def unknown(self, frame: Any, packed: np.ndarray) -> Iterator[tuple[str, np.ndarray, set[str]]]:
        """Yield columns all of whose categories are known, unknown cells, and the categories."""
        for k, (name, column) in enumerate(self.categories.items(), len(self.numbers)):
            rows = packed[:, k] == len(column.names)
            if rows.any() and not column.other:
                yield name, rows, {*column.names}

    def tensors(self) -> dict[str, np.ndarray]:
        return {}


@dataclass(frozen=True)
class Piecewise(PackedColumns):
    """A piecewise-linear basis, one-hot categories and missing indicators, fitted on training rows.

    A missing value has an indicator if training rows had missing values; its other inputs have the
    mean values of the training rows, as have those of an unknown category if none was unknown in
    training. Basis functions are scaled so that a sum of squared coefficients does not depend on
    the number of segments: it is the mean squared slope of the shape if rows are equally spaced.
    """

    encoding: ClassVar[str] = "piecewise"

    @classmethod
    def fit(
        cls, data: Dataset, rows: np.ndarray, exclude: str | None = None, segments: int = SEGMENTS
    ) -> Piecewise:
        """Fit on the given rows of `data`; the column `exclude` is not an input."""
        return cls.of(Summary.of(data, rows, exclude), segments)

    @classmethod
    def of(cls, sums: Summary, segments: int = SEGMENTS) -> Piecewise:
        """Return the encoder for the summary of all clients' rows."""
        numbers = {c: fit_knots(column, segments) for c, column in sums.numbers.items()}
        return cls(numbers, {c: fit_categories(column) for c, column in sums.categories.items()})

    @property
    def width(self) -> int:
        return self.basis.width

    def unpack(self, packed: Tensor) -> Tensor:
        return self.basis.dense(packed)

    @cached_property
    def basis(self) -> Basis:
        """The map from `pack` to `unpack`."""
        numbers, categories = [*self.numbers.values()], [*self.categories.values()]
        segments, flags = [], []
        for k, number in enumerate(numbers):
            segments += [(k, j, mean, number.scale) for j, mean in enumerate(number.means)]
            flags += [(k, MISSING, 0.0)] * (number.empty > 0)
        for k, column in enumerate(categories, len(numbers)):
            shares = column.shares or (0.0,) * column.inputs
            flags += [(k, j, share) for j, share in enumerate(shares)]
            flags += [(k, MISSING, 0.0)] * (column.empty > 0)
        every = [(k, j) for k, j, *_ in (*segments, *flags)]
        knots = [len(number.knots) for number in numbers]
        known = [np.inf] * len(numbers) + [column.inputs for column in categories]
        between = [size > 1 for size in knots] + [False] * len(categories)
        return Basis(
            column=torch.tensor([k for k, _ in every], dtype=torch.int64),
            start=torch.tensor([float(j) for _, j in every]),
            mean=torch.tensor([mean for *_, mean, _ in segments]),
            scale=torch.tensor([scale for *_, scale in segments]),
            share=torch.tensor([share for *_, share in flags]),
            known=torch.tensor(known, dtype=torch.float32),
            sizes=np.array(knots + [len(column.names) + 1 for column in categories], np.int64),
            interpolated=np.array(between, dtype=bool),
        )

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "piecewise", **asdict(self)}

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> Piecewise:
        """Create an encoder from its `to_dict`, perhaps read from JSON."""
        numbers = {
            name: Numbers(tuple(one["knots"]), tuple(one["means"]), one["empty"])
            for name, one in about["numbers"].items()
        }
        categories = {
            name: Categories(
                tuple(one["names"]), one["other"], one["empty"], tuple(one.get("shares", ()))
            )
            for name, one in about["categories"].items()
        }
        return cls(numbers, categories)


def _beyond(found: np.ndarray, share: float) -> int:
    """Return the number found, or 0 if chance explains it."""
    n, number = len(found), int(found.sum())
    return number if number > n * share + 3 * (n * share * (1 - share)) ** 0.5 else 0


def fit_knots(column: Values, segments: int = SEGMENTS) -> Numbers:
    """Return a column's knots.

    These are all values if there are at most `segments` + 1. Otherwise they are the spikes, and
    quantiles of the other values: those of twice as many segments contain those of fewer.
    """
    knots, counts = column.values, column.counts
    if len(knots) > segments + 1:
        spike = counts >= SPIKE * counts.sum()
        rest, below = knots[~spike], np.cumsum(counts[~spike])
        part = min(ENDS / below[-1], 1 / (2 * SEGMENTS))
        quantiles = np.linspace(0, 1, segments + 1).clip(part, 1 - part)
        at = np.searchsorted(below, quantiles * below[-1] * (1 - 1e-12))
        knots = np.union1d(knots[spike], rest[at.clip(max=len(rest) - 1)])
    total = int(counts.sum())
    empty = column.empty / max(total + column.empty, 1)
    if len(knots) < 2:
        return Numbers((float(knots[0]) if len(knots) else 0.0,), (), empty)
    position = np.interp(column.values, knots, np.arange(len(knots)))
    means = [float(counts @ np.clip(position - j, 0, 1)) for j in range(len(knots) - 1)]
    return Numbers(tuple(knots.tolist()), tuple(mean / total for mean in means), empty)


def fit_categories(column: Counts) -> Categories:
    """Return a column's categories: those of enough rows."""
    counts = column.counts
    often = sorted((w for w, n in counts.items() if n >= LEAST), key=lambda w: (-counts[w], w))
    names = tuple(sorted(often[:MOST], key=order))
    present = column.other + sum(counts.values())
    other = present - sum(counts[name] for name in names)
    total = max(present + column.empty, 1)
    rows = [counts[name] for name in names] + [other] * (other > 0)
    shares = tuple(number / max(present, 1) for number in rows)
    return Categories(names, other / total, column.empty / total, shares)
