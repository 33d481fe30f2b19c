"""The best two thresholds for given rows, under a limit on the difference between groups.

For a group let r be the rate of positive decisions and f(r) the most rows that a threshold on the
score, or a random choice between two, classifies correctly at that rate. It is the upper hull of
the points of all thresholds, a concave function. The best pair of rates with
``|r_1 - r_0| <= limit`` is where both f are largest; or, if these are too far apart, where they
are just `limit` apart and the sum is largest: one of the hulls' corners.

By the labels of these rows this is what fairlearn's ``ThresholdOptimizer`` searches on a grid of
1,000 rates. With P(Y=1) instead of labels it is Proposition 2's rule (`pfedfair.theory.rule`).
"""

from typing import NamedTuple

import numpy as np

FAR = 1e30  # a logit that no score exceeds


class Hull(NamedTuple):
    """Corners of a group's upper hull, from no row to all rows."""

    rate: np.ndarray  # of positive decisions
    right: np.ndarray  # rows classified correctly, less those if none is positive
    cut: np.ndarray  # the threshold: positive from it on


def fair_cuts(z: np.ndarray, label: np.ndarray, s: np.ndarray, limit: float) -> np.ndarray:
    """Return low, high, chance and below of both groups, as `Thresholds` has them, ``(2, 4)``.

    Without rows of both groups no difference is limited, and the threshold is 0 for both.

    Parameters
    ----------
    z
        Scores as logits, in the precision in which they will be compared.
    label
        Labels, or P(Y=1), of the same rows.
    s
        Groups, 0 or 1.

    Examples
    --------
    >>> z, s = np.array([1.0, -1.0, 2.0, 1.0]), np.array([0, 0, 1, 1])
    >>> fair_cuts(z, np.array([1.0, 0.0, 1.0, 1.0]), s, 0.5)[:, 1]
    array([ 0.e+00, -1.e+30])
    """
    rules = np.zeros((2, 4))
    if len(np.unique(s)) < 2:
        return rules
    hulls = [hull(z[s == a], label[s == a]) for a in (0, 1)]
    for a, rate in enumerate(best_rates(hulls[0], hulls[1], limit)):
        rules[a, :3] = between(hulls[a], rate)
    return rules


def hull(z: np.ndarray, label: np.ndarray) -> Hull:
    """Return the upper hull of a group. Rows of equal score are decided alike."""
    order = np.argsort(-z, kind="stable")
    ranked = z[order]
    ends = np.append(np.flatnonzero(np.diff(ranked)) + 1, len(z))  # of equal scores
    rate = np.append(0, ends) / len(z)
    right = np.append(0.0, np.cumsum(2.0 * label[order] - 1)[ends - 1])
    upper, lower = ranked[ends[:-1] - 1], ranked[ends[:-1]]
    middle = (upper / 2 + lower / 2).astype(z.dtype)
    middle = np.where(middle > lower, middle, upper)  # rounding may bring it down to the lower
    cut = np.concatenate([[FAR], middle, [-FAR]])
    corners: list[int] = []
    for k in range(len(rate)):
        while len(corners) > 1:
            i, j = corners[-2:]
            if (right[j] - right[i]) * (rate[k] - rate[i]) > (right[k] - right[i]) * (
                rate[j] - rate[i]
            ):
                break
            corners.pop()  # at or below the line from i to k
        corners.append(k)
    return Hull(rate[corners], right[corners], cut[corners])


def best_rates(zero: Hull, one: Hull, limit: float) -> tuple[float, float]:
    """Return the best rates of both groups that are at most `limit` apart."""
    free = [float(each.rate[each.right.argmax()]) for each in (zero, one)]
    apart = free[1] - free[0]
    if abs(apart) <= limit:
        return free[0], free[1]
    shift = np.copysign(limit, apart)  # group 1's rate is group 0's and this
    tried = np.concatenate([zero.rate, one.rate - shift, [0.0, -shift, 1.0, 1 - shift]])
    tried = tried[(tried >= max(0.0, -shift)) & (tried <= min(1.0, 1 - shift))]
    total = np.interp(tried, zero.rate, zero.right) + np.interp(tried + shift, one.rate, one.right)
    best = float(tried[total.argmax()])
    return best, min(1.0, max(0.0, best + float(shift)))


def between(group: Hull, rate: float) -> tuple[float, float, float]:
    """Return low, high and chance for a rate: a random draw between two of the hull's corners."""
    k = int(np.searchsorted(group.rate, rate, side="right")) - 1
    part = 0.0
    if k + 1 < len(group.rate):
        part = float((rate - group.rate[k]) / (group.rate[k + 1] - group.rate[k]))
    if part < 1e-9:
        return float(group.cut[k]), float(group.cut[k]), 0.0
    return float(group.cut[k + 1]), float(group.cut[k]), part
