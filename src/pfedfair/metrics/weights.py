"""Weighted rows: how many unweighted ones determine a rate as well.

Rows are counted as *moments* ``(3, ...)``: sums of the weights' powers 0, 1 and 2, that is the
number of rows, the sum of their weights and that of the squares. Moments add up over cells, and
the linearised (design-based) variance of a rate follows from those of hits and of all rows. Without
weights all three are the number of rows, and every number here is exactly that.
"""

import numpy as np

# So much of 1 / degrees of freedom widens a variance, and at most so many times. The t quantile of
# 95 % has 2.4, but squares of uneven weights vary more than those of normal numbers.
SPREAD, WIDEST = 6.0, 2.0


def moments_of(counts: np.ndarray) -> np.ndarray:
    """Return the moments of unweighted rows from their counts."""
    return np.broadcast_to(counts, (3, *counts.shape))


def kish(rows: np.ndarray) -> np.ndarray:
    """Return Kish's effective number of rows: (sum of weights)^2 / (sum of their squares).

    >>> kish(np.array([[2.0], [11.0], [101.0]])).round(2)
    array([1.2])
    """
    with np.errstate(invalid="ignore"):
        return np.where(rows[0] > 0, rows[1] / (rows[2] / rows[1]), 0)


def effective(hits: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the hits and rows of an unweighted sample that determines each rate as well.

    Let R = h / W be the rate, and a and b the squares over the weights of hits and of misses. Its
    linearised variance is R (1 - R) ((1 - R) a + R b) / W, and with n unweighted rows it would be
    R (1 - R) / n. So n = W / ((1 - R) a + R b), at most the number of rows. It is Kish's number
    where a = b.

    Few or uneven weights make a and b uncertain: one more row of hits and of misses with the mean
    weight stabilises them, and the fewer degrees of freedom (Satterthwaite) than without weights
    reduce n, as in Korn and Graubard (1998). A rate of 0 or 1, whose linearised variance is 0, thus
    has half of Kish's number or more.

    Parameters
    ----------
    hits, rows
        Moments ``(3, ...)``.

    Examples
    --------
    >>> effective(*(moments_of(np.array([n])) for n in (3, 49)))
    (array([3.]), array([49.]))
    """
    number, total = rows[0], rows[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / number
        more = mean * (rows[2] / total)
        hit, miss = hits[1], np.maximum(total - hits[1], 0)
        a = (hits[2] + more) / (hit + mean)
        b = (np.maximum(rows[2] - hits[2], 0) + more) / (miss + mean)
        spread = miss * a + hit * b
        fewer = _inverse_freedom(miss * a / spread, (hit + mean) / a, (miss + mean) / b)
        usual = _inverse_freedom((number - hits[0]) / number, hits[0] + 1, number - hits[0] + 1)
        wider = np.clip(1 + SPREAD * (fewer - usual), 1, WIDEST)
        size = total / (spread / total) / wider
        size = np.where(number > 0, np.minimum(size, number), 0)
        hit = np.where(hits[0] == number, size, hit * (size / total))
    return np.where(number > 0, hit, 0), size


def _inverse_freedom(share: np.ndarray, hits: np.ndarray, misses: np.ndarray) -> np.ndarray:
    """Return 1 / degrees of freedom of a variance, `share` of which comes from the hits."""
    return np.asarray(share**2 / hits + (1 - share) ** 2 / misses)
