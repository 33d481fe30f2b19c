"""Recall, precision, balanced accuracy and AUC, and what a model gains over the constant.

With few positives a model that gives everybody the same answer has a high accuracy and no gap:
these measures show it.
"""

import numpy as np
import pandas as pd

from pfedfair.metrics import intervals
from pfedfair.metrics.weights import kish

MEASURES = ("auc", "recall", "precision", "balanced_accuracy")


def performance(
    counts: np.ndarray, shares: np.ndarray | None = None, pairs: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Return `MEASURES` from counts ``(..., S, Y, Yhat)``; NaN where one is undefined.

    Balanced accuracy is the mean over labels with rows of the share of right predictions. The
    others are of two classes; the second label is the positive one.

    Parameters
    ----------
    shares
        The groups' shares ``(..., S)`` to weight them by; without it, those among the counts.
    pairs
        Pairs of rows by group that the scores order correctly, ``(..., S, S)``, see `ordered`.

    Examples
    --------
    >>> found = performance(np.array([[[5, 1], [1, 3]]]))
    >>> [round(float(found[name]), 3) for name in ("recall", "precision", "balanced_accuracy")]
    [0.75, 0.75, 0.792]
    """
    group = counts.sum((-1, -2))
    factor = np.ones(group.shape)
    if shares is not None:
        factor = np.divide(shares, group, np.zeros(group.shape), where=group > 0)
    cells = (factor[..., None, None] * counts).sum(-3)
    unknown = np.full(cells.shape[:-2], np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        rows = cells.sum(-1)
        right = np.diagonal(cells, axis1=-2, axis2=-1)
        recalls = right / rows
        balanced = np.where(rows > 0, recalls, 0).sum(-1) / (rows > 0).sum(-1)
        if cells.shape[-1] > 2:
            return {**dict.fromkeys(MEASURES, unknown), "balanced_accuracy": balanced}
        auc = unknown
        if pairs is not None:
            ordered_pairs = np.einsum("...a,...ab,...b->...", factor, pairs, factor)
            auc = np.minimum(ordered_pairs / (rows[..., 0] * rows[..., 1]), 1)
        precision = right[..., 1] / cells[..., 1].sum(-1)
    found = (auc, recalls[..., 1], precision, balanced)
    return dict(zip(MEASURES, found, strict=True))


def ordered(
    score: np.ndarray, positive: np.ndarray, s: np.ndarray, groups: int,
    weight: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """Return the weight of pairs of a positive row of a group and another of a group, ``(S, S)``.

    Of pairs that the score orders correctly; ties count half.
    """
    values, place = np.unique(score, return_inverse=True)
    cell, size = place * groups + s, len(values) * groups
    of = np.ones(len(s)) if weight is None else weight
    high, low = (np.bincount(cell, of * one, size).reshape(-1, groups)
                 for one in (positive, ~positive))  # fmt: skip
    below = low.cumsum(0) - low / 2
    return np.asarray(high.T @ below)


def area(score: np.ndarray, positive: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Return the area under the ROC curve; NaN without rows of both labels.

    It is how often a positive row has a higher score than another; ties count half.

    >>> area(np.array([0.1, 0.4, 0.4, 0.8]), np.array([False, False, True, True]))
    0.875
    """
    of = np.ones(len(score)) if weight is None else weight
    number = of[positive].sum() * of[~positive].sum()
    if not number:
        return float("nan")
    return float(ordered(score, positive, np.zeros(len(score), np.int64), 1, of)[0, 0] / number)


def gain(
    moments: np.ndarray, labels: np.ndarray, shares: np.ndarray | None = None, level: float = 0.95
) -> dict[str, np.ndarray]:
    """Return the accuracy of a constant prediction, and what a model gains over it.

    The two differ in rows with another prediction only, so the interval is that of paired
    proportions, see `intervals.paired`; it is combined from those of the groups if they have
    `shares`.

    Parameters
    ----------
    moments
        ``(3, clients, S, Y, Yhat)``, see `pfedfair.metrics.weights`.
    labels
        The constant prediction of each client.
    """
    if shares is None:
        moments = moments.sum(2, keepdims=True)
        shares = np.ones(moments.shape[1:3])
    here = np.arange(moments.shape[1])
    rows, right = moments.sum((-1, -2)), np.trace(moments, axis1=-2, axis2=-1)
    constant = moments[:, here, :, labels].sum(-1)  # clients come first
    both = moments[:, here, :, labels, labels]
    constant, both = np.moveaxis(constant, 0, 1), np.moveaxis(both, 0, 1)
    gained, lost = (np.where(part[0] > 0, part, 0) for part in (right - both, constant - both))
    size = _paired_rows(gained, lost, rows)
    with np.errstate(invalid="ignore", divide="ignore"):
        up, down = gained[1] / rows[1], lost[1] / rows[1]
        ends = intervals.paired(up * size, down * size, size, intervals.quantile(level))
        value, low, high = intervals.weighted(up - down, *ends, shares)
        baseline = np.where(shares > 0, shares * constant[1] / rows[1], 0).sum(-1)
    return {"constant": baseline, "gain": value, "gain_low": low, "gain_high": high}


def _paired_rows(gained: np.ndarray, lost: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the number of unweighted rows with the variance of a mean of 1, -1 and 0."""
    same = rows[2] - gained[2] - lost[2]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (gained[1] - lost[1]) / rows[1]
        squares = (1 - mean) ** 2 * gained[2] + (1 + mean) ** 2 * lost[2] + mean**2 * same
        size = ((gained[1] + lost[1]) / rows[1] - mean**2) / (squares / rows[1] ** 2)
    size = np.where(np.isfinite(size), size, kish(rows))
    return np.asarray(np.where(rows[0] > 0, np.minimum(size, rows[0]), 0))


def no_better(table: pd.DataFrame) -> np.ndarray:
    """Return the clients whose model is measured to be no better than the constant prediction.

    That a model is better is clear only where ``gain_low`` is above 0. `table` is `Run.table`; one
    without the column ``gain`` has no such client.
    """
    if "gain" not in table:
        return np.zeros(len(table), dtype=bool)
    return np.asarray(table["gain"].to_numpy(float) <= 1e-12)
