"""The best that thresholds on given scores can do at each DDP: Proposition 2 as a frontier."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pfedfair.theory.rule import aware_tilt, fair_rule, gap


def frontier(
    eta: np.ndarray, y: np.ndarray, s: np.ndarray, share_s1: float, epsilons: Sequence[float]
) -> list[tuple[float, float]]:
    """Return accuracy and DDP of the best aware rule for each limit on DDP.

    Parameters
    ----------
    eta
        Scores of some rows, taken as P(Y=1 | x, s).
    y, s
        Their labels and groups. The rule is chosen by the scores; accuracy is that on the labels.
    share_s1
        The client's share of S = 1: rows are weighted to it.
    """
    n = np.bincount(s, minlength=2)
    mass = np.where(s == 1, share_s1 / n[1], (1 - share_s1) / n[0])
    tilt = aware_tilt(s, share_s1)
    points = []
    for epsilon in epsilons:
        positive = fair_rule(eta, tilt, mass, epsilon).positive(eta, tilt)
        right = np.where(y == 1, positive, 1 - positive)
        points.append((float((mass * right).sum()), abs(gap(positive, tilt, mass))))
    return points
