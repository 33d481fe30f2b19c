"""Intervals of audits: a ratio of rates, an area under a curve, paired differences of two models.

As in `pfedfair.metrics.intervals`, for arrays at once and for few rows too. Their coverage is
computed in `tests/auditing/test_ends.py`.
"""

import numpy as np

from pfedfair import metrics
from pfedfair.metrics.criteria import MEASURES
from pfedfair.metrics.intervals import Ends, rate, search

DRAWS = 1000  # of two models' rates
AT_ONCE = 5_000_000  # random numbers


def ratio(
    hits: np.ndarray, rows: np.ndarray, others: np.ndarray, out_of: np.ndarray,
    z: float | np.ndarray,
) -> Ends:  # fmt: skip
    """Return the ends of the interval of (hits / rows) / (others / out_of), from 0 to infinity.

    It is combined from the ends of the two rates, see Donner and Zou (2012), MOVER-R.
    """
    (l1, u1), (l2, u2) = rate(hits, rows, z), rate(others, out_of, z)
    with np.errstate(invalid="ignore", divide="ignore"):
        p, q = hits / rows, others / out_of
        below, above = u2 * (2 * q - u2), l2 * (2 * q - l2)
        root = np.sqrt(np.maximum((p * q) ** 2 - l1 * (2 * p - l1) * below, 0))
        low = np.where(
            np.abs(below) < 1e-12, l1 * (2 * p - l1) / (2 * p * q), (p * q - root) / below
        )
        root = np.sqrt(np.maximum((p * q) ** 2 - u1 * (2 * p - u1) * above, 0))
        high = np.where(l2 > 0, (p * q + root) / above, np.inf)
    low = np.where(hits == 0, 0.0, np.maximum(low, 0))
    unknown = np.isnan(p) | np.isnan(q)
    return np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)


def folded_ratio(low: np.ndarray, high: np.ndarray) -> Ends:
    """Return the ends of the smaller rate over the larger one; an interval around 1 ends there."""
    with np.errstate(divide="ignore"):
        far = np.minimum(low, 1 / high)
        near = np.where(high < 1, high, np.where(low > 1, 1 / low, 1.0))
    return np.where(np.isnan(low), np.nan, far), np.where(np.isnan(low), np.nan, near)


def area(auc: np.ndarray, positive: np.ndarray, negative: np.ndarray, z: float) -> Ends:
    """Return the ends of the interval of an area under the ROC curve (Newcombe, 2006, method 5).

    >>> low, high = area(np.array([0.8]), np.array([20]), np.array([30]), 1.96)
    >>> low.round(2), high.round(2)
    (array([0.64]), array([0.89]))
    """
    auc, positive, negative = (np.asarray(a, float) for a in (auc, positive, negative))
    more = (positive + negative) / 2 - 1

    def far(theta: np.ndarray) -> np.ndarray:
        spread = 1 + more * (1 - theta) / (2 - theta) + more * theta / (1 + theta)
        variance = theta * (1 - theta) * spread / (positive * negative)
        return np.asarray((auc - theta) ** 2 > z**2 * variance)

    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = search(far, auc, np.zeros_like(auc)), search(far, auc, np.ones_like(auc))
    unknown = (positive == 0) | (negative == 0)
    return np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)


def gap_difference(
    counts: np.ndarray, rng: np.random.Generator, level: float = 0.95
) -> dict[str, np.ndarray]:
    """Return the ends of the second model's gaps less the first one's on the same rows.

    A gap has no sign and is the largest of several, so no formula fits: rates are drawn from their
    posterior (a Dirichlet prior that is worth one row of each group and label). The interval is
    the hull of the central part of the drawn differences and of its reflection at the observed
    difference, as most draws of a small gap are larger than it is.

    Parameters
    ----------
    counts
        ``(clients, S, Y, Yhat, Yhat of the second model)``.
    """
    clients, groups, classes = counts.shape[:3]
    cells = counts.reshape(clients, groups, classes, -1)
    observed = cells.sum(-1, keepdims=True) > 0
    prior = np.where(observed, 1 / cells.shape[-1], 0)
    parts: dict[str, list[np.ndarray]] = {}
    draws = min(DRAWS, max(200, 10 * AT_ONCE // cells[0].size))  # fewer of many groups and labels
    step = max(1, AT_ONCE // (draws * cells[0].size))
    for start in range(0, clients, step):
        part = slice(start, start + step)
        drawn = rng.standard_gamma(cells[part] + prior[part], (draws, *cells[part].shape))
        drawn = drawn.reshape(draws, -1, *counts.shape[1:])
        for name, (likely, seen) in _differences(drawn, counts[part]).items():
            tails = np.quantile(likely, [(1 - level) / 2, (1 + level) / 2], axis=0)
            reflected = 2 * seen - tails[::-1]
            ends = np.minimum(tails[0], reflected[0]), np.maximum(tails[1], reflected[1])
            parts.setdefault(name, []).append(np.stack(ends))
    return {name: np.concatenate(of_name, axis=1) for name, of_name in parts.items()}


def _differences(drawn: np.ndarray, counts: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    with np.errstate(invalid="ignore", divide="ignore"):
        pairs = [(metrics.measure(a.sum(-1)), metrics.measure(a.sum(-2))) for a in (drawn, counts)]
    likely, seen = ({k: b[k] - a[k] for k in MEASURES} for a, b in pairs)
    return {name: (likely[name], seen[name]) for name in likely}
