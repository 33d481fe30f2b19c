"""Summarise a column of numbers for sending: frequent values, and means of neighbours.

A value that enough rows have is sent unchanged. The others are grouped with their neighbours: of
all groups that have enough rows each, those of the least spread (optimal univariate
microaggregation, Hansen and Mukherjee, IEEE TKDE 15(4), 2003). Groups formed from the smallest
number on would span gaps, and knots would be where no row is. A group is represented by the mean of
its closest rows, of the minimum number.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

MOST_CELLS = 1000  # values that are sent, and again as many means
FINE = 10  # candidate cuts for each group, in a column of very many numbers


def group_neighbours(
    values: np.ndarray, counts: np.ndarray, least: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return sorted numbers, and how many rows each represents, `least` or more.

    `values` are sorted, and `counts` rows have each. A column of fewer than `least` rows is empty.

    >>> found, rows = group_neighbours(np.array([0.0, 5, 6, 90, 98]), np.array([9, 1, 1, 1, 1]), 2)
    >>> found.tolist(), rows.tolist()
    ([0.0, 5.5, 94.0], [9, 2, 2])
    """
    total = int(counts.sum())
    if total < least:
        return values[:0], counts[:0]
    spike = counts >= max(least, total // MOST_CELLS)
    size = max(least, int(counts[~spike].sum()) // MOST_CELLS)
    frequent = np.flatnonzero(counts >= size)
    groups: list[tuple[float, int]] = []
    small: list[tuple[float, int]] = []  # fewer than `size` rows between two frequent values
    for last, here in pairwise((-1, *frequent.tolist(), len(values))):
        between = slice(last + 1, here)
        x, n = values[between], counts[between]
        if 0 < n.sum() < size:
            small.append((float(x @ n) / int(n.sum()), int(n.sum())))
        elif n.sum():
            groups += [
                (_closest(x[i:j], n[i:j], size), int(n[i:j].sum())) for i, j in _cut(x, n, size)
            ]
        if here < len(values):
            groups.append((float(values[here]), int(counts[here])))
    found = np.array([value for value, _ in groups])
    sizes = np.array([rows for _, rows in groups], dtype=np.int64)
    for value, rows in small:  # they are added to the nearest group
        sizes[np.abs(found - value).argmin()] += rows
    return found, sizes


def _cut(x: np.ndarray, n: np.ndarray, size: int) -> list[tuple[int, int]]:
    """Return groups of neighbours, each of `size` rows or more, with the least squared spread.

    The best groups of the first numbers end in a group that begins somewhere: it has fewer than
    four times `size` rows, as a larger one could be cut again.
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
    for j in range(1, len(ends)):
        if highest[j] == 0:
            continue
        i = slice(min(lowest[j], highest[j] - 1), highest[j])
        number, total = rows[j] - rows[i], sums[j] - sums[i]
        cost = best[i] + (squares[j] - squares[i] - total * total / number)
        at = int(cost.argmin())
        best[j], begin[j] = cost[at], i.start + at
    cuts = [len(ends) - 1]
    while cuts[-1]:
        cuts.append(int(begin[cuts[-1]]))
    return [*pairwise(ends[cuts[::-1]].tolist())]


def _closest(x: np.ndarray, n: np.ndarray, size: int) -> float:
    """Return the mean of the `size` closest rows."""
    each = np.repeat(x, n)
    first = int((each[size - 1 :] - each[: len(each) - size + 1]).argmin())
    return float(each[first : first + size].mean())
