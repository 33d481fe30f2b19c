"""Accuracy, gaps between groups, rates, and their confidence intervals.

Arrays in, numbers out, with fairlearn's signatures. Everything is computed from counts
``(..., S, Y, Yhat)`` of rows by group, label and prediction, or from the moments of weighted rows,
see `pfedfair.metrics.weights`. The intervals are those of `pfedfair.metrics.intervals`, which hold
for few rows too.

`pfedfair.metrics.criteria` defines the gaps. DDP is a single difference. (The
paper's formula sums over the labels, which doubles it; its tables do not.) Of several differences,
with more than two groups or classes, the largest counts. Groups without rows to measure are left
out; with fewer than two, a gap is NaN.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from pfedfair._util.errors import InputError
from pfedfair.metrics import intervals
from pfedfair.metrics.criteria import CRITERIA, MEASURES
from pfedfair.metrics.weights import effective, moments_of

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
    if len(labels) == 1 and labels[0] == 1:  # the larger of 0 and 1, also if no row has 0
        both = both + 1
    y, decided = np.split(both, 2)
    counts: np.ndarray = tally(s, y, decided, max(2, len(groups)), max(2, len(labels)))[1]
    return counts


def tally(
    s: np.ndarray,
    y: np.ndarray,
    decided: np.ndarray,
    groups: int,
    classes: int,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Return the moments of rows by codes from 0, ``(3, groups, classes, classes)``."""
    cell, size = (classes * s + y) * classes + decided, groups * classes**2
    number = np.bincount(cell, minlength=size).reshape(groups, classes, classes)
    if weight is None:
        return moments_of(number)
    sums = (np.bincount(cell, w, minlength=size) for w in (weight, weight**2))
    return np.stack([number, *(one.reshape(number.shape) for one in sums)])


def accuracy(y_true: Any, y_pred: Any) -> float:
    """Return the share of right predictions."""
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


def set_apart(counts: np.ndarray) -> dict[str, np.ndarray]:
    """Return for each gap which groups have too few rows to be compared, ``(..., S)``.

    They have rows, but fewer than `intervals.FEWEST`, among the rows that the gap compares, and two
    other groups can be compared. Without two such others nothing is set apart.

    >>> counts = np.array([[[9, 3], [0, 0]], [[8, 2], [0, 0]], [[1, 2], [0, 0]]])
    >>> set_apart(counts)["ddp"], set_apart(counts[1:])["ddp"]
    (array([False, False,  True]), array([False, False]))
    """
    found = {}
    for criterion in CRITERIA.values():
        labels = criterion.among(counts.shape[-1])
        rows = np.stack([rows_with(counts, label).sum(-1) for label in labels], axis=-1)
        few: np.ndarray = np.any((rows > 0) & (rows < intervals.FEWEST), axis=-1)
        others = (rows >= intervals.FEWEST) & ~few[..., None]
        able: np.ndarray = np.any(others.sum(-2) >= 2, axis=-1, keepdims=True)
        found[criterion.measure] = few & able
    return found


def rows_with(counts: np.ndarray, label: int | None) -> np.ndarray:
    """Return the counts of rows with a label, or of all rows, ``(..., S, Yhat)``."""
    return counts.sum(-2) if label is None else counts[..., label, :]


def measure(
    counts: np.ndarray,
    shares: np.ndarray | None = None,
    apart: Mapping[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """Compute accuracy, gaps and rates of the first prediction from counts ``(..., S, Y, Yhat)``.

    Parameters
    ----------
    shares
        The groups' shares ``(..., S)`` to weight them by; without it, those among the counts.
    apart
        For each gap the groups that it does not cover, see `set_apart`.

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
    found = {
        name: largest(np.abs(pairs.signed)) for name, pairs in rate_pairs(counts, apart).items()
    }
    rates = {f"npr_s{z}": negative[..., z] for z in range(counts.shape[-3])}
    return {"accuracy": accuracy, **found, **rates}


def one_decision(counts: np.ndarray) -> np.ndarray:
    """Return whether all rows get the same prediction; False for no rows."""
    return np.asarray((counts.sum((-3, -2)) > 0).sum(-1) == 1)


class Pairs(NamedTuple):
    """Pairs of rates to compare: hits and rows in two groups, ``(..., k)`` or moments of them."""

    hits: np.ndarray
    rows: np.ndarray
    other_hits: np.ndarray
    other_rows: np.ndarray

    @property
    def signed(self) -> np.ndarray:
        """The differences; NaN where a group has no rows."""
        with np.errstate(invalid="ignore"):
            found: np.ndarray = self.hits / self.rows - self.other_hits / self.other_rows
        return found

    @property
    def effective(self) -> "Pairs":
        """Pairs of unweighted rows that determine the rates as well, from moments."""
        here, others = effective(*self[:2]), effective(*self[2:])
        return Pairs(*here, *others)


def rate_pairs(
    counts: np.ndarray, apart: Mapping[str, np.ndarray] | None = None
) -> dict[str, Pairs]:
    """Return the pairs of rates that each measure compares: it is their largest difference."""
    classes = counts.shape[-1]
    one, other = np.array(list(combinations(range(counts.shape[-3]), 2)), dtype=int).T
    found = {}
    for criterion in CRITERIA.values():
        each = []
        for label, decision in criterion.comparisons(classes):
            column = decision if classes > 2 else 0  # of two, the first one's gap is the same
            decided = rows_with(counts, label)
            if apart is not None:
                decided = np.where(apart[criterion.measure][..., None], 0, decided)
            hits, rows = decided[..., column], decided.sum(-1)
            parts = (hits[..., one], rows[..., one], hits[..., other], rows[..., other])
            each.append(parts)
        stacked = [np.concatenate(parts, axis=-1) for parts in zip(*each, strict=True)]
        found[criterion.measure] = Pairs(*stacked)
    return found


def largest(values: np.ndarray) -> np.ndarray:
    """Return the largest number over the last axis; NaN if there is none."""
    unknown = np.isnan(values)
    return np.where(unknown.all(-1), np.nan, np.where(unknown, -np.inf, values).max(-1))


def confidence_intervals(
    counts: np.ndarray,
    shares: np.ndarray | None = None,
    level: float = 0.95,
    apart: Mapping[str, np.ndarray] | None = None,
    moments: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Return the ends of the intervals of everything in `measure`, and the rows behind gaps.

    Weighted rows have `moments`, the second of which are the `counts`; each rate then has the
    interval of so many unweighted rows as determine it as well, see `pfedfair.metrics.weights`.

    The interval of a gap is that of the signed difference, folded at 0. Where a gap is the largest
    of k, its lower end is the largest of theirs, each of which may fail k times less often
    (Bonferroni), since one of many is large by chance. Its upper end is the largest of theirs at
    the given level, since that of the truly largest gap is among them.

    ``ddp_people`` and so on are the rows in the smaller one of the two groups with the largest
    gap, or with the largest lower end: fewer than `intervals.FEWEST` are too few to judge by.
    """
    moments = moments_of(counts) if moments is None else moments
    z = intervals.quantile(level)
    right = np.trace(moments, axis1=-2, axis2=-1)
    group = moments.sum((-1, -2))
    if shares is None:
        low, high = intervals.rate(*effective(right.sum(-1), group.sum(-1)), z)
    else:
        low, high = intervals.weighted_sum(*effective(right, group), shares, z)
    found = {"accuracy_low": low, "accuracy_high": high}
    low, high = intervals.rate(*effective(moments[..., 0].sum(-1), group), z)
    for which in range(counts.shape[-3]):
        found[f"npr_s{which}_low"] = low[..., which]
        found[f"npr_s{which}_high"] = high[..., which]
    gaps_of = {name: pairs.effective for name, pairs in rate_pairs(moments, apart).items()}
    for (name, pairs), (low, high) in zip(gaps_of.items(), _ends(gaps_of, level), strict=True):
        gaps = np.abs(pairs.signed)
        found[f"{name}_low"], found[f"{name}_high"] = largest(low), largest(high)
        rows = np.minimum(pairs.rows, pairs.other_rows)
        behind_low = _rows_behind(np.where(low > 0, low, np.nan), rows)
        found[f"{name}_people"] = np.maximum(_rows_behind(gaps, rows), behind_low)
    return found


def _ends(gaps_of: dict[str, Pairs], level: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return each measure's lower ends, at the stricter level, and the upper ends of its gaps.

    All are found in one search, whose time hardly depends on their number.
    """
    each = []
    for pairs in gaps_of.values():
        number = (~np.isnan(pairs.signed)).sum(-1, keepdims=True)
        each.append(np.broadcast_to(stricter_quantile(level, number), pairs.rows.shape))
    strict = np.concatenate(each, axis=-1)
    usual = np.full_like(strict, intervals.quantile(level))
    parts = zip(*gaps_of.values(), strict=True)
    all_pairs = Pairs(*(np.concatenate(part, axis=-1) for part in parts))
    lows, highs = intervals.difference(*all_pairs, np.stack([strict, usual]))
    low, _ = intervals.fold(lows[0], highs[0])
    _, high = intervals.fold(lows[1], highs[1])
    where = np.cumsum([gaps.shape[-1] for gaps in each])[:-1]
    return list(zip(np.split(low, where, -1), np.split(high, where, -1), strict=True))


def stricter_quantile(level: float, number: np.ndarray) -> np.ndarray:
    """Return the standard errors of each of `number` intervals that hold simultaneously."""
    known = np.unique(number)
    each = [intervals.quantile(1 - (1 - level) / max(int(k), 1)) for k in known]
    return np.array(each)[np.searchsorted(known, number)]


def _rows_behind(gaps: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the rows behind the largest gap; of several equally large gaps, the most rows."""
    top = gaps >= largest(gaps)[..., None] - 1e-12
    return np.where(np.isnan(gaps).all(-1), 0, np.where(top, rows, 0).max(-1)).astype(np.int64)


def mean_interval(values: Sequence[float] | np.ndarray, level: float = 0.95) -> tuple[float, ...]:
    """Return the mean over seeds and its Student-t interval, NaN with one value.

    >>> [round(v, 2) for v in mean_interval([1.0, 2.0, 3.0])]
    [2.0, -0.48, 4.48]
    """
    values = np.asarray(values, dtype=float)
    mean, n = float(values.mean()), len(values)
    half = half_width(n, level) * float(values.std(ddof=1)) if n > 1 else float("nan")
    return mean, mean - half, mean + half


def half_width(n: int, level: float = 0.95) -> float:
    """Return the half-width of the Student-t interval of `n` values in standard deviations."""
    from scipy.stats import t

    return float(t.ppf((1 + level) / 2, n - 1) / np.sqrt(n)) if n > 1 else float("nan")
