"""The frontier: the best accuracy of thresholds on given scores at each DDP.

Proposition 2's rule is a threshold for each group on P(Y=1 | x, s). For scores that are not
exactly that probability, the frontier takes the best of all pairs of thresholds by the labels.
"""

from collections.abc import Sequence

import numpy as np

GRID = 4001  # rates of positive decisions, from 0 to 1


def frontier(
    score: np.ndarray, y: np.ndarray, s: np.ndarray, share_s1: float, limits: Sequence[float]
) -> list[tuple[float, float]]:
    """Return accuracy and DDP of the best pair of thresholds for each limit on DDP.

    Parameters
    ----------
    score, y, s
        Scores, labels and groups ``(n,)``. Thresholds are chosen and measured by the same labels.
    share_s1
        The client's share of S = 1: the groups are weighted to it. Without both groups DDP is NaN.

    Examples
    --------
    >>> score, y = np.array([0.1, 0.2, 0.8, 0.9]), np.array([0, 1, 1, 1])
    >>> frontier(score, y, np.array([0, 0, 1, 1]), 0.5, [0.0, 0.5])
    [(0.75, 0.0), (1.0, 0.5)]
    """
    from scipy.ndimage import maximum_filter1d

    if not (0 < share_s1 < 1 and 0 < s.mean() < 1):  # one group: one threshold
        rows = s == int(share_s1 > 0.5) if 0 < s.mean() < 1 else slice(None)
        return [(float(_accuracies(score[rows], y[rows]).max()), float("nan"))] * len(limits)
    right = [part * _accuracies(score[s == z], y[s == z])
             for z, part in ((0, 1 - share_s1), (1, share_s1))]  # fmt: skip
    points = []
    for limit in limits:
        reach = min(int(limit * (GRID - 1) + 1e-9), GRID - 1)
        best = maximum_filter1d(right[1], 2 * reach + 1, mode="constant", cval=-1.0)
        total = right[0] + best
        i = int(np.argmax(total))
        near = np.arange(max(i - reach, 0), min(i + reach + 1, GRID))
        equal = near[np.isclose(right[1][near], best[i])]
        gap = int(np.abs(equal - i).min())
        points.append((float(total[i]), gap / (GRID - 1)))
    return points


def _accuracies(score: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the best accuracy of a group at each rate of positive decisions.

    Decisions on rows with the same score are the same, or random.
    """
    order = np.argsort(-score, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(score[order])) + 1, len(score))  # of equal scores
    gained = np.concatenate([[0.0], np.cumsum(2.0 * y[order] - 1)[ends - 1]])
    rates = np.concatenate([[0.0], ends / len(score)])
    at = np.linspace(0, 1, GRID)
    return np.asarray(np.interp(at, rates, ((1 - y).sum() + gained) / len(score)))
