"""Confidence intervals of a rate, or of the difference of two rates, also from few rows.

Counts in, ends out, for arrays of any shape at once. A rate has Wilson's score interval; of
fewer than `FEWEST` rows the exact one (Clopper and Pearson), which is wider. The interval of a sum
of rates follows from their ends (Newcombe's square-and-add, MOVER). A difference of two rates has
the hull of that and of Miettinen and Nurminen's score interval: at some rates, each of the two has
too low a coverage. `tests/metrics/test_intervals.py` computes the coverage.
"""

from collections.abc import Callable
from statistics import NormalDist

import numpy as np

FEWEST = 5  # rows behind a rate; fewer are too few to judge by
HALVINGS = 34  # of [-1, 1], until an end is exact to 1e-10
Ends = tuple[np.ndarray, np.ndarray]


def quantile(level: float) -> float:
    """Return the half-width of an interval of this confidence level in standard errors."""
    return NormalDist().inv_cdf((1 + level) / 2)


def rate(hits: np.ndarray, rows: np.ndarray, z: float | np.ndarray) -> Ends:
    """Return the ends of the interval of a rate; NaN without rows.

    >>> low, high = rate(np.array([0, 8]), np.array([2, 10]), quantile(0.95))
    >>> low.round(3), high.round(3)
    (array([0.  , 0.49]), array([0.842, 0.943]))
    """
    hits, rows, z = np.broadcast_arrays(*(np.asarray(a, float) for a in (hits, rows, z)))
    with np.errstate(invalid="ignore", divide="ignore"):
        p, wide = hits / rows, 1 + z**2 / rows
        middle = (p + z**2 / (2 * rows)) / wide
        half = z / wide * np.sqrt(p * (1 - p) / rows + z**2 / (4 * rows**2))
    low = np.where(hits == 0, 0.0, middle - half)  # without a rounding error
    high = np.where(hits == rows, 1.0, middle + half)
    few = (rows > 0) & (rows < FEWEST)
    if few.any():
        low[few], high[few] = _exact(hits[few], rows[few], z[few])
    unknown = rows == 0
    return np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)


def _exact(hits: np.ndarray, rows: np.ndarray, z: np.ndarray) -> Ends:
    from scipy.special import betaincinv, ndtr

    tail, misses = ndtr(-z), rows - hits
    low = betaincinv(np.maximum(hits, 1), misses + 1, tail)
    high = betaincinv(hits + 1, np.maximum(misses, 1), 1 - tail)
    return np.where(hits == 0, 0.0, low), np.where(misses == 0, 1.0, high)


def weighted_sum(
    hits: np.ndarray, rows: np.ndarray, weights: np.ndarray, z: float | np.ndarray
) -> Ends:
    """Return the ends of a weighted sum of independent rates over the last axis (square-and-add).

    A rate whose weight is 0 does not matter, also if it has no rows.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        p = hits / rows
    return weighted(p, *rate(hits, rows, z), weights)[1:]


def weighted(
    values: np.ndarray, low: np.ndarray, high: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a weighted sum of independent values, and the ends of its interval from theirs."""
    counted = np.broadcast_to(weights != 0, low.shape)
    value = np.where(counted, weights * values, 0.0).sum(-1)
    down = np.where(counted, weights * (values - low), 0.0)
    up = np.where(counted, weights * (high - values), 0.0)
    return value, value - np.sqrt((down**2).sum(-1)), value + np.sqrt((up**2).sum(-1))


def difference(
    hits: np.ndarray, rows: np.ndarray, other_hits: np.ndarray, other_rows: np.ndarray,
    z: float | np.ndarray,
) -> Ends:  # fmt: skip
    """Return the ends of the interval of hits / rows - other_hits / other_rows.

    They are NaN where one of the two has no rows.

    >>> low, high = difference(*(np.array([a]) for a in (56, 70, 48, 80)), quantile(0.95))
    >>> low.round(4), high.round(4)
    (array([0.0524]), array([0.3382]))
    """
    given = (hits, rows, other_hits, other_rows, z)
    arrays = np.broadcast_arrays(*(np.asarray(a, float) for a in given))
    shape = arrays[0].shape
    cases, index = np.unique(np.stack([a.ravel() for a in arrays]), axis=1, return_inverse=True)
    x, n, y, m, zs = cases  # equal counts are computed once
    low, high = np.full((2, len(x)), np.nan)
    known = (n > 0) & (m > 0)
    if known.any():
        counts = tuple(a[known] for a in (x, n, y, m, zs))
        newcombe, score = _newcombe(*counts), _score(*counts)
        low[known] = np.minimum(newcombe[0], score[0])
        high[known] = np.maximum(newcombe[1], score[1])
    index = index.reshape(shape)
    return low[index], high[index]


def _newcombe(x: np.ndarray, n: np.ndarray, y: np.ndarray, m: np.ndarray, z: np.ndarray) -> Ends:
    """Return Newcombe's interval (1998, his method 10)."""
    (l1, u1), (l2, u2), p, q = rate(x, n, z), rate(y, m, z), x / n, y / m
    down, up = np.hypot(p - l1, u2 - q), np.hypot(u1 - p, q - l2)
    return np.maximum(p - q - down, -1.0), np.minimum(p - q + up, 1.0)


def _score(x: np.ndarray, n: np.ndarray, y: np.ndarray, m: np.ndarray, z: np.ndarray) -> Ends:
    """Return Miettinen and Nurminen's interval (1985): differences that a score test accepts."""
    found = x / n - y / m

    def far(gap: np.ndarray) -> np.ndarray:
        q = _likeliest(x, n, y, m, gap)
        p = q + gap
        with np.errstate(invalid="ignore"):
            variance = (p * (1 - p) / n + q * (1 - q) / m) * (n + m) / (n + m - 1)
            far = np.asarray((found - gap) ** 2 > z**2 * variance * (1 + 1e-12))
        return far

    bounds = np.stack([-np.ones_like(found), np.ones_like(found)])
    low, high = search(far, np.stack([found, found]), bounds)
    return low, high


def search(
    far: Callable[[np.ndarray], np.ndarray], inside: np.ndarray, bound: np.ndarray
) -> np.ndarray:
    """Bisect between a value that is accepted and a bound that may not be."""
    outside = bound
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        refused = far(middle)
        outside, inside = np.where(refused, middle, outside), np.where(refused, inside, middle)
    return np.where(far(bound), outside, bound)


def _likeliest(
    x: np.ndarray, n: np.ndarray, y: np.ndarray, m: np.ndarray, gap: np.ndarray
) -> np.ndarray:
    """Return the likeliest rate of the second group if the first one's is larger by `gap`.

    It is a root of a cubic, in closed form (Miettinen and Nurminen, 1985, appendix 1).
    """
    total, hits = n + m, x + y
    b = ((n + 2 * m) * gap - total - hits) / (3 * total)
    c = ((m * gap - total - 2 * y) * gap + hits) / (3 * total)
    d = y * gap * (1 - gap) / total
    v = b**3 - 1.5 * b * c + d / 2
    u = np.copysign(np.sqrt(np.maximum(b**2 - c, 0.0)), v)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = np.where(u == 0, 0.0, v / np.where(u == 0, 1.0, u) ** 3)
    root = 2 * u * np.cos((np.pi + np.arccos(np.clip(cosine, -1, 1))) / 3) - b
    return np.asarray(np.clip(root, np.maximum(0.0, -gap), np.minimum(1.0, 1 - gap)))


def paired(gained: np.ndarray, lost: np.ndarray, rows: np.ndarray, z: float) -> Ends:
    """Return the ends of (gained - lost) / rows, of rows that are a hit for one model only.

    Tango's score interval (1998, Statistics in Medicine 17, 891-908).
    """
    b, c, n = (np.asarray(a, float) for a in (gained, lost, rows))

    def far(gap: np.ndarray) -> np.ndarray:
        linear = (2 * n - b + c) * gap - b - c
        root = np.sqrt(np.maximum(linear**2 + 8 * n * c * gap * (1 - gap), 0))
        one_only = (root - linear) / (4 * n)
        variance = n * np.maximum(2 * one_only + gap * (1 - gap), 0)
        return np.asarray((b - c - n * gap) ** 2 > z**2 * variance * (1 + 1e-12))

    with np.errstate(invalid="ignore", divide="ignore"):
        observed = (b - c) / n
        least, most = np.full_like(observed, -1), np.full_like(observed, 1)
        low, high = search(far, observed, least), search(far, observed, most)
    return np.where(n == 0, np.nan, low), np.where(n == 0, np.nan, high)


def fold(low: np.ndarray, high: np.ndarray) -> Ends:
    """Return the interval of an absolute value, from 0 on if that of the signed one contains 0."""
    nearest = np.where(low * high > 0, np.minimum(np.abs(low), np.abs(high)), 0.0)
    nearest = np.where(np.isnan(low), np.nan, nearest)
    return nearest, np.maximum(np.abs(low), np.abs(high))
