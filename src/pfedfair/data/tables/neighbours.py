"""What a site sends of a column of numbers: values of enough rows, and means of neighbours.

A value that enough rows have is sent as it is. The others are put into groups of neighbours:
those of the least spread of all that have enough rows each (optimal univariate microaggregation,
Hansen and Mukherjee, IEEE TKDE 15(4), 2003). Groups from the smallest number on would reach over
gaps, and ramps would have their knots where no row is. For a group stands the mean of those of its
rows that are closest together, as many as are enough.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

MOST_CELLS = 1000  # values that are sent, and again as many means
FINE = 10  # parts of a group that are looked at as one, in a column of very many numbers


def grouped(values: np.ndarray, counts: np.ndarray, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers in order, and how many rows are near each, `least` or more.

    `values` are in order, and `counts` rows have each. Nothing is sent of fewer than `least`.

    >>> found, rows = grouped(np.array([0.0, 5, 6, 90, 98]), np.array([9, 1, 1, 1, 1]), 2)
    >>> found.tolist(), rows.tolist()
    ([0.0, 5.5, 94.0], [9, 2, 2])
    """
    total = int(counts.sum())
    if total < least:
        return values[:0], counts[:0]
    spike = counts >= max(least, total // MOST_CELLS)
    size = max(least, int(counts[~spike].sum()) // MOST_CELLS)
    own = np.flatnonzero(counts >= size)
    kept: list[tuple[float, int]] = []
    few: list[tuple[float, int]] = []  # too few between two values that are sent
    for last, here in pairwise((-1, *own.tolist(), len(values))):
        between = slice(last + 1, here)
        x, n = values[between], counts[between]
        if 0 < n.sum() < size:
            few.append((float(x @ n) / int(n.sum()), int(n.sum())))
        elif n.sum():
            kept += [
                (_closest(x[i:j], n[i:j], size), int(n[i:j].sum())) for i, j in _cut(x, n, size)
            ]
        if here < len(values):
            kept.append((float(values[here]), int(counts[here])))
    found = np.array([value for value, _ in kept])
    sizes = np.array([rows for _, rows in kept], dtype=np.int64)
    for value, rows in few:  # they count where the nearest number is
        sizes[np.abs(found - value).argmin()] += rows
    return found, sizes


def _cut(x: np.ndarray, n: np.ndarray, size: int) -> list[tuple[int, int]]:
    """Return groups of neighbours, each of `size` rows or more, with the least squared spread.

    The best groups of the first numbers end in a group that begins somewhere: it has fewer than
    four times `size` rows, as a larger one could be cut again.
    """
    before = np.cumsum(n) - n
    starts = np.flatnonzero(np.diff(before // max(size // FINE, 1), prepend=-1))
    ends = np.append(starts, len(x))  # what begins at the one ends before the next
    way = (x - x[0]) / max(float(x[-1] - x[0]), np.finfo(float).tiny)
    rows, sums, squares = (
        np.append(0, np.cumsum(part))[ends] for part in (n, n * way, n * way * way)
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
    """Return the mean of the `size` rows that are closest together."""
    each = np.repeat(x, n)
    first = int((each[size - 1 :] - each[: len(each) - size + 1]).argmin())
    return float(each[first : first + size].mean())
