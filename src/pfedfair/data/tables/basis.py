"""The basis of an additive model: the one map from positions in columns to a model's inputs.

`Piecewise` writes a cell as its *position* in the column: a number's among the knots (2.5 is
halfway from the third to the fourth), a category's number, the next number for an unknown category,
and -1 for a missing value. Inputs are

- *segments* of numbers, one between each pair of neighbouring knots: 0 before, 1 after, linear in
  between, minus the mean of the training rows, times a scale;
- *indicators* of categories and of missing values.

At a missing value segments are 0, and indicators of categories have the shares of the categories
among training rows; the same holds for an unknown category. Between knots inputs are linear in the
position, so a column is a table with a line of inputs for each position.
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
MAX_MODELS = 8  # models whose scores are summed one by one
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
    """Map positions ``(..., columns)`` to inputs ``(..., width)``: segments, then indicators.

    Attributes
    ----------
    column, start
        Of each input, its column, and the position where its segment begins or that it indicates.
    mean, scale
        Of each segment.
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
        flat, segments = cells.flatten(0, -2), len(self.mean)
        missing, columns = flat == MISSING, self.column[:segments]
        found = flat.new_zeros(len(flat), self.width)
        slopes = flat.index_select(1, columns).sub_(self.start[:segments]).clamp_(0, 1)
        slopes.sub_(self.mean).mul_(self.scale)
        if missing.any():
            slopes.masked_fill_(missing.index_select(1, columns), 0.0)
        found[:, :segments] = slopes
        indicated = self.start[segments:]
        flags, first = ((indicated == at).nonzero()[:, 0] + segments for at in (MISSING, 0.0))
        found[:, flags] = missing[:, self.column[flags]].to(found)
        columns = self.column[first]  # of categories
        chosen, last = flat.index_select(1, columns), self.known[columns] - 1
        is_known = (chosen >= 0) & (chosen <= last)
        chosen = first + chosen.clamp(min=0).minimum(last).long()
        found.scatter_add_(1, chosen, is_known.to(found))
        nowhere = (missing | (flat >= self.known)) & self.known.isfinite()
        if nowhere.any():
            found[:, segments:] += self.share * nowhere.index_select(1, self.column[segments:])
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
        """Where each column's lines begin if all tables are concatenated, and the end."""
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
        """Return lines' parts of scores ``(lines, m)`` for coefficients ``(width, m)``."""
        found = [coefficients[:0]]
        for inputs, known, values in self.tables:
            column = coefficients[inputs]
            found += [column[:known], values @ column]
        return torch.cat(found)

    def pull(self, sums: Tensor) -> Tensor:
        """Return sums of inputs ``(width, m)`` for sums over rows by line ``(lines, m)``."""
        found = sums.new_empty(self.width, sums.shape[1])
        lines = torch.split(sums, (self.sizes + 1).tolist())
        for (inputs, known, values), column in zip(self.tables, lines, strict=True):
            each = values.T @ column[known:]
            each[:known] += column[:known]
            found[inputs] = each
        return found

    def times(self, cells: Tensor, weights: Tensor) -> Tensor:
        """Return inputs times weights ``(outputs, width)``, ``(n, outputs)``."""
        heights, found = (
            self.heights(weights.double().T),
            weights.new_empty(len(cells), len(weights)),
        )
        for k in range(0, len(cells), AT_ONCE):
            found[k : k + AT_ONCE] = sum_heights(*self.lookup(cells[k : k + AT_ONCE]), heights)
        return found


def sum_heights(lines: Tensor, parts: Tensor, heights: Tensor) -> Tensor:
    """Return the sum of each row's parts of its lines' heights ``(lines, m)``: ``(n, m)``."""
    if heights.shape[1] > MAX_MODELS:
        return embedding_bag(lines, heights, per_sample_weights=parts, mode="sum")
    each = (one.index_select(0, lines.flatten()).view_as(parts) for one in heights.T.contiguous())
    return torch.stack([one.mul_(parts).sum(1) for one in each], dim=1)
