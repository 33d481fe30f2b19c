"""Pool a column of numbers: a rare number is replaced by one that it shares with its neighbours.

A value that enough rows have stays. The others are grouped with their neighbours: of all groups
that have enough rows each, those of the least spread (optimal univariate microaggregation, Hansen
and Mukherjee, IEEE TKDE 15(4), 2003). Groups formed from the smallest number on would span gaps,
and knots would be where no row is. A group is represented by its closest rows, of the minimum
number: by the mean of their middle half, so that one extreme number neither moves nor reveals
itself by its neighbours.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

MOST_CELLS = 1000  # values that stay, and again as many means: a description is no larger
FINE = 10  # candidate cuts for each group, in a column of very many numbers


def pool_neighbours(values: np.ndarray, counts: np.ndarray, least: int) -> np.ndarray:
    """Return the number that replaces each of the sorted `values`, which `counts` rows have.

    At least `least` rows have each of the new numbers; there must be as many.

    >>> pool_neighbours(np.array([0.0, 5, 6, 90, 98]), np.array([9, 1, 1, 1, 1]), 2).tolist()
    [0.0, 5.5, 5.5, 94.0, 94.0]
    """
    total = int(counts.sum())
    spike = counts >= max(least, total // MOST_CELLS)
    size = max(least, int(counts[~spike].sum()) // MOST_CELLS)
    frequent = np.flatnonzero(counts >= size)
    found = values.astype(np.float64)
    for last, here in pairwise((-1, *frequent.tolist(), len(values))):
        x, n = values[last + 1 : here], counts[last + 1 : here]
        if not len(x):
            continue
        if n.sum() >= size:
            found[last + 1 : here] = _represent(x, n, size)
        else:  # the nearer one of the frequent values beside them
            beside = values[[k for k in (last, here) if 0 <= k < len(values)]]
            found[last + 1 : here] = beside[np.abs(beside[:, None] - x).argmin(0)]
    return found


def _represent(x: np.ndarray, n: np.ndarray, size: int) -> np.ndarray:
    """Return for each number the mean of the middle of the `size` closest rows in its group."""
    cuts = np.array(_cut(x, n, size))
    each, rows = np.repeat(x, n), np.append(0, np.cumsum(n))[cuts]
    span = each[size - 1 :] - each[: len(each) - size + 1]
    first = [int(span[i : j - size + 1].argmin()) + i for i, j in rows.tolist()]
    middle = np.arange(size // 4, size - size // 4)
    means = each[np.array(first)[:, None] + middle].mean(1)
    return np.repeat(means, cuts[:, 1] - cuts[:, 0])


def _cut(x: np.ndarray, n: np.ndarray, size: int) -> list[tuple[int, int]]:
    """Return groups of neighbours, each of `size` rows or more, with the least squared spread.

    The best groups of the first numbers end in a group that begins somewhere: it has fewer than
    four times `size` rows, as a larger one could be cut again. Ends less than `size` rows apart are
    looked at side by side, as no group is between two of them.
    """
    before = np.cumsum(n) - n
    starts = np.flatnonzero(np.diff(before // max(size // FINE, 1), prepend=-1))
    ends = np.append(starts, len(x))  # of the groups, exclusive
    scaled = (x - x[0]) / max(float(x[-1] - x[0]), np.finfo(float).tiny)
    rows, sums, squares = (
        np.append(0, np.cumsum(part))[ends] for part in (n, n * scaled, n * scaled * scaled)
    )
    best, begin = np.full(len(ends), np.inf), np.zeros(len(ends), dtype=np.int64)
    best[0] = 0.0
    lowest = np.searchsorted(rows, rows - 4 * size)
    highest = np.searchsorted(rows, rows - size, side="right")
    lowest = np.minimum(lowest, highest - 1)
    j = int(np.searchsorted(highest, 1))  # the first end with a group before it
    while j < len(ends):
        last = int(np.searchsorted(rows, rows[j] + size))
        ahead = slice(j, last)
        i = np.arange(lowest[j], highest[last - 1])
        number, total = rows[ahead, None] - rows[i], sums[ahead, None] - sums[i]
        outside = (i < lowest[ahead, None]) | (i >= highest[ahead, None])
        cost = best[i] + (squares[ahead, None] - squares[i] - total * total / number)
        cost[outside] = np.inf
        at = cost.argmin(1)
        best[ahead], begin[ahead] = cost[np.arange(last - j), at], i[at]
        j = last
    cuts = [len(ends) - 1]
    while cuts[-1]:
        cuts.append(int(begin[cuts[-1]]))
    return [*pairwise(ends[cuts[::-1]].tolist())]
