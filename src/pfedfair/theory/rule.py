r"""Proposition 2: the best decision rule under demographic parity.

As printed the proposition lets the prediction depend on Y and is exact for noiseless labels only.
The usable form: with eta(x, s) = P(Y=1 | x, s) shared and pi_s = P_i(S=s) the client's own, predict
1 iff

.. math::
    \text{aware:}\quad \eta(x, 1) > \tfrac12 + \tfrac{t}{2 \pi_1}, \qquad
    \eta(x, 0) > \tfrac12 - \tfrac{t}{2 \pi_0}

.. math::
    \text{blind:}\quad \eta(x) > \tfrac12
    + \tfrac t2 \Bigl(\tfrac{P(S=1 \mid x)}{\pi_1} - \tfrac{P(S=0 \mid x)}{\pi_0}\Bigr)

with the smallest \|t\| whose DDP is at most epsilon (Zeng, Dobriban and Cheng 2022; Denis et al.
2021; Xian et al. 2023). A client is personalised by one number. Both forms are
``eta > 1/2 + t c / 2`` with a *tilt* c per row: ``(2 s - 1) / pi_s`` aware, the bracket blind.
DDP falls as t grows, so t is found by bisection over the finitely many
values at which a decision changes; decisions on rows exactly at the threshold are random.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Rule:
    """Predict 1 iff ``eta > 1/2 + t * tilt / 2``; at equality with chance `after` or `1 - after`.

    At equality a row with a positive tilt (whose threshold rises with t) is predicted 1 with
    probability ``1 - after``, one with a negative tilt with probability `after`.
    """

    t: float
    after: float = 0.0

    def positive(self, eta: np.ndarray, tilt: np.ndarray) -> np.ndarray:
        """Return every row's probability of being predicted 1."""
        edge = _breakpoints(eta, tilt) == self.t
        certain = (eta - 0.5 > self.t * tilt / 2).astype(float)
        return np.where(edge, np.where(tilt > 0, 1 - self.after, self.after), certain)


def aware_tilt(s: np.ndarray, share_s1: float) -> np.ndarray:
    """Return the tilt of each row when S is known: ``1 / pi_1`` or ``-1 / pi_0``."""
    return np.where(s == 1, 1 / share_s1, -1 / (1 - share_s1))


def gap(positive: np.ndarray, tilt: np.ndarray, mass: np.ndarray) -> float:
    """Return P(Yhat=1 | S=1) - P(Yhat=1 | S=0)."""
    return float((mass * tilt * positive).sum())


def fair_rule(
    eta: np.ndarray,
    tilt: np.ndarray,
    mass: np.ndarray,
    epsilon: float,
    weight: np.ndarray | None = None,
) -> Rule:
    """Return the most accurate rule with ``|gap| <= epsilon``.

    Parameters
    ----------
    eta
        P(Y=1) of every row (or of every cell of rows).
    tilt
        Of every row: `aware_tilt`, or the bracket above.
    mass
        Probability of every row; adds up to 1.
    weight
        What a positive decision on every row adds to the gap, if it is not ``mass * tilt``: where
        the tilt is an estimate, and the groups' distributions are known better.

    Examples
    --------
    >>> s = np.array([0, 0, 1, 1])
    >>> rule = fair_rule(np.array([0.1, 0.4, 0.6, 0.9]), aware_tilt(s, 0.5), np.full(4, 0.25), 0.5)
    >>> rule.t
    0.1
    """
    turns, rising = _breakpoints(eta, tilt), tilt > 0  # for every t
    above, half = eta - 0.5, tilt / 2
    weight = mass * tilt if weight is None else weight

    def gap_at(t: float, after: bool) -> float:
        """Return the `gap` of `Rule.positive`, without randomisation at the threshold."""
        return float((weight * np.where(turns == t, rising != after, above > t * half)).sum())

    epsilon += 1e-12  # a gap is a sum of rounded numbers

    if gap_at(0.0, after=False) < -epsilon:  # the mirror image
        mirrored = fair_rule(eta, -tilt, mass, epsilon, -weight)
        return Rule(-mirrored.t, 1 - mirrored.after)
    edges = np.unique(turns)
    edges = np.concatenate([[0.0], edges[(edges > 0) & np.isfinite(edges)]])
    low, high = 0, len(edges) - 1  # the first edge behind which the gap is small enough
    while low < high:
        middle = (low + high) // 2
        if gap_at(float(edges[middle]), after=True) <= epsilon:
            high = middle
        else:
            low = middle + 1
    t = float(edges[low])
    before, after = gap_at(t, after=False), gap_at(t, after=True)
    part = 0.0 if before <= epsilon or before == after else (before - epsilon) / (before - after)
    return Rule(t, float(np.clip(part, 0.0, 1.0)))


def _breakpoints(eta: np.ndarray, tilt: np.ndarray) -> np.ndarray:
    """Return the t at which each row's decision changes; infinite where it never does."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(tilt == 0, np.inf, np.round((2 * eta - 1) / tilt, 12))
