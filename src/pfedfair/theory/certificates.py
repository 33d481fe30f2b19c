r"""Certificates of demographic parity: finite samples, any distribution, no model.

**The test.** A fixed rule decides 1 for :math:`x_1` of a client's :math:`n_1` rows of group 1, and
for :math:`x_0` of the :math:`n_0` of group 0: two independent binomial counts with rates
:math:`p_1, p_0`. "The gap :math:`p_1 - p_0` is at least m" is rejected if
:math:`x_1 \le c(x_0)`, where c (`limits`) does not fall and depends on nothing but the group sizes,
m and the level. The chance of that falls with :math:`p_1` and rises with :math:`p_0`, so under the
hypothesis it is largest on the line :math:`p_1 = p_0 + m`; and between two points
:math:`a < b` of the line it is at most what it is for :math:`p_1 = a + m, p_0 = b`. `largest_error`
computes that for a grid of a, which bounds the level at every rate.

**The path.** Along a `Path` of rules, group 1's rate falls and group 0's rises, in every set of
rows. So the rules whose true gap is m or more are a beginning of the path; let u be the last of
them. The counts move the same way: if any rule up to u is rejected, u is. Whatever rule one picks
by looking at the same rows, among those for which "the gap is at least m" is rejected at level
:math:`\alpha` and "at most -m" is rejected at level :math:`\beta`, its true gap is within m but
with a chance of :math:`\alpha + \beta`. No fixed start or order of the rules is needed.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logit
from scipy.stats import norm

COARSE, FINE = 1, 60  # cells of a grid of rates for each standard error of a gap
WORK = 2**22  # chances on a grid, at most: fewer cells where there are many rows
DEVIATIONS = 8  # of a count: the others are added as if each were an error
BLOCK = 2**19  # chances that are computed at a time
ROUNDS = 5  # of the calibration of `limits`
STRICTER = 0.01  # added to a critical value whose level does not hold
FIXED_POINT = 12  # iterations
BINDING = 0.8, 0.5  # the part of a level for the end of the path that costs accuracy
FAR = 1e30  # a logit that no score exceeds
CLEARANCE = 0.5  # standard errors between the two ends for the first of these


class Path(NamedTuple):
    """Rules of one client, from those that favour group 1 to those that favour group 0.

    Attributes
    ----------
    thresholds
        Rows with at least this logit are decided 1, ``(rules, 2)``: group 1's do not fall along
        the path, group 0's do not rise.
    rates
        Each group's expected rate of positive decisions, ``(rules, 2)``.
    accuracy
        The expected accuracy, ``(rules,)``.
    usual
        The likeliest label.
    """

    thresholds: np.ndarray
    rates: np.ndarray
    accuracy: np.ndarray
    usual: int

    @property
    def gaps(self) -> np.ndarray:
        """The expected gap of each rule, ``(rules,)``: it does not rise."""
        return np.asarray(np.diff(self.rates, axis=1)[:, 0])


def path_of(eta: np.ndarray, shapes: np.ndarray, shares: np.ndarray) -> Path:
    """Return the rules of Proposition 2 for every t (`pfedfair.theory.rule`).

    Parameters
    ----------
    eta, shapes
        P(Y=1) and the share of a group's rows in each bin of the score, ``(2, bins)``.
    shares
        The client's shares of the groups, none of them 0.
    """
    bins = eta.shape[1]
    eta = np.maximum.accumulate(eta, axis=1)
    tilt = np.array([-1 / shares[0], 1 / shares[1]])
    turns = ((2 * eta - 1) / tilt[:, None]).ravel()  # where a group's decision changes in a bin
    t = np.union1d(turns[(turns > -shares[0]) & (turns < shares[1])], [-shares[0], 0, shares[1]])
    edges, centres = np.arange(bins + 1) / bins, (np.arange(bins) + 0.5) / bins
    scores, rates, accuracy = [], [], np.zeros(len(t))
    for z in (0, 1):
        level = 0.5 + t * tilt[z] / 2
        score = np.interp(level, eta[z], centres, left=0, right=1)
        score = np.maximum.accumulate(score[:: -1 if z == 0 else 1])[:: -1 if z == 0 else 1]
        above = shapes[z].sum() - np.append(0, np.cumsum(shapes[z]))
        gain = shapes[z] * (2 * eta[z] - 1)  # of a positive decision over a negative one
        gained = gain.sum() - np.append(0, np.cumsum(gain))
        scores.append(score)
        rates.append(np.interp(score, edges, above))
        accuracy += shares[z] * (shapes[z] @ (1 - eta[z]) + np.interp(score, edges, gained))
    with np.errstate(divide="ignore"):
        thresholds = np.clip(logit(np.stack(scores, axis=1)), -FAR, FAR)
    usual = int((shares[:, None] * shapes * eta).sum() > 0.5)
    return Path(thresholds, np.stack(rates, axis=1), accuracy, usual)


class Levels(NamedTuple):
    """A client's margin on the gap, and the levels of its two tests, see `plan`."""

    margin: float
    above: float  # of "the gap is at least the margin"
    below: float  # of "the gap is at most -margin"


def certified(counts: np.ndarray, rows: np.ndarray, levels: Levels) -> np.ndarray:
    """Return which rules of a path have a gap within the margin, ``(rules,)``.

    Parameters
    ----------
    counts
        Positive decisions of each rule by group, ``(rules, 2)``.
    rows
        The groups' numbers of rows, ``(2,)``.
    """
    n0, n1 = map(int, rows)
    x0, x1 = counts.T
    above = x1 <= limits(n1, n0, levels.margin, levels.above)[x0]
    below = x0 <= limits(n0, n1, levels.margin, levels.below)[x1]
    return np.asarray(above & below)


def plan(path: Path, rows: np.ndarray, target: float, level: float, shrinks: bool) -> Levels:
    """Return a client's margin and levels, by its group sizes and other clients' rows only.

    The end of the path nearer to the most accurate rule gets more of the level, unless the two ends
    are so near that half each is better. If a rule `shrinks`, a part ``target / margin`` of the
    decisions are its own and the others are the usual label, as many as let the two ends meet.
    """
    favours_1 = path.gaps[path.accuracy.argmax()] >= 0
    error = standard_error(path.rates[np.abs(path.gaps).argmin()], rows)
    for binding in BINDING:
        need = (norm.isf(binding * level) + norm.isf((1 - binding) * level)) * error
        if 2 * target >= need + CLEARANCE * error:
            break
    margin = max(target, (need + CLEARANCE * error) / 2) if shrinks else target
    parts = (binding, 1 - binding) if favours_1 else (1 - binding, binding)
    return Levels(margin, *(part * level for part in parts))


def standard_error(rates: np.ndarray, rows: np.ndarray) -> float:
    """Return the standard error of the gap between two groups' rates."""
    return float(np.sqrt((rates * (1 - rates) / rows).sum()))


def enough_rows(rates: np.ndarray, shares: np.ndarray, target: float, level: float) -> float:
    """Return about how many rows let a rule be certified with a chance of one half.

    `rates` are those of a rule with the least gap, `shares` the groups' shares of the rows. With so
    many rows the two ends of the path meet.
    """
    need = norm.isf(level / 2) * standard_error(rates, shares)
    return float(np.ceil((need / target) ** 2)) if target > 0 else float("inf")


@lru_cache(maxsize=256)
def limits(n1: int, n0: int, margin: float, level: float) -> np.ndarray:
    """Return c: for each count of group 0 the largest one of group 1 that rejects ``p1 - p0 >= m``.

    It is -1 where none does, ``(n0 + 1,)``. The limits are those of a score test whose critical
    value is calibrated to the level at each rate.
    """
    if margin >= 1:  # no gap is larger
        found = np.full(n0 + 1, n1)
    elif min(n1, n0) == 0 or level <= 0:
        found = np.full(n0 + 1, -1)
    else:
        found = _calibrate(n1, n0, margin, level)
    found.flags.writeable = False
    return found


def _calibrate(n1: int, n0: int, margin: float, level: float) -> np.ndarray:
    error = 0.5 * (1 / n1 + 1 / n0) ** 0.5
    points = _grid(margin, 10 + COARSE / error)
    fine = _grid(margin, min(10 + FINE / error, WORK / (_width(n0) + _width(n1))))
    critical = np.full(len(points), norm.isf(level))
    for _ in range(ROUNDS):
        found = _score_limits(n1, n0, margin, critical, points)
        errors = chances(found, n1, points + margin, points)
        critical += 0.8 * (norm.isf(level) - norm.isf(errors.clip(1e-9, 0.5))).clip(-0.5, 0.5)
    for k in range(100):  # stricter, until the level holds
        found = _score_limits(n1, n0, margin, critical, points)
        errors = largest_error(found, n1, margin, fine)
        if (errors <= level).all():
            return found
        short = norm.isf(level) - norm.isf(errors.clip(level, 1 - 1e-9))
        at = np.searchsorted(points, fine[:-1]).clip(1, len(points) - 1)
        raised = np.zeros(len(points))
        for near in (at - 1, at):
            np.maximum.at(raised, near, short)
        critical += np.where(raised > 0, raised + STRICTER * 1.4**k, 0.0)
    return np.full(n0 + 1, -1)


def _grid(margin: float, cells: float) -> np.ndarray:
    """Return rates of group 0 from 0 to 1 - margin, close where counts vary least."""
    return np.asarray(np.sin(np.linspace(0, np.arcsin((1 - margin) ** 0.5), int(cells) + 1)) ** 2)


def _score_limits(
    n1: int, n0: int, margin: float, critical: np.ndarray, rates: np.ndarray
) -> np.ndarray:
    """Return the limits of a score test, by its critical value at each rate of group 0.

    The variance and the critical value are those at the rates on the line, ``p1 = p0 + m``, that
    are nearest to the counts at the limit.
    """
    p0 = np.arange(n0 + 1) / n0
    p1 = p0 + margin
    for _ in range(FIXED_POINT):
        rate = ((n0 * p0 + n1 * (p1 - margin)) / (n0 + n1)).clip(0, 1 - margin)
        first = rate + margin
        variance = first * (1 - first) / n1 + rate * (1 - rate) / n0 + n1**-2.0 + n0**-2.0
        p1 = (p1 + p0 + margin - np.interp(rate, rates, critical) * np.sqrt(variance)) / 2
    found = np.floor(n1 * p1).clip(-1, n1).astype(np.int64)
    return np.minimum.accumulate(found[::-1])[::-1]


def largest_error(limit: np.ndarray, n1: int, margin: float, rates: np.ndarray) -> np.ndarray:
    """Return a bound on the chance of a rejection for p0 in each cell and p1 >= p0 + margin.

    Parameters
    ----------
    limit
        The largest counts of group 1 that reject, which do not fall, ``(n0 + 1,)``.
    rates
        The ends of the cells, from 0 to 1 - margin.
    """
    return chances(limit, n1, rates[:-1] + margin, rates[1:])


def chances(limit: np.ndarray, n1: int, p1: np.ndarray, p0: np.ndarray) -> np.ndarray:
    """Return the chance of a rejection at each pair of rates, rounded up."""
    n0, found = len(limit) - 1, []
    block = max(1, BLOCK // (_width(n0) + _width(n1)))
    for k in range(0, len(p0), block):
        first0, mass0 = _binomial(n0, p0[k : k + block])
        first1, mass1 = _binomial(n1, p1[k : k + block])
        below = np.cumsum(mass1, axis=1)
        at = limit[first0[:, None] + np.arange(mass0.shape[1])] - first1[:, None]
        reject = np.take_along_axis(below, at.clip(0, below.shape[1] - 1), axis=1)
        chance = (mass0 * np.where(at < 0, 0.0, reject)).sum(1)
        missing = (1 - mass0.sum(1)).clip(0) + (1 - below[:, -1]).clip(0)
        found.append(chance + missing + 1e-11)  # rounding
    return np.concatenate(found)


def _width(n: int) -> int:
    return min(n + 1, int(DEVIATIONS * n**0.5) + 2 * DEVIATIONS)


def _binomial(n: int, rates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the chances of the counts around each rate, and the first count, by rate."""
    width = _width(n)
    first = np.clip(np.rint(n * rates - width / 2), 0, n + 1 - width).astype(np.int64)
    counts = first[:, None] + np.arange(width)
    ways = _ways(n)[counts]
    p = np.clip(rates, 1e-300, 1 - 1e-16)[:, None]
    return first, np.exp(ways + counts * np.log(p) + (n - counts) * np.log1p(-p))


@lru_cache(maxsize=16)
def _ways(n: int) -> np.ndarray:
    """Return the logarithms of the numbers of ways to choose 0, 1, ... of n."""
    counts = np.arange(n + 1)
    return np.asarray(gammaln(n + 1) - gammaln(counts + 1) - gammaln(n - counts + 1))
