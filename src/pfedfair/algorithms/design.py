"""What logits are linear in: products with it, for `Newton`'s sums.

A design has a line of q numbers for each of some rows. It is laid out (`Dense`), or never made
(`Looked`): between two neighbouring places of a column inputs go straight from the one's to the
other's, so that a cell stands for two lines of a small table. Products are then sums over places: a
column of 500 levels, or of 32 ramps, costs no more than one of two.
"""

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from pfedfair.data.piecewise import EMPTY, Places


class Design(Protocol):
    """Products with a design of n lines and q numbers each; all but `square` in double."""

    def scores(self, coefficients: Tensor) -> Tensor:
        """Logits ``(points, n, outputs)`` of coefficients ``(points, outputs, q)``."""

    def pull(self, slopes: Tensor) -> Tensor:
        """From slopes of logits ``(..., n, outputs)`` to those of coefficients, summed up."""

    def square(self, weight: Tensor) -> Tensor:
        """The weighted sum of every line's products with itself, ``(q, q)``."""


class Dense(Design):
    """A design that is laid out, ``(n, q)``."""

    def __init__(self, x: Tensor) -> None:
        self.x, self.exact = x, x.double()

    def scores(self, coefficients: Tensor) -> Tensor:
        z = self.exact @ coefficients.flatten(0, 1).T
        return z.view(len(self.x), *coefficients.shape[:2]).movedim(1, 0)

    def pull(self, slopes: Tensor) -> Tensor:
        return slopes.mT @ self.exact

    def square(self, weight: Tensor) -> Tensor:
        return self.x.T @ (weight.to(self.x)[:, None] * self.x)


class Slot(NamedTuple):
    """A place of each row, and how much it counts there."""

    at: np.ndarray
    part: np.ndarray


class Looked(Design):
    """A design that is looked up: `packed` cells ``(n, columns)``, and `more` inputs behind."""

    def __init__(self, packed: Tensor, more: Tensor, columns: Sequence[Places]) -> None:
        self.columns, self.more = columns, more.double()
        self.tables = [column.table for column in columns]
        cells = packed.double().numpy().T
        self.slots = [slots(cells[k], column) for k, column in enumerate(columns)]
        self.width = sum(len(column.inputs) for column in columns)

    def scores(self, coefficients: Tensor) -> Tensor:
        flat = coefficients.flatten(0, 1).T
        z = self.more @ flat[self.width :]
        for column, each in zip(self.columns, self.slots, strict=True):
            height = column.table @ flat[column.inputs]
            for slot in each:
                z += torch.from_numpy(slot.part)[:, None] * height[torch.from_numpy(slot.at)]
        return z.view(len(z), *coefficients.shape[:2]).movedim(1, 0)

    def pull(self, slopes: Tensor) -> Tensor:
        flat = slopes.movedim(-2, -1).reshape(-1, slopes.shape[-2])
        found = flat.new_zeros(len(flat), self.width + self.more.shape[1])
        found[:, self.width :] = flat @ self.more
        for column, each in zip(self.columns, self.slots, strict=True):
            for line, slope in zip(found, flat.numpy(), strict=True):
                sums = _summed(each, slope, len(column.table))
                line[column.inputs] = column.narrow(torch.from_numpy(sums))
        return found.view(*slopes.shape[:-2], slopes.shape[-1], -1)

    def square(self, weight: Tensor) -> Tensor:
        """Sum up by pairs of places first, then make inputs of the places."""
        weights, ends = weight.double().numpy(), np.cumsum([0, *map(len, self.tables)])
        size = int(ends[-1]) + self.more.shape[1]
        sums = np.zeros((size, size))
        weighted = weight.double()[:, None] * self.more
        sums[ends[-1] :, ends[-1] :] = (self.more.T @ weighted).numpy()
        for (one, ours), (other, theirs) in combinations_with_replacement(enumerate(self.slots), 2):
            rows, columns = slice(*ends[one : one + 2]), slice(*ends[other : other + 2])
            places = len(self.tables[other])
            cells = np.zeros(len(self.tables[one]) * places)
            for a in ours:
                first, counts = a.at * places, a.part * weights
                for b in theirs:
                    cells += np.bincount(first + b.at, counts * b.part, minlength=len(cells))
            sums[rows, columns] = cells.reshape(-1, places)
            sums[columns, rows] = sums[rows, columns].T
        for one, ours in enumerate(self.slots):
            rows, places = slice(*ends[one : one + 2]), len(self.tables[one])
            for k, values in enumerate(weighted.T.numpy(), ends[-1]):
                sums[rows, k] = sums[k, rows] = _summed(ours, values, places)
        return self._narrow(self._narrow(torch.from_numpy(sums)).T.contiguous())

    def _narrow(self, sums: Tensor) -> Tensor:
        """From sums at all places, and of `more`, to sums of inputs; along the first axis."""
        found, end = sums.new_empty(self.width + self.more.shape[1], *sums.shape[1:]), 0
        for column in self.columns:
            own = sums[end : end + len(column.table)]
            found[column.inputs], end = column.narrow(own), end + len(own)
        found[self.width :] = sums[end:]
        return found


def slots(cells: np.ndarray, column: Places) -> list[Slot]:
    """The places that a column's cells are between: two, or one where none are between."""
    last = len(column.table) - 1  # where empty cells are
    empty = cells == EMPTY
    low = cells.astype(np.int64).clip(0, max(last - 2, 0) if column.between else last - 1)
    at = np.where(empty, last, low)
    if not column.between:
        return [Slot(at, np.ones(len(cells)))]
    part = np.where(empty, 0.0, cells - low)
    return [Slot(at, 1 - part), Slot(np.where(empty, last, low + 1), part)]


def _summed(each: Sequence[Slot], values: np.ndarray, places: int) -> np.ndarray:
    """Sum values up at the places of their rows."""
    parts = [np.bincount(slot.at, slot.part * values, minlength=places) for slot in each]
    return np.asarray(np.sum(parts, axis=0))
