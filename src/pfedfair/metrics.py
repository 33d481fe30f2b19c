"""What a client got: accuracy, gaps between groups, rates, and how sure we are.

Arrays in, numbers out, with fairlearn's signatures. Everything is computed from counts
``(..., S, Y, Yhat)``: how many rows of each group and label got which prediction. Resampling rows
within the groups is the same as drawing these counts from a multinomial, so a bootstrap costs next
to nothing.

What the gaps are is said in `pfedfair.criteria`. DDP is a single difference. (The paper's formula
sums over the labels, which doubles it; its tables do not.) Of several differences, with more than
two groups or classes, the largest counts. Groups without rows to measure are left out; with fewer
than two, a gap is NaN.
"""

import warnings
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from pfedfair.criteria import CRITERIA, MEASURES
from pfedfair.errors import InputError

PROTOCOLS = ("pool", "own", "validation")


def counts_of(y_true: Any, y_pred: Any, *, sensitive_features: Any) -> np.ndarray:
    """Count rows by group, label and prediction, ``(S, Y, Yhat)``, each in the order of its values.

    Parameters
    ----------
    y_true, y_pred, sensitive_features
        ``(n,)`` of any values: labels, predictions and groups.
    """
    arrays = [np.asarray(a).ravel() for a in (sensitive_features, y_true, y_pred)]
    if len({len(a) for a in arrays}) > 1:
        raise InputError(f"Labels, predictions and groups differ in number: "
                         f"{len(arrays[1])}, {len(arrays[2])} and {len(arrays[0])}.")  # fmt: skip
    groups, s = np.unique(arrays[0], return_inverse=True)
    labels, both = np.unique(np.concatenate(arrays[1:]), return_inverse=True)
    if len(labels) == 1 and labels[0] == 1:  # the larger of 0 and 1, also where nobody has 0
        both = both + 1
    y, decided = np.split(both, 2)
    return tally(s, y, decided, max(2, len(groups)), max(2, len(labels)))


def tally(
    s: np.ndarray,
    y: np.ndarray,
    decided: np.ndarray,
    groups: int,
    classes: int,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Count codes from 0, ``(groups, classes, classes)``.

    With weights, people of a group count as so many as their rates are known from: (sum of
    weights)^2 / (sum of their squares), Kish's effective number.
    """
    cell = (classes * s + y) * classes + decided
    found = np.bincount(cell, weight, minlength=groups * classes**2)
    found = found.reshape(groups, classes, classes)
    if weight is None:
        return found
    total, square = (np.bincount(s, w, minlength=groups) for w in (weight, weight**2))
    scale = np.divide(total, square, out=np.zeros(groups), where=square > 0)
    return np.asarray(found * scale[:, None, None])


def accuracy(y_true: Any, y_pred: Any) -> float:
    """The share of right predictions."""
    counts = counts_of(y_true, y_pred, sensitive_features=np.zeros(np.asarray(y_true).size))
    return float(np.trace(counts[0]) / counts[0].sum())


def difference(name: str) -> Callable[..., float]:
    """Return the function of arrays for one of the gaps, "ddp", "eo" or "eopp"."""

    def gap(y_true: Any, y_pred: Any, *, sensitive_features: Any) -> float:
        counts = counts_of(y_true, y_pred, sensitive_features=sensitive_features)
        return float(measure(counts)[name])

    gap.__doc__ = MEASURES[name].words
    return gap


demographic_parity_difference = difference("ddp")
equalized_odds_difference = difference("eo")
equal_opportunity_difference = difference("eopp")


def measure(counts: np.ndarray, shares: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Accuracy, gaps and rates of the first prediction, of counts ``(..., S, Y, Yhat)``.

    Parameters
    ----------
    shares
        The groups' shares ``(..., S)`` to weight them by; without it, those among the counts.

    Examples
    --------
    >>> counts = np.array([[[3, 1], [0, 0]], [[1, 1], [0, 2]]])
    >>> float(measure(counts)["ddp"]), float(measure(counts)["accuracy"])
    (0.5, 0.75)
    """
    group = counts.sum((-1, -2))
    with np.errstate(invalid="ignore"):
        right = np.trace(counts, axis1=-2, axis2=-1) / group
        negative = counts[..., 0].sum(-1) / group
    share = group / group.sum(-1, keepdims=True) if shares is None else shares
    # A group that a client does not have counts for nothing, also when it was not measured.
    accuracy = np.where(share > 0, share * right, 0.0).sum(-1)
    found = {name: largest(np.abs(each)) for name, each in gaps(counts).items()}
    rates = {f"npr_s{z}": negative[..., z] for z in range(counts.shape[-3])}
    return {"accuracy": accuracy, **found, **rates}


def gaps(counts: np.ndarray) -> dict[str, np.ndarray]:
    """Every signed difference between two groups that a measure is the largest of, ``(..., k)``."""
    classes = counts.shape[-1]
    with np.errstate(invalid="ignore"):
        overall = counts.sum(-2) / counts.sum((-1, -2))[..., None]  # (..., S, Yhat)
        by_label = counts / counts.sum(-1, keepdims=True)  # (..., S, Y, Yhat)
    pairs = list(combinations(range(counts.shape[-3]), 2))
    found = {}
    for criterion in CRITERIA.values():
        rates = []
        for label, decision in criterion.compared(classes):
            one = decision if classes > 2 else 0  # of two, the first one's gap is the same
            rates.append(overall[..., one] if label is None else by_label[..., label, one])
        signed = [rate[..., a] - rate[..., b] for rate in rates for a, b in pairs]
        found[criterion.measure] = np.stack(signed, axis=-1)
    return found


def largest(values: np.ndarray) -> np.ndarray:
    """The largest over the last axis that is a number; NaN if none is."""
    unknown = np.isnan(values)
    return np.where(unknown.all(-1), np.nan, np.where(unknown, -np.inf, values).max(-1))


def bootstrap(
    counts: np.ndarray,
    shares: np.ndarray | None,
    rng: np.random.Generator,
    draws: int = 1000,
    level: float = 0.95,
) -> dict[str, np.ndarray]:
    """Intervals from resampling the held-out rows of each group.

    The interval of DDP is the interval of the signed gap, folded at 0: resampled absolute values
    would never reach 0 and hide that a gap may be none. Where it is the largest of several gaps,
    its ends are the largest of theirs.
    """
    group = counts.sum((-1, -2))
    cells = counts.reshape(*group.shape, counts.shape[-1] ** 2)
    drawn = np.zeros((draws, *cells.shape), dtype=np.int64)
    for place in np.ndindex(*group.shape):
        n = group[place]
        if n > 0:
            many = max(round(n), 1)  # with weights n may have a fraction
            drawn[(slice(None), *place)] = rng.multinomial(many, cells[place] / n, size=draws)
    drawn = drawn.reshape(draws, *counts.shape)
    tails = [(1 - level) / 2, (1 + level) / 2]
    found = {}
    for name, values in measure(drawn, shares).items():
        if name not in MEASURES:
            found[f"{name}_low"], found[f"{name}_high"] = np.quantile(values, tails, axis=0)
    for name, signed in gaps(drawn).items():
        with warnings.catch_warnings():  # of draws without people of some label, the others count
            warnings.simplefilter("ignore", RuntimeWarning)
            low, high = np.nanquantile(signed, tails, axis=0)
        nearest = np.where(low * high > 0, np.minimum(np.abs(low), np.abs(high)), 0.0)
        found[f"{name}_low"] = largest(np.where(np.isnan(low), np.nan, nearest))
        found[f"{name}_high"] = largest(np.maximum(np.abs(low), np.abs(high)))
    return found


def mean_interval(values: Sequence[float] | np.ndarray, level: float = 0.95) -> tuple[float, ...]:
    """Mean over seeds and its Student-t interval; with one value the interval is unknown (NaN).

    >>> [round(v, 2) for v in mean_interval([1.0, 2.0, 3.0])]
    [2.0, -0.48, 4.48]
    """
    from scipy.stats import t

    values = np.asarray(values, dtype=float)
    n = len(values)
    mean = float(values.mean())
    if n < 2:
        return mean, float("nan"), float("nan")
    half = float(t.ppf((1 + level) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n))
    return mean, mean - half, mean + half
