"""Splits that have all rows of a person on one side.

Persons are codes of rows. Those with rows at several clients have negative codes: their side is a
random draw that no client's rows change, so that it is the same at all clients. The others fill the
sides up to the wanted sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pfedfair._util import seeds

TEST, VALIDATION, HELD, FOLDS, TREES, COUNTS = range(6)  # purposes of random draws


def mark_shared(person: np.ndarray, clients: Sequence[np.ndarray]) -> np.ndarray:
    """Return the codes, those of persons with rows at several clients as ``-1 - code``.

    >>> mark_shared(np.array([0, 0, 1, 2]), [np.array([0, 2]), np.array([1, 3])])
    array([-1, -1,  1,  2])
    """
    number = np.zeros(person.max(initial=-1) + 1, dtype=np.int64)  # of clients, of each person
    for rows in clients:
        number[np.unique(person[rows])] += 1
    return np.where(number[person] > 1, -1 - person, person)


@dataclass(frozen=True, eq=False)
class Persons:
    """Whose each row of a table is, and where random draws about shared persons come from.

    `shared` is the part of shared persons on the first side, if clients have sides of their own
    sizes.
    """

    codes: np.ndarray
    seed: int
    purpose: int
    shared: float | None = None

    def draws(self, rows: np.ndarray) -> np.ndarray:
        """Return a number in [0, 1) for each row, the same for all rows of a person."""
        codes = self.codes[rows]
        marks = np.where(codes < 0, -1 - codes, codes).astype(np.uint64)
        return seeds.uniforms(marks, self.seed, seeds.PERSONS, self.purpose)

    def halves(self, rows: np.ndarray) -> np.ndarray:
        """Return 0 or 1 for each row, nearly as many persons of each."""
        ids, person = np.unique(self.codes[rows], return_inverse=True)
        drawn = self.draws(rows) < 0.5
        return np.where(self.codes[rows] < 0, drawn, np.arange(len(ids))[person] % 2).astype(int)

    def fewest(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows of the person with the fewest ones, none if all are of one person."""
        ids, size = np.unique(self.codes[rows], return_counts=True)
        free = ids >= 0
        if len(ids) < 2 or not free.any():
            return rows[:0]
        return np.asarray(rows[self.codes[rows] == ids[free][size[free].argmin()]])

    def deal(
        self, rows: np.ndarray, s: np.ndarray, shares: np.ndarray, rng: np.random.Generator
    ) -> list[np.ndarray]:
        """Deal rows to parts, of each group about the given `shares`, ``(groups, parts)``.

        A person counts for the group of most of its rows. What a part gets too little or too much
        of one group, for persons are not divided, is made good with the next one.
        """
        ids, first, person, size = np.unique(
            self.codes[rows], return_index=True, return_inverse=True, return_counts=True
        )
        group, parts = _most_frequent(s[rows], person, len(ids)), shares.shape[1]
        draws, part = self.draws(rows[first]), np.zeros(len(ids), dtype=np.int64)
        owed = np.zeros(parts)
        for z in range(len(shares)):
            own = group == z
            shared, free = np.flatnonzero(own & (ids < 0)), np.flatnonzero(own & (ids >= 0))
            ends = shares[z].cumsum()[:-1] if self.shared is None else [self.shared]
            part[shared] = np.searchsorted(ends, draws[shared], side="right")
            owed += shares[z] * size[own].sum()
            owed -= np.bincount(part[shared], size[shared], parts)
            part[free] = _fill(size[free], owed.clip(0), rng)
            owed -= np.bincount(part[free], size[free], parts)
        return [np.sort(rows[part[person] == k]) for k in range(parts)]


def _most_frequent(s: np.ndarray, person: np.ndarray, persons: int) -> np.ndarray:
    """Return the group of most rows of each person."""
    groups = int(s.max(initial=0)) + 1
    counts = np.bincount(person * groups + s, minlength=persons * groups)
    return np.asarray(counts.reshape(persons, groups).argmax(1))


def _fill(size: np.ndarray, wanted: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a part for each person, in random order, so that parts have the `wanted` rows.

    A person is in the part in which the middle of its rows is. Persons with more rows than the
    smallest part shall have come last: elsewhere they would leave it empty.
    """
    if not len(size) or not wanted.any():
        return np.full(len(size), len(wanted) - 1)
    wanted = wanted * (size.sum() / wanted.sum())
    order = rng.permutation(len(size))
    order = order[np.argsort(size[order] > wanted[wanted > 0].min(), kind="stable")]
    middle = size[order].cumsum() - size[order] / 2
    part = np.empty(len(size), dtype=np.int64)
    part[order] = np.searchsorted(wanted.cumsum()[:-1], middle)
    return part
