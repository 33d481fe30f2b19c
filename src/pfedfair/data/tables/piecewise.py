"""Columns as they come: numbers as ramps between quantiles, categories one-hot, empty cells told.

A linear function of these inputs is a sum of shapes, one for each column: piecewise linear in a
number, a constant for each level of a category, and a constant for an empty cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pfedfair._util.errors import InputError
from pfedfair.data.dataset import Dataset
from pfedfair.data.tables.cells import factor, floats, order
from pfedfair.data.tables.dates import needed
from pfedfair.data.tables.places import RANGE, Places, Ranges
from pfedfair.data.tables.summary import Counts, Summary, Values
from pfedfair.data.tables.unpack import Unpacker

RAMPS = 32
SPIKE = 0.05  # a value that so large a part of the people share has a knot of its own
ENDS = 10  # people beyond the outermost knots, at the most: no single person sets them
LEAST = 10  # people of a level; rarer ones share one, and a site does not name them
MOST = 1000  # levels of a column; the others share one
USUAL = 8  # ramps whose scale is 1
EMPTY = -1.0  # the place of an empty cell


Unseen = tuple[dict[str, int], dict[str, int]]  # by column: cells of no known level, empty cells


@dataclass(frozen=True)
class Numbers:
    """A column of numbers.

    Between neighbouring `knots` a ramp goes from 0 to 1; `means` are those of the ramps over the
    training rows. `empty` is the share of empty cells among these.
    """

    knots: tuple[float, ...]
    means: tuple[float, ...]
    empty: float

    def place(self, column: pd.Series[Any]) -> np.ndarray:
        """Where cells stand among the knots: 2.5 is halfway from the third to the fourth."""
        values = floats(column)
        place = np.interp(values, self.knots, np.arange(len(self.knots)))
        return np.where(np.isnan(values), EMPTY, place)


@dataclass(frozen=True)
class Levels:
    """A column of categories.

    Levels that are not in `names` share one; `other` is the share of such among the training rows,
    `empty` that of empty cells. `shares` are those of the levels, and of others, among the rest.
    """

    names: tuple[str, ...]
    other: float
    empty: float
    shares: tuple[float, ...] = ()  # encoders of old have none

    @property
    def inputs(self) -> int:
        """How many levels have an input, that of others included."""
        return len(self.names) + (self.other > 0)

    def place(self, column: pd.Series[Any]) -> np.ndarray:
        """The number of each cell's level; the number of levels if it is none of them."""
        codes, words = factor(column)
        known = {name: number for number, name in enumerate(self.names)}
        places = [known.get(word, len(known)) for word in words]
        return np.asarray(np.array([*places, EMPTY])[codes])


@dataclass(frozen=True)
class Piecewise:
    """Ramps, levels and empty cells, fitted on training rows.

    `pack` keeps one number for each column: a number's place among its knots, or a level's number.
    `unpack` makes the inputs of a network of them. An empty cell has an input of its own if
    training rows had such; its ramps and levels have the mean values of the others, and so has a
    cell of an unknown level, if all levels were known in training. A ramp is
    scaled so that a sum of squared coefficients does not depend on the number of ramps: it is the
    mean squared slope of the shape, were all people at equal distances.
    """

    numbers: dict[str, Numbers]
    categories: dict[str, Levels]

    def __post_init__(self) -> None:
        sound = all(len(one.means) == max(len(one.knots) - 1, 0) for one in self.numbers.values())
        sound &= all(len(one.shares) in (0, one.inputs) for one in self.categories.values())
        if not sound:  # it may come from elsewhere, and C would not look
            raise InputError("This encoder is damaged: its columns and their inputs do not match.")

    @classmethod
    def fit(
        cls, data: Dataset, rows: np.ndarray, exclude: str | None = None, ramps: int = RAMPS
    ) -> Piecewise:
        """Fit on the given rows of `data`; the column `exclude` is not an input."""
        return cls.of(Summary.of(data, rows, exclude), ramps)

    @classmethod
    def of(cls, sums: Summary, ramps: int = RAMPS) -> Piecewise:
        """The encoder that the summaries of all clients' people ask for."""
        numbers = {c: ramped(column, ramps) for c, column in sums.numbers.items()}
        return cls(numbers, {c: levelled(column) for c, column in sums.categories.items()})

    @property
    def columns(self) -> list[str]:
        """The columns, in the order in which they are packed."""
        return [*self.numbers, *self.categories]

    encoding: ClassVar[str] = "piecewise"

    @property
    def names(self) -> tuple[list[str], list[str]]:
        """The columns of numbers, and those of categories."""
        return [*self.numbers], [*self.categories]

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.width,)

    @property
    def width(self) -> int:
        return len(self._parts[0])

    def pack(self, frame: Any) -> np.ndarray:
        """One number for each column, float32 of shape ``(len(frame), columns)``."""
        packed = np.empty((len(frame), len(self.columns)), dtype=np.float32)
        for k, (name, column) in enumerate((self.numbers | self.categories).items()):
            packed[:, k] = column.place(needed(frame, name))
        return packed

    def unpack(self, packed: Tensor) -> Tensor:
        """The inputs of a network, ``(..., width)``, of what `pack` made."""
        if self._in_c.able(packed):
            return self._in_c(packed)
        column, low, mean, scale = self._parts
        ramps = len(mean)  # ramps and flags each by themselves: in one piece they are quicker
        slopes = packed.index_select(-1, column[:ramps])
        slopes.sub_(low[:ramps]).clamp_(0, 1).sub_(mean).mul_(scale)
        empty = packed[..., : len(self.numbers)] == EMPTY
        if empty.any():
            slopes.masked_fill_(empty.index_select(-1, column[:ramps]), 0.0)
        found = packed.new_empty((*packed.shape[:-1], len(column)))
        found[..., :ramps] = slopes
        found[..., ramps:] = packed.index_select(-1, column[ramps:]) == low[ramps:]
        ends, shares = self._levels
        cells = packed[..., len(self.numbers) :]
        n = prod(packed.shape[:-1])
        nowhere = ((cells == EMPTY) | (cells >= ends)).reshape(n, len(ends))
        for k in nowhere.any(0).nonzero()[:, 0].tolist():
            own, rows = self._flags[k], nowhere[:, k].nonzero()[:, 0]
            flags = found.view(n, len(column))[:, ramps:][:, own]
            flags[rows] = flags[rows] + shares[own]
        return found

    def times(self, packed: Tensor, weights: Tensor) -> Tensor:
        """Inputs times weights ``(outputs, width)``, of what `pack` made: ``(..., outputs)``.

        Added up in double precision, column by column, where a library in C can do it.
        """
        if self._in_c.able(packed) and weights.dtype is torch.float32:
            return self._in_c.times(packed, weights)
        return self.unpack(packed) @ weights.T

    def transform(self, frame: Any) -> np.ndarray:
        """Return the inputs of the network, float32 of shape ``(len(frame), width)``."""
        return self.unpack(torch.from_numpy(self.pack(frame))).numpy()

    def unseen(self, frame: Any, packed: np.ndarray) -> Unseen:
        """Count cells that are empty, or of no known level, beyond what training rows lead to."""
        levels, empty = {}, {}
        for k, (name, of) in enumerate((self.numbers | self.categories).items()):
            if n := _beyond(packed[:, k] == EMPTY, of.empty):
                empty[name] = n
        for k, (name, column) in enumerate(self.categories.items(), len(self.numbers)):
            if n := _beyond(packed[:, k] == len(column.names), column.other):
                levels[name] = n
        return levels, empty

    def of_columns(self) -> dict[str, list[int]]:
        """Which inputs each column has.

        A number has its ramps and the flag of empty cells, a category its levels, the flags of
        other levels and of empty cells.
        """
        found: dict[str, list[int]] = {name: [] for name in self.columns}
        for number, column in enumerate(self._parts[0].tolist()):
            found[self.columns[column]].append(number)
        return found

    @cached_property
    def tables(self) -> list[Places]:
        """What cells of each column make of its inputs: a shorter way than by `unpack`."""
        found, own = [], self.of_columns()
        for k, (name, column) in enumerate((self.numbers | self.categories).items()):
            between = isinstance(column, Numbers)
            last = len(column.knots) if isinstance(column, Numbers) else len(column.names) + 1
            packed = torch.full((last + 1, len(self.columns)), EMPTY)
            packed[:last, k] = torch.arange(float(last))
            inputs = torch.tensor(own[name], dtype=torch.int64)
            table = self.unpack(packed)[:, inputs].double()
            levels = 0 if isinstance(column, Numbers) else column.inputs
            found.append(Places(inputs, table, between and last > 1, levels))
        return found

    @cached_property
    def ranges(self) -> Ranges:
        """What `tables` says in fewer words."""
        ramps, flags, starts = [], [], [0]
        for number in self.numbers.values():
            start, end = starts[-1], starts[-1] + len(number.knots)
            scale = _scale(number)
            for j, mean in enumerate(number.means):
                ramps.append((start + j + 1, end, start, end, -mean, scale))
            flags += [(end, end + 1, end, end, 0.0, 1.0)] * (number.empty > 0)
            starts.append(end + 1)
        for levels in self.categories.values():
            start, end = starts[-1], starts[-1] + len(levels.names) + 1
            nowhere = start + levels.inputs, end + 1  # of no level that is known, and empty
            shares = levels.shares or [0.0] * levels.inputs
            for j, share in enumerate(shares, start):
                flags.append((j, j + 1, *nowhere, share, 1.0))
            flags += [(end, end + 1, end, end, 0.0, 1.0)] * (levels.empty > 0)
            starts.append(end + 1)
        between = [len(number.knots) > 1 for number in self.numbers.values()]
        between += [False] * len(self.categories)
        lists = [np.array(one, dtype=np.int64) for one in (starts, between)]
        return Ranges(lists[0], lists[1], np.array(ramps + flags, RANGE))

    @cached_property
    def _parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of each input its column and the place where it begins; of each ramp mean and scale.

        Ramps come first, then flags, each for a place.
        """
        ramps, flags = [], []
        for k, number in enumerate(self.numbers.values()):
            scale = _scale(number)
            ramps += [(k, j, mean, scale) for j, mean in enumerate(number.means)]
            flags += [(k, EMPTY)] * (number.empty > 0)
        for k, levels in enumerate(self.categories.values(), len(self.numbers)):
            flags += [(k, j) for j in range(levels.inputs)]
            flags += [(k, EMPTY)] * (levels.empty > 0)
        columns = [k for k, *_ in (*ramps, *flags)]
        low = [j for _, j, *_ in (*ramps, *flags)]
        means, scales = ([ramp[i] for ramp in ramps] for i in (2, 3))
        numbers = (torch.tensor(part, dtype=torch.float32) for part in (low, means, scales))
        return torch.tensor(columns, dtype=torch.int64), *numbers  # type: ignore[return-value]

    @cached_property
    def _levels(self) -> tuple[Tensor, Tensor]:
        """Of each category, the place behind its levels; of each flag, the share of its level."""
        shares = [0.0 for number in self.numbers.values() if number.empty > 0]
        for levels in self.categories.values():
            shares += levels.shares or [0.0] * levels.inputs
            shares += [0.0] * (levels.empty > 0)
        ends = [float(levels.inputs) for levels in self.categories.values()]
        return torch.tensor(ends), torch.tensor(shares)

    @cached_property
    def _flags(self) -> list[slice]:
        """Which flags each category's levels have."""
        found, first = [], sum(number.empty > 0 for number in self.numbers.values())
        for levels in self.categories.values():
            found.append(slice(first, first + levels.inputs))
            first += levels.inputs + (levels.empty > 0)
        return found

    @cached_property
    def _in_c(self) -> Unpacker:
        _, _, means, scales = self._parts
        flags = [k for k, number in enumerate(self.numbers.values()) if number.empty > 0]
        levels = [own.start + len(means) for own in self._flags]
        many = [column.inputs for column in self.categories.values()]
        of_empty = {k: len(means) + at for at, k in enumerate(flags)}
        for k, column in enumerate(self.categories.values()):
            if column.empty > 0:
                of_empty[k + len(self.numbers)] = levels[k] + many[k]
        shares = np.append(np.zeros(len(means)), self._levels[1].numpy())
        return Unpacker(
            len(self.numbers), len(self.categories), self.width, EMPTY,
            ramps=np.cumsum([0, *(len(number.means) for number in self.numbers.values())]),
            means=means.numpy(), scales=scales.numpy(),
            levels=np.array(levels), many=np.array(many), shares=shares,
            flags=np.array([of_empty.get(k, -1) for k in range(len(self.columns))]),
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "piecewise", **asdict(self)}

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> Piecewise:
        """Make it again from what `to_dict` said, perhaps by way of JSON."""
        numbers = {
            name: Numbers(tuple(one["knots"]), tuple(one["means"]), one["empty"])
            for name, one in about["numbers"].items()
        }
        categories = {
            name: Levels(
                tuple(one["names"]), one["other"], one["empty"], tuple(one.get("shares", ()))
            )
            for name, one in about["categories"].items()
        }
        return cls(numbers, categories)

    def tensors(self) -> dict[str, np.ndarray]:
        return {}


def _scale(number: Numbers) -> float:
    """What ramps are multiplied by."""
    return float((USUAL / max(len(number.means), 1)) ** 0.5)


def _beyond(found: np.ndarray, share: float) -> int:
    """How many were found, if they are more than chance explains."""
    n, number = len(found), int(found.sum())
    return number if number > n * share + 3 * (n * share * (1 - share)) ** 0.5 else 0


def ramped(column: Values, ramps: int = RAMPS) -> Numbers:
    """The knots of a column.

    Each value if they are few. Otherwise the spikes, and quantiles of the values off the spikes:
    those of twice as many ramps contain those of fewer.
    """
    knots, counts = column.values, column.counts
    if len(knots) > ramps + 1:
        spike = counts >= SPIKE * counts.sum()
        off, below = knots[~spike], np.cumsum(counts[~spike])
        part = min(ENDS / below[-1], 1 / (2 * RAMPS))
        levels = np.linspace(0, 1, ramps + 1).clip(part, 1 - part)
        at = np.searchsorted(below, levels * below[-1] * (1 - 1e-12))
        knots = np.union1d(knots[spike], off[at.clip(max=len(off) - 1)])
    total = int(counts.sum())
    empty = column.empty / max(total + column.empty, 1)
    if len(knots) < 2:
        return Numbers((float(knots[0]) if len(knots) else 0.0,), (), empty)
    place = np.interp(column.values, knots, np.arange(len(knots)))
    means = [float(counts @ np.clip(place - j, 0, 1)) for j in range(len(knots) - 1)]
    return Numbers(tuple(knots.tolist()), tuple(mean / total for mean in means), empty)


def levelled(column: Counts) -> Levels:
    """The levels of a column: those of enough people."""
    counts = column.levels
    often = sorted((w for w, n in counts.items() if n >= LEAST), key=lambda w: (-counts[w], w))
    names = tuple(sorted(often[:MOST], key=order))
    there = column.other + sum(counts.values())
    other = there - sum(counts[name] for name in names)
    total = max(there + column.empty, 1)
    people = [counts[name] for name in names] + [other] * (other > 0)
    shares = tuple(number / max(there, 1) for number in people)
    return Levels(names, other / total, column.empty / total, shares)
