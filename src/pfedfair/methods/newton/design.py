"""Design matrices, and the products with them that `Newton`'s sums consist of.

A design has q numbers for each row, in which the logits are linear. They are laid out (`Dense`),
or looked up in tables of the encoder's `Basis` (`LookedUp`). Products are then sums over lines of
these tables, so a column of 500 categories, or of 32 segments, costs no more than one of two. In C
(`lookup`) this is always faster; without it, if there are many inputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import combinations_with_replacement, pairwise
from math import isqrt
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pfedfair.data.tables.basis import Basis, sum_heights
from pfedfair.methods.newton import lookup
from pfedfair.methods.newton.likelihood import PARTS, chances, curvature_of, loss_of, slopes_of

BLOCKS = 3  # of a square; smaller blocks are slower


class Labels(NamedTuple):
    """Labels and weights of rows."""

    y: Tensor
    weight: Tensor  # how much each row counts


class Sums(NamedTuple):
    """The sums over rows that a Newton step needs, part by part."""

    loss: Tensor  # on the line of a step, (parts, points), see `PARTS`
    gradient: Tensor  # (parts, outputs, q)
    hessian: Tensor  # upper triangles, (parts, numbers)


class Design(ABC):
    """Products with a design of n lines of q numbers.

    Rows are in parts: part k has the rows from ``ends[k]`` to ``ends[k + 1]``.
    """

    @abstractmethod
    def scores(self, coefficients: Tensor) -> Tensor:
        """Return logits ``(points, n, outputs)`` by coefficients ``(points, outputs, q)``."""

    @abstractmethod
    def pull(self, slopes: Tensor, ends: Sequence[int]) -> Tensor:
        """Return slopes of coefficients by part from slopes of logits ``(..., n, outputs)``."""

    @abstractmethod
    def squares(self, weight: Tensor, ends: Sequence[int]) -> Tensor:
        """Return each part's weighted sum of lines' products with themselves: upper triangles.

        In single precision: the optimum does not depend on the Hessian's precision.
        """

    def sums(self, points: Tensor, shift: Tensor, labels: Labels, ends: Sequence[int]) -> Sums:
        """Return sums at ``points[0]``, and the losses on the line to it from ``points[1]``.

        Points are ``(2, outputs, q)``; ``shift[k]`` ``(2, outputs)`` is added to logits of part k.
        """
        part = part_of(ends)
        z = self.scores(points) + shift[part].movedim(0, 1)
        way, chance = z[1] + PARTS[:, None, None] * (z[0] - z[1]), chances(z[0])
        losses = loss_of(way, labels.y) * labels.weight
        loss = losses.new_zeros(len(shift), len(PARTS)).index_add_(0, part, losses.T)
        slopes = slopes_of(chance, labels.y) * labels.weight[:, None]
        return Sums(loss, self.pull(slopes, ends), self.hessians(chance, labels.weight, ends))

    def losses(
        self, coefficients: Tensor, shift: Tensor, labels: Labels, ends: Sequence[int]
    ) -> Tensor:
        """Return the losses of models, added up over the rows of each part, ``(parts, points)``.

        Of the models ``(sets, points, outputs, q)`` part k takes set ``k % sets``;
        ``shift[k]`` ``(outputs,)`` is added to logits of part k.
        """
        part, rows = part_of(ends), torch.arange(len(labels.y))
        each = self.scores(coefficients.flatten(0, 1))
        each = each.view(*coefficients.shape[:2], *each.shape[1:])
        z = each[part % len(coefficients), :, rows].movedim(1, 0) + shift[part]
        losses = loss_of(z, labels.y) * labels.weight
        return losses.new_zeros(len(shift), len(z)).index_add_(0, part, losses.T)

    def hessians(self, chance: Tensor, weight: Tensor, ends: Sequence[int]) -> Tensor:
        """Return the upper triangles of each part's Hessian, a matrix of ``outputs * q``."""
        curved = curvature_of(chance) * weight[:, None, None]
        outputs = range(curved.shape[1])
        if len(outputs) == 1:
            return self.squares(curved[:, 0, 0], ends)
        squares = {(a, b): symmetric(self.squares(curved[:, a, b], ends))
                   for a in outputs for b in outputs if a <= b}  # fmt: skip
        rows = [torch.cat([squares[min(a, b), max(a, b)] for b in outputs], dim=2) for a in outputs]
        return triangle(torch.cat(rows, dim=1))


class Dense(Design):
    """A design that is laid out, ``(n, q)``."""

    def __init__(self, x: Tensor) -> None:
        self.x, self.exact = x, x.double()

    def scores(self, coefficients: Tensor) -> Tensor:
        z = self.exact @ coefficients.flatten(0, 1).T
        return z.view(len(z), *coefficients.shape[:2]).movedim(1, 0)

    def pull(self, slopes: Tensor, ends: Sequence[int]) -> Tensor:
        parts = (slice(*cut) for cut in pairwise(ends))
        return torch.stack([slopes[..., rows, :].mT @ self.exact[rows] for rows in parts])

    def squares(self, weight: Tensor, ends: Sequence[int]) -> Tensor:
        parts = (slice(*cut) for cut in pairwise(ends))
        return triangle(torch.stack([square(self.x[rows], weight[rows]) for rows in parts]))


class LookedUp(Design):
    """A design that is looked up: encoded `cells` ``(n, columns)``, then `dense` inputs."""

    def __init__(self, cells: Tensor, dense: Tensor, basis: Basis) -> None:
        self.basis, self.dense = basis, dense.double().contiguous()
        self.lines, self.weight = basis.lookup(cells)
        interpolated = np.flatnonzero(basis.interpolated)
        self.column = np.concatenate([np.arange(len(basis.sizes)), interpolated])

    def scores(self, coefficients: Tensor) -> Tensor:
        flat = coefficients.flatten(0, 1).T
        heights = self.basis.heights(flat[: self.basis.width])
        z = sum_heights(self.lines, self.weight, heights)
        z += self.dense @ flat[self.basis.width :]
        return z.view(len(z), *coefficients.shape[:2]).movedim(1, 0)

    def pull(self, slopes: Tensor, ends: Sequence[int]) -> Tensor:
        flat = slopes.movedim(-2, 0).flatten(1)  # (n, numbers)
        size, parts = int(self.basis.ends[-1]), len(ends) - 1
        at = (self.lines + size * part_of(ends)[:, None]).ravel().numpy()
        values = ((self.weight * slope[:, None]).ravel().numpy() for slope in flat.T)
        sums = [np.bincount(at, each, parts * size).reshape(parts, size) for each in values]
        of_lines = torch.from_numpy(np.concatenate(sums).astype(np.float64)).T  # if no row, int
        inputs = self.basis.pull(of_lines).T.view(len(sums), parts, -1).movedim(1, 0)
        dense = torch.stack([flat[i:j].T @ self.dense[i:j] for i, j in pairwise(ends)])
        found = torch.cat([inputs, dense], dim=-1)  # (parts, numbers, q)
        return found.view(parts, *slopes.shape[:-2], slopes.shape[-1], -1)

    def squares(self, weight: Tensor, ends: Sequence[int]) -> Tensor:
        if lookup.LIBRARY:
            return lookup.squares(self.basis, (self.lines, self.weight), self.dense, weight, ends)
        each = [self._square(weight, slice(*cut)) for cut in pairwise(ends)]
        return triangle(torch.stack(each)).float()

    def _square(self, weight: Tensor, rows: slice) -> Tensor:
        """Sum by pairs of the tables' lines first, then by pairs of inputs."""
        ends, lines = self.basis.ends, self.lines[rows].T.contiguous().numpy()
        parts = self.weight[rows].T.contiguous().numpy()
        counts = parts * weight[rows].numpy()
        sums = np.zeros((ends[-1], ends[-1]))
        for one, other in combinations_with_replacement(range(len(ends) - 1), 2):
            (i, j), (k, end) = ends[one : one + 2], ends[other : other + 2]
            cells = np.zeros((j - i) * (end - k))
            for a in np.flatnonzero(self.column == one):
                first = (lines[a] - i) * (end - k) - k
                for b in np.flatnonzero(self.column == other):
                    cells += np.bincount(first + lines[b], counts[a] * parts[b], len(cells))
            sums[i:j, k:end] = cells.reshape(j - i, end - k)
            sums[k:end, i:j] = sums[i:j, k:end].T
        dense = self.dense[rows]
        weighted = weight[rows, None] * dense
        crossed = np.array([np.bincount(lines.ravel(), (parts * each).ravel(), ends[-1])
                           for each in weighted.T.numpy()])  # fmt: skip
        inputs = self.basis.pull(self.basis.pull(torch.from_numpy(sums)).T.contiguous())
        mixed = self.basis.pull(torch.from_numpy(crossed).double().T)
        below = torch.cat([mixed.T, dense.T @ weighted], dim=1)
        return torch.cat([torch.cat([inputs, mixed], dim=1), below])


def part_of(ends: Sequence[int]) -> Tensor:
    """Return the number of each row's part, ``(n,)``."""
    return torch.repeat_interleave(torch.tensor(ends).diff())


def square(x: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted sum of every line's products with itself, ``(q, q)``, of ``(n, q)``."""
    weighted, q = weight.to(x)[:, None] * x, x.shape[1]
    found = weighted.new_empty(q, q)
    for k in range(BLOCKS):  # it is symmetric: only blocks on and above the diagonal are computed
        start, stop = q * k // BLOCKS, q * (k + 1) // BLOCKS
        rows = x[:, start:stop].T @ weighted[:, start:]
        found[start:stop, start:], found[start:, start:stop] = rows, rows.T
    return found


def triangle(matrices: Tensor) -> Tensor:
    """Return the numbers of symmetric matrices' upper triangles, row by row: ``(..., numbers)``."""
    size = matrices.shape[-1]
    rows, columns = torch.triu_indices(size, size)
    return matrices.flatten(-2).index_select(-1, size * rows + columns)


def symmetric(triangles: Tensor) -> Tensor:
    """Return the symmetric matrices ``(..., size, size)`` of upper triangles ``(..., numbers)``."""
    size = isqrt(2 * triangles.shape[-1])
    rows, columns = torch.triu_indices(size, size)
    found = triangles.new_empty(*triangles.shape[:-1], size, size)
    found[..., rows, columns] = found[..., columns, rows] = triangles
    return found
