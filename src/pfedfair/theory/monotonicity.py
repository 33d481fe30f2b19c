"""Randomised thresholds for chances of a positive decision by bin.

The solution of a linear program need not be unique. As eta rises over the bins, a threshold is as
good: the same rate of positive decisions with the rows of highest
eta first; or, where both the true and the false positive rate are given, a threshold and a chance
for all rows below it, which reaches every point between the ROC curve and the diagonal.
"""

from typing import NamedTuple

import numpy as np


class Cut(NamedTuple):
    """A threshold in units of bins: 1 from `high` on, `chance` from `low` on, else `below`."""

    low: float
    high: float
    chance: float
    below: float = 0.0


def chances(cut: Cut, bins: int) -> np.ndarray:
    """Return the chance of a positive decision in each bin by a threshold between bins.

    >>> chances(Cut(1, 2, 0.5, 0.25), 3)
    array([0.25, 0.5 , 1.  ])
    """
    at = np.arange(bins)
    return np.where(at >= cut.high, 1.0, np.where(at < cut.low, cut.below, cut.chance))


def same_rate(chances: np.ndarray, mass: np.ndarray) -> Cut:
    """Return the threshold with the same rate of positive decisions among rows of `mass`.

    >>> same_rate(np.array([1.0, 0.0, 0.5]), np.array([0.25, 0.25, 0.5]))
    Cut(low=2, high=3, chance=1.0, below=0.0)
    """
    rate = chances @ mass
    above = np.concatenate([np.cumsum(mass[::-1])[::-1], [0.0]])  # mass of a bin and all above it
    edge = int(np.searchsorted(-above[1:], -rate + 1e-12))  # the bin in which the rate is reached
    if edge >= len(mass):
        return Cut(len(mass), len(mass), 0.0)
    chance = (rate - above[edge + 1]) / mass[edge] if mass[edge] > 0 else 0.0
    return Cut(edge, edge + 1, float(np.clip(chance, 0.0, 1.0)))


def same_rates(chances: np.ndarray, negative: np.ndarray, positive: np.ndarray) -> Cut:
    """Return a threshold and a chance below it with the same false and true positive rate.

    In the bin where the threshold falls the part above it counts as a chance too: all of the bin's
    rows may have the same score.

    `negative` and `positive` are the masses of rows with label 0 and 1 in each bin, each adding
    up to 1.
    """
    missed = 1 - chances @ negative, 1 - chances @ positive
    # Misses of a threshold at 0, 1, ...:
    below_false, below_true = (np.append(0.0, np.cumsum(mass)) for mass in (negative, positive))
    # A chance below the threshold shrinks both misses alike: find where their ratio is right.
    off = below_true * missed[0] - below_false * missed[1]
    short = np.flatnonzero(off[:-1] < -1e-12)
    if len(short):
        last = int(short[-1])
        rise = off[last + 1] - off[last]
        position = last + float(np.clip(-off[last] / rise, 0, 1)) if rise > 0 else last + 1.0
    else:  # on the curve, at its upper end
        position = float(np.interp(missed[0], below_false, np.arange(len(below_false))))
    total = float(np.interp(position, np.arange(len(below_false)), below_false))
    chance = float(np.clip(1 - missed[0] / total, 0, 1)) if total > 0 else 0.0
    below = chance if chance > 1e-9 else 0.0
    edge = min(int(position), len(chances) - 1)
    part = edge + 1 - position  # of the bin, above the threshold
    return Cut(edge, edge + 1, part + (1 - part) * below, below)
