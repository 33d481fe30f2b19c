"""What logits are linear in: products with it, for `Newton`'s sums.

A design has a line of q numbers for each of some rows. It is laid out (`Dense`), or never made
(`Looked`): between two neighbouring places of a column inputs go straight from the one's to the
other's, so that a cell stands for two lines of a small table. Products are then sums over places: a
column of 500 levels, or of 32 ramps, costs no more than one of two. In C (`lookup.Compiled`) that
is always the quickest way; without it, where there are many inputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from functools import lru_cache
from itertools import combinations_with_replacement, cycle, pairwise
from math import isqrt
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from pfedfair.data.tables.piecewise import EMPTY
from pfedfair.data.tables.places import Places
from pfedfair.methods.newton.likelihood import PARTS, added, chances, loss_of, misses, spread

PRECISION = {False: torch.float32, True: torch.float64}  # of a Hessian, if it is to be exact
BLOCKS = 3  # of a square: more of them are smaller, and slower


class Lines(NamedTuple):
    """What is known of the people of some lines."""

    y: Tensor  # labels
    much: Tensor | None = None  # how much each counts, if not 1

    def part(self, lines: slice) -> Lines:
        """The same for some of the lines."""
        return Lines(self.y[lines], None if self.much is None else self.much[lines])


def parts(ends: Sequence[int]) -> list[slice]:
    """Lines in parts, from each end to the next."""
    return [slice(*cut) for cut in pairwise(ends)]


class Sums(NamedTuple):
    """What a Newton step needs of some lines, for each part of them."""

    loss: Tensor  # on the way, (parts, numbers), see `PARTS`
    gradient: Tensor  # (parts, outputs, q)
    hessian: Tensor  # upper triangles, (parts, numbers), in single precision unless exact


class Design(ABC):
    """Products with a design of n lines and q numbers each; all but `square` in double."""

    @abstractmethod
    def scores(self, coefficients: Tensor) -> Tensor:
        """Logits ``(points, n, outputs)`` of coefficients ``(points, outputs, q)``."""

    @abstractmethod
    def pull(self, slopes: Tensor) -> Tensor:
        """From slopes of logits ``(..., n, outputs)`` to those of coefficients, summed up."""

    @abstractmethod
    def square(self, weight: Tensor) -> Tensor:
        """The weighted sum of every line's products with itself: the matrix's upper triangle."""

    @abstractmethod
    def part(self, lines: slice) -> Design:
        """The design of some of the lines; it shares their memory."""

    def sums(
        self, points: Tensor, shift: Tensor, people: Lines, ends: Sequence[int], exact: bool = False
    ) -> Sums:
        """What people add up to at ``points[0]``, and their losses on the way from ``points[1]``.

        Points are ``(2, outputs, q)``. Part k has the lines from ``ends[k]`` to ``ends[k + 1]``;
        ``shift[k]`` ``(2, outputs)`` is put to their logits.
        """
        lost, gradients, hessians = [], [], []
        for own, lines in zip(shift, parts(ends), strict=True):
            some, (y, much) = self.part(lines), people.part(lines)
            z = some.scores(points) + own[:, None]
            way = z[1] + PARTS[:, None, None] * (z[0] - z[1])
            chance = chances(z[0])
            lost.append(added(loss_of(way, y), much))
            gradients.append(some.pull(misses(chance, y, much)))
            hessians.append(some.hessian(chance, much))
        triangles = torch.stack(hessians).to(PRECISION[exact])
        return Sums(torch.stack(lost), torch.stack(gradients), triangles)

    def losses(
        self, coefficients: Tensor, shift: Tensor, people: Lines, ends: Sequence[int]
    ) -> Tensor:
        """The losses of models, added up over the people of each part, ``(parts, points)``.

        There are several sets of models, ``(sets, points, outputs, q)``, which parts take in turns.
        Part k has the lines from ``ends[k]`` to ``ends[k + 1]``, and ``shift[k]`` ``(outputs,)`` is
        put to their logits.
        """
        found = []
        for own, lines, models in zip(shift, parts(ends), cycle(coefficients), strict=False):
            y, much = people.part(lines)
            found.append(added(loss_of(self.part(lines).scores(models) + own, y), much))
        return torch.stack(found)

    def hessian(self, chance: Tensor, much: Tensor | None = None) -> Tensor:
        """The upper triangle of the Hessian, as a matrix of ``outputs * q``."""
        weight = spread(chance)
        if much is not None:
            weight = weight * much[:, None, None]
        outputs = range(weight.shape[1])
        if len(outputs) == 1:
            return self.square(weight[:, 0, 0])
        squares = {
            (a, b): whole(self.square(weight[:, a, b])) for a in outputs for b in outputs if a <= b
        }
        rows = [torch.cat([squares[min(a, b), max(a, b)] for b in outputs], dim=1) for a in outputs]
        return triangle(torch.cat(rows))


class Dense(Design):
    """A design that is laid out, ``(n, q)``."""

    def __init__(self, x: Tensor, exact: Tensor | None = None) -> None:
        self.x, self.exact = x, x.double() if exact is None else exact

    def scores(self, coefficients: Tensor) -> Tensor:
        z = self.exact @ coefficients.flatten(0, 1).T
        return z.view(len(self.x), *coefficients.shape[:2]).movedim(1, 0)

    def pull(self, slopes: Tensor) -> Tensor:
        return slopes.mT @ self.exact

    def square(self, weight: Tensor) -> Tensor:
        return triangle(square(self.x, weight))

    def part(self, lines: slice) -> Design:
        return Dense(self.x[lines], self.exact[lines])


class Looked(Design):
    """A design that is looked up: `packed` cells ``(n, columns)``, and `more` inputs behind.

    Places are numbered through all columns. A row has one of each column, or two between which its
    cell is: `at` are their numbers, `weight` how much it counts there. `of` says which column's.
    """

    def __init__(self, packed: Tensor, more: Tensor, columns: Sequence[Places]) -> None:
        self.columns, self.more = columns, more.double()
        self.width = sum(len(column.inputs) for column in columns)
        self.ends = np.cumsum([0, *(len(column.table) for column in columns)])
        first, last = self.ends[:-1], self.ends[1:] - 1  # the last place is that of empty cells
        between = np.array([column.between for column in columns], dtype=bool)
        cells = packed.double().numpy()
        low = cells.astype(np.int64).clip(0, np.maximum(last - first - 1 - between, 0))
        beyond, empty = np.where(between, cells - low, 0.0), cells == EMPTY
        beyond[empty] = 0.0
        at = np.where(empty, last, first + low)
        above = np.where(empty, last, first + low + 1)[:, between]
        parts = np.concatenate([1 - beyond, beyond[:, between]], axis=1)
        self.at = torch.from_numpy(np.concatenate([at, above], axis=1))
        self.weight = torch.from_numpy(parts)
        self.of = np.concatenate([np.arange(len(columns)), np.flatnonzero(between)])

    def scores(self, coefficients: Tensor) -> Tensor:
        flat = coefficients.flatten(0, 1).T
        z = embedding_bag(self.at, self.heights(flat), per_sample_weights=self.weight, mode="sum")
        z += self.more @ flat[self.width :]
        return z.view(len(z), *coefficients.shape[:2]).movedim(1, 0)

    def pull(self, slopes: Tensor) -> Tensor:
        flat, at = slopes.movedim(-2, -1).flatten(0, -2), self.at.ravel().numpy()
        values = ((self.weight * slope[:, None]).ravel().numpy() for slope in flat)
        found = [np.bincount(at, v, self.ends[-1]) for v in values]  # whole numbers if of nobody
        sums = torch.from_numpy(np.array(found, dtype=np.float64).T)
        pulled = torch.cat([self.narrow(sums), self.more.T @ flat.T])
        return pulled.T.reshape(*slopes.shape[:-2], slopes.shape[-1], -1)

    def square(self, weight: Tensor) -> Tensor:
        """Sum up by pairs of places first, then make inputs of the places."""
        ends, size = self.ends, int(self.ends[-1]) + self.more.shape[1]
        sums = np.zeros((size, size))
        weighted = weight.double()[:, None] * self.more
        sums[ends[-1] :, ends[-1] :] = (self.more.T @ weighted).numpy()
        at, parts = self.at.T.contiguous().numpy(), self.weight.T.contiguous().numpy()
        counts = parts * weight.double().numpy()
        for one, other in combinations_with_replacement(range(len(self.columns)), 2):
            rows, columns = slice(*ends[one : one + 2]), slice(*ends[other : other + 2])
            shape = len(self.columns[one].table), len(self.columns[other].table)
            cells = np.zeros(shape[0] * shape[1])
            for a in np.flatnonzero(self.of == one):
                first = (at[a] - rows.start) * shape[1] - columns.start
                for b in np.flatnonzero(self.of == other):
                    cells += np.bincount(first + at[b], counts[a] * parts[b], len(cells))
            sums[rows, columns] = cells.reshape(shape)
            sums[columns, rows] = sums[rows, columns].T
        for k, values in enumerate(weighted.T.numpy(), ends[-1]):
            of_places = np.bincount(at.ravel(), (parts * values).ravel(), ends[-1])
            sums[: ends[-1], k] = sums[k, : ends[-1]] = of_places
        return triangle(self._both(self._both(torch.from_numpy(sums)).T.contiguous()))

    def _both(self, sums: Tensor) -> Tensor:
        """From sums at all places, and of `more`, to sums of inputs; along the first axis."""
        return torch.cat([self.narrow(sums[: self.ends[-1]]), sums[self.ends[-1] :]])

    def heights(self, coefficients: Tensor) -> Tensor:
        """From coefficients of inputs ``(q, ...)`` to the sums that places add to logits."""
        return torch.cat([column.table @ coefficients[column.inputs] for column in self.columns])

    def narrow(self, sums: Tensor) -> Tensor:
        """From sums at places ``(places, ...)`` to sums of inputs."""
        found = sums.new_empty(self.width, *sums.shape[1:])
        for column, (start, stop) in zip(self.columns, pairwise(self.ends), strict=True):
            found[column.inputs] = column.narrow(sums[start:stop])
        return found

    def part(self, lines: slice) -> Looked:
        found = copy(self)
        found.more, found.at, found.weight = self.more[lines], self.at[lines], self.weight[lines]
        return found


def square(x: Tensor, weight: Tensor) -> Tensor:
    """The weighted sum of every line's products with itself, ``(q, q)``, of ``(n, q)``."""
    weighted, q = weight.to(x)[:, None] * x, x.shape[1]
    found = weighted.new_empty(q, q)
    for k in range(BLOCKS):  # it is symmetric: what is below the blocks is not computed
        start, stop = q * k // BLOCKS, q * (k + 1) // BLOCKS
        rows = x[:, start:stop].T @ weighted[:, start:]
        found[start:stop, start:], found[start:, start:stop] = rows, rows.T
    return found


def triangle(matrix: Tensor) -> Tensor:
    """The numbers of a symmetric matrix's upper triangle, row by row."""
    return matrix.view(-1).index_select(0, places(len(matrix))[0])


def whole(triangles: Tensor) -> Tensor:
    """The symmetric matrices ``(..., size, size)`` of upper triangles ``(..., numbers)``."""
    size = isqrt(2 * triangles.shape[-1])
    found = triangles.index_select(-1, places(size)[1])
    return found.view(*triangles.shape[:-1], size, size)


@lru_cache(maxsize=2)
def places(size: int) -> tuple[Tensor, Tensor]:
    """Where a matrix has the numbers of its upper triangle, and where these are for all of it."""
    rows, columns = torch.triu_indices(size, size)
    back = torch.empty(size, size, dtype=torch.int64)
    back[rows, columns] = back[columns, rows] = torch.arange(len(rows))
    return (size * rows + columns).int(), back.view(-1).int()
