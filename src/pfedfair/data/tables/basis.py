"""The basis of an additive model: the one map from positions in columns to a model's inputs.

`Piecewise` writes a cell as its *position* in the column: a number's among the knots (2.5 is half
the way from the third to the fourth), a category's number, one more for an unknown category, and -1
for a missing value. Inputs are

- *ramps* of numbers, one from each knot to the next: 0 before it and 1 behind it, less the mean of
  the training rows, times a scale;
- *indicators* of categories and of missing values.

At a missing value ramps are 0, and indicators of categories have the shares of these among training
rows; so they do at an unknown category. Between knots inputs are linear in the position: a column
is a table with a line of inputs for each position, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

MISSING = -1.0  # the position of a missing value
FEW = 8  # models whose scores are added up one by one
AT_ONCE = 1024  # rows that are looked up at a time: more leave the processor's cache


class ColumnTable(NamedTuple):
    """The inputs of one column at its positions, the last of which is a missing value's.

    At the first positions, as many as are `known` categories, one input is 1 and the others are 0.
    """

    inputs: Tensor  # their numbers among all inputs
    known: int
    values: Tensor  # at all other positions, (positions - known, inputs), in double precision


@dataclass(frozen=True, eq=False)
class Basis:
    """The map from positions ``(..., columns)`` to inputs ``(..., width)``: ramps, then indicators.

    Attributes
    ----------
    column, start
        Of each input, its column, and the position where its ramp begins or that it indicates.
    mean, scale
        Of each ramp.
    share
        Of each indicator, its value where the column's value is missing or unknown.
    known
        Of each column, the number of its known categories; infinity for a column of numbers.
    sizes
        Of each column, the number of its positions, but for that of a missing value.
    interpolated
        Whether a column's cells may be between two positions.
    """

    column: Tensor
    start: Tensor
    mean: Tensor
    scale: Tensor
    share: Tensor
    known: Tensor
    sizes: np.ndarray
    interpolated: np.ndarray

    @property
    def width(self) -> int:
        return len(self.column)

    def dense(self, cells: Tensor) -> Tensor:
        """Return the inputs, ``(..., width)``, of positions ``(..., columns)``."""
        flat, ramps = cells.flatten(0, -2), len(self.mean)
        missing, own = flat == MISSING, self.column[:ramps]
        found = flat.new_zeros(len(flat), self.width)
        slopes = flat.index_select(1, own).sub_(self.start[:ramps]).clamp_(0, 1)
        slopes.sub_(self.mean).mul_(self.scale)
        if missing.any():
            slopes.masked_fill_(missing.index_select(1, own), 0.0)
        found[:, :ramps] = slopes
        flags, first = ((self.start[ramps:] == at).nonzero()[:, 0] + ramps for at in (MISSING, 0.0))
        found[:, flags] = missing[:, self.column[flags]].to(found)
        own = self.column[first]  # categories' columns
        chosen, last = flat.index_select(1, own), self.known[own] - 1
        indicated = (chosen >= 0) & (chosen <= last)
        chosen = first + chosen.clamp(min=0).minimum(last).long()
        found.scatter_add_(1, chosen, indicated.to(found))
        nowhere = (missing | (flat >= self.known)) & self.known.isfinite()
        if nowhere.any():
            found[:, ramps:] += self.share * nowhere.index_select(1, self.column[ramps:])
        return found.view(*cells.shape[:-1], self.width)

    @cached_property
    def tables(self) -> list[ColumnTable]:
        """The columns' tables."""
        found = []
        for k, size in enumerate(self.sizes.tolist()):
            known = float(self.known[k])
            first = 0 if known == np.inf else int(known)
            cells = torch.full((size + 1 - first, len(self.sizes)), MISSING)
            cells[:-1, k] = torch.arange(float(first), float(size))
            inputs = (self.column == k).nonzero()[:, 0]
            found.append(ColumnTable(inputs, first, self.dense(cells)[:, inputs].double()))
        return found

    @cached_property
    def ends(self) -> np.ndarray:
        """Where each column's lines begin if all tables stand one below the other, and the end."""
        return np.cumsum([0, *(self.sizes + 1)])

    def lookup(self, cells: Tensor) -> tuple[Tensor, Tensor]:
        """Return which lines of all tables cells ``(n, columns)`` take, and how much of each.

        Both are ``(n, slots)``: a slot for each column, then a second for each interpolated one.
        """
        last, lowest, first, between = self._limits
        at = cells.clamp(min=0).minimum(last)  # 0 for a missing value
        low = at.int().clamp_(min=0).minimum(lowest)  # even if a cell is no number
        beyond = (at - low).index_select(1, between)
        lines = low + first
        above = lines.index_select(1, between) + 1
        lines = torch.where(cells == MISSING, first + last.int() + 1, lines)
        parts = torch.ones(cells.shape).index_copy_(1, between, 1 - beyond)
        return torch.cat([lines, above], dim=1), torch.cat([parts, beyond], dim=1).double()

    @cached_property
    def _limits(self) -> tuple[Tensor, ...]:
        """Of columns the last position, the last to begin between, the first line; and which do."""
        lowest = np.maximum(self.sizes - 1 - self.interpolated, 0)
        between = torch.from_numpy(np.flatnonzero(self.interpolated))
        last, lowest, first = map(torch.from_numpy, (self.sizes - 1, lowest, self.ends[:-1]))
        return last.float(), lowest.int(), first.int(), between

    def heights(self, coefficients: Tensor) -> Tensor:
        """From coefficients of inputs ``(width, m)`` to lines' parts of scores ``(lines, m)``."""
        found = [coefficients[:0]]
        for inputs, known, values in self.tables:
            own = coefficients[inputs]
            found += [own[:known], values @ own]
        return torch.cat(found)

    def pull(self, sums: Tensor) -> Tensor:
        """From sums over rows by line ``(lines, m)`` to sums of inputs ``(width, m)``."""
        found = sums.new_empty(self.width, sums.shape[1])
        lines = torch.split(sums, (self.sizes + 1).tolist())
        for (inputs, known, values), own in zip(self.tables, lines, strict=True):
            each = values.T @ own[known:]
            each[:known] += own[:known]
            found[inputs] = each
        return found

    def times(self, cells: Tensor, weights: Tensor) -> Tensor:
        """Return inputs times weights ``(outputs, width)``, ``(n, outputs)``."""
        heights, found = (
            self.heights(weights.double().T),
            weights.new_empty(len(cells), len(weights)),
        )
        for k in range(0, len(cells), AT_ONCE):
            found[k : k + AT_ONCE] = added_up(*self.lookup(cells[k : k + AT_ONCE]), heights)
        return found


def added_up(lines: Tensor, parts: Tensor, heights: Tensor) -> Tensor:
    """Return each row's parts of its lines' heights ``(lines, m)``, added up: ``(n, m)``."""
    if heights.shape[1] > FEW:
        return embedding_bag(lines, heights, per_sample_weights=parts, mode="sum")
    each = (own.index_select(0, lines.flatten()).view_as(parts) for own in heights.T.contiguous())
    return torch.stack([own.mul_(parts).sum(1) for own in each], dim=1)
