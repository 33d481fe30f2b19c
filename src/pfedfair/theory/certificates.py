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

**Mixtures.** If only parts :math:`a_1, a_0` of the groups' decisions are the rule's and the others
are the usual decision, at random, the gap is :math:`a_1 p_1 - a_0 p_0` for the rates of the other
decision, and all of the above holds with the line :math:`a_1 p_1 = a_0 p_0 + m`. Parts and levels
follow from the group sizes and other clients' rows (`plan`).
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logit
from scipy.stats import norm

COARSE, FINE = 1, 60  # cells of a grid of rates for each standard error of a gap
WORK = 2**22  # chances on a grid, at most: fewer cells where there are many rows
DEVIATIONS = 8  # of a count: the others are added as if each were an error
ROUNDS = 5  # of the calibration of `limits`
STRICTER = 0.01  # added to a critical value whose level does not hold
FIXED_POINT = 12  # iterations
BINDING = 0.8, 0.5  # the part of a level for the end of the path that costs accuracy
CLEARANCE = 1.0  # standard errors, at least, between the two ends of the path
PARTS = np.linspace(1, 0.05, 39)  # of a group's decisions
STRICTNESS = np.linspace(1, 2.5, 31)  # factors of an error
MEETING = 1.25  # times the rows of a normal approximation, see `enough_rows`
FAR = 1e30  # a logit that no score exceeds

Chances = Callable[[np.ndarray], np.ndarray]


class Path(NamedTuple):
    """Rules of one client, from those that favour group 1 to those that favour group 0.

    Attributes
    ----------
    thresholds
        Rows with at least this logit are decided 1, ``(rules, 2)``: group 1's do not fall along
        the path, group 0's do not rise.
    rates
        Each group's expected rate of the decision that is not the usual one, ``(rules, 2)``.
    gains
        What each group's rows are expected to add to the accuracy of the usual decision for all,
        ``(rules, 2)``.
    usual
        The likeliest label.
    """

    thresholds: np.ndarray
    rates: np.ndarray
    gains: np.ndarray
    usual: int


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
    usual = int((shares[:, None] * shapes * eta).sum() > 0.5)
    scores, rates, gains = [], [], []
    for z, direction in ((0, -1), (1, 1)):
        score = np.interp(0.5 + t * tilt[z] / 2, eta[z], centres, left=0, right=1)
        score = np.maximum.accumulate(score[::direction])[::direction]
        below = np.append(0, np.cumsum(shapes[z]))
        lost = np.append(0, np.cumsum(shapes[z] * (1 - 2 * eta[z])))  # by a 1 in the lower bins
        other, gain = (below, lost) if usual else (below[-1] - below, lost - lost[-1])
        scores.append(score)
        rates.append(np.interp(score, edges, other))
        gains.append(shares[z] * np.interp(score, edges, gain))
    with np.errstate(divide="ignore"):
        thresholds = np.clip(logit(np.stack(scores, axis=1)), -FAR, FAR)
    return Path(thresholds, np.stack(rates, axis=1), np.stack(gains, axis=1), usual)


class Plan(NamedTuple):
    """How a client's path is tested, see `plan`.

    Attributes
    ----------
    parts
        Of each group's decisions, the part that is the rule's; the others are the usual one,
        ``(2,)``.
    above, below
        The levels of "the gap is at least the target" and "at most minus the target".
    """

    parts: tuple[float, float]
    above: float
    below: float


class Choice(NamedTuple):
    """The rule that a client's rows choose.

    Attributes
    ----------
    rule
        Its position on the path; None if none is certified.
    parts
        See `Plan`.
    error
        The standard error of its gap.
    lost
        What it is expected to lose in accuracy against the rule with an expected gap of the target.
    enough
        About how many rows certify a rule with a chance of one half, if none is certified.
    """

    rule: int | None
    parts: tuple[float, float]
    error: float
    lost: float
    enough: float


def choose(
    path: Path, scores: Sequence[np.ndarray], target: float, level: float, randomised: float
) -> Choice:
    """Return the most accurate of a path's rules that are certified by a client's rows.

    Parameters
    ----------
    scores
        The logits of the rows of each of two groups, in order.
    level
        The chance that the true gap of the chosen rule exceeds the target.
    randomised
        The largest part of the rows whose decisions may be random.
    """
    rows = np.array([len(of_group) for of_group in scores])
    if not rows.all():
        return Choice(None, (1.0, 1.0), np.nan, np.nan, np.inf)
    each = zip(scores, path.thresholds.T, strict=True)
    below = np.stack([np.searchsorted(*of_group) for of_group in each], axis=1)
    counts = below if path.usual else rows - below
    planned = plan(path, rows, target, level, randomised)
    drawn = (counts * (np.array(planned.parts) < 1)).sum(1) / rows.sum()
    sound = np.flatnonzero(certified(counts, rows, target, planned) & (drawn <= randomised))
    rates = counts / rows
    if len(sound) == 0:
        fair = rates[np.abs(np.diff(rates, axis=1)[:, 0]).argmin()]
        enough = enough_rows(fair, rows / rows.sum(), target, level)
        return Choice(None, planned.parts, np.nan, np.nan, enough)
    gain = path.gains @ planned.parts
    rule = int(sound[gain[sound].argmax()])
    guess = np.abs(np.diff(path.rates, axis=1)[:, 0]) <= target
    lost = path.gains.sum(1)[guess].max(initial=gain[rule]) - gain[rule]
    error = standard_error(rates[rule], rows, planned.parts)
    return Choice(rule, planned.parts, error, float(lost), np.nan)


def certified(counts: np.ndarray, rows: np.ndarray, target: float, plan: Plan) -> np.ndarray:
    """Return which rules of a path have a gap within the target, ``(rules,)``.

    Parameters
    ----------
    counts
        Decisions of each rule that are not the usual one, by group, ``(rules, 2)``.
    rows
        The groups' numbers of rows, ``(2,)``.
    """
    (n0, n1), (x0, x1), (a0, a1) = map(int, rows), counts.T, plan.parts
    above = x1 <= limits(n1, n0, target / a1, plan.above, a0 / a1)[x0]
    below = x0 <= limits(n0, n1, target / a0, plan.below, a1 / a0)[x1]
    return np.asarray(above & below)


def plan(path: Path, rows: np.ndarray, target: float, level: float, randomised: float) -> Plan:
    """Return how to test a client's path, by its group sizes and other clients' rows only.

    The end of the path that the most accurate rule is at gets most of the level, unless the two
    ends are so near that half each is better. If they do not meet, a part of the decisions is the
    usual one instead of the rule's, so that both gap and error shrink: the most accurate of such
    mixtures with random decisions for at most the part `randomised` of the rows.
    """
    shares, expected = rows / rows.sum(), np.rint(rows * path.rates).astype(np.int64)
    signs = np.array([-1.0, 1.0])

    def level_of(parts: np.ndarray, binding: float) -> Plan:
        gap = path.rates[(path.gains @ parts).argmax()] @ (parts * signs)
        above = binding if gap >= 0 else 1 - binding
        return Plan((float(parts[0]), float(parts[1])), above * level, (1 - above) * level)

    def meets(found: Plan) -> bool:
        gaps = (path.rates @ (found.parts * signs))[certified(expected, rows, target, found)]
        rates = path.rates[np.abs(path.rates @ (found.parts * signs)).argmin()]
        return len(gaps) > 0 and np.ptp(gaps) >= CLEARANCE * standard_error(
            rates, rows, found.parts
        )

    usual_plans = [level_of(np.ones(2), binding) for binding in BINDING]
    best = next(filter(meets, usual_plans), None)
    if best is not None or randomised <= 0:
        return best or usual_plans[-1]
    pairs = np.stack(np.meshgrid(PARTS, PARTS), axis=-1).reshape(-1, 2)
    fair = np.abs(path.rates @ (pairs * signs).T).argmin(0)
    rates, gain = path.rates[fair], (path.gains[fair] * pairs).sum(1)
    drawn = (shares * rates * (pairs < 1)).sum(1)
    errors = np.sqrt((pairs**2 * rates * (1 - rates) / rows).sum(1))
    for strictness in STRICTNESS:
        good = (2 * target >= strictness * 2 * norm.isf(level / 2) * errors) & (drawn <= randomised)
        if not good.any():
            break
        best = level_of(pairs[good][gain[good].argmax()], BINDING[-1])
        if meets(best):
            return best
    return usual_plans[-1]


def standard_error(rates: np.ndarray, rows: np.ndarray, parts: tuple[float, float]) -> float:
    """Return the standard error of the gap between two groups, of whose rates there are `parts`."""
    return float(np.sqrt((np.square(parts) * rates * (1 - rates) / rows).sum()))


def enough_rows(rates: np.ndarray, shares: np.ndarray, target: float, level: float) -> float:
    """Return about how many rows let a rule be certified with a chance of one half.

    `rates` are those of a rule with the least gap, `shares` the groups' shares of the rows. With
    ``1 / MEETING`` of these rows the two ends of the path meet by the normal approximation, where a
    simulated site was almost never certified; with all of them 30 to 70 % of the sites were.
    """
    need = norm.isf(level / 2) * standard_error(rates, shares, (1.0, 1.0))
    return float(np.ceil(MEETING * (need / target) ** 2)) if target > 0 else float("inf")


@lru_cache(maxsize=1024)
def limits(n1: int, n0: int, margin: float, level: float, slope: float = 1.0) -> np.ndarray:
    """Return c: for each count of group 0 the largest one of group 1 that is significantly small.

    It rejects ``p1 >= slope * p0 + margin``; it is -1 where none does, ``(n0 + 1,)``. The limits
    are those of a score test whose critical value is calibrated to the level at each rate.
    """
    if margin >= 1:  # p1 cannot be as large
        found = np.full(n0 + 1, n1)
    elif min(n1, n0) == 0 or level <= 0:
        found = np.full(n0 + 1, -1)
    else:
        found = _calibrate(n1, n0, Line(slope, margin), level)
    found.flags.writeable = False
    return found


class Line(NamedTuple):
    """The rates ``p1 = slope * p0 + margin``."""

    slope: float
    margin: float

    def first(self, p0: np.ndarray) -> np.ndarray:
        return self.slope * p0 + self.margin

    def grid(self, cells: float) -> np.ndarray:
        """Return rates p0 from the least to the largest, close where counts vary least."""
        largest = np.arcsin(min(1.0, (1 - self.margin) / self.slope) ** 0.5)
        return np.asarray(np.sin(np.linspace(0, largest, int(cells) + 1)) ** 2)


def _calibrate(n1: int, n0: int, line: Line, level: float) -> np.ndarray:
    error = 0.5 * (1 / n1 + line.slope**2 / n0) ** 0.5
    points = line.grid(10 + COARSE / error)
    fine = line.grid(min(10 + FINE / error, WORK / (_width(n0) + _width(n1))))
    critical = np.full(len(points), norm.isf(level))
    error_at, bound_on = (
        chances(n1, line.first(points), n0, points),
        largest_error(n1, n0, line, fine),
    )
    for _ in range(ROUNDS):
        found = _score_limits(n1, n0, line, critical, points)
        errors = error_at(found)
        critical += 0.8 * (norm.isf(level) - norm.isf(errors.clip(1e-9, 0.5))).clip(-0.5, 0.5)
    for k in range(100):  # stricter, until the level holds
        found = _score_limits(n1, n0, line, critical, points)
        errors = bound_on(found)
        if (errors <= level).all():
            return found
        short = norm.isf(level) - norm.isf(errors.clip(level, 1 - 1e-9))
        at = np.searchsorted(points, fine[:-1]).clip(1, len(points) - 1)
        raised = np.zeros(len(points))
        for near in (at - 1, at):
            np.maximum.at(raised, near, short)
        critical += np.where(raised > 0, raised + STRICTER * 1.4**k, 0.0)
    return np.full(n0 + 1, -1)


def _score_limits(
    n1: int, n0: int, line: Line, critical: np.ndarray, rates: np.ndarray
) -> np.ndarray:
    """Return the limits of a score test, by its critical value at each rate of group 0.

    The variance and the critical value are those at the rates on the line that are nearest to the
    counts at the limit.
    """
    p0 = np.arange(n0 + 1) / n0
    p1, (slope, margin) = line.first(p0), line
    for _ in range(FIXED_POINT):
        rate = (n0 * p0 + n1 * slope * (p1 - margin)) / (n0 + n1 * slope**2)
        rate = rate.clip(0, rates[-1])
        first = line.first(rate)
        variance = first * (1 - first) / n1 + slope**2 * rate * (1 - rate) / n0
        error = np.sqrt(variance.clip(min=0) + n1**-2.0 + (slope / n0) ** 2)
        p1 = (p1 + line.first(p0) - np.interp(rate, rates, critical) * error) / 2
    found = np.floor(n1 * p1).clip(-1, n1).astype(np.int64)
    return np.minimum.accumulate(found[::-1])[::-1]


def largest_error(n1: int, n0: int, line: Line, rates: np.ndarray) -> Chances:
    """Return a bound on the chance of a rejection for p0 in each cell and p1 above the line.

    `rates` are the ends of the cells. Between two of them the chance is at most what it is for the
    larger p0 and the smaller p1.
    """
    return chances(n1, line.first(rates[:-1]), n0, rates[1:])


def chances(n1: int, p1: np.ndarray, n0: int, p0: np.ndarray) -> Chances:
    """Return the chances of a rejection at pairs of rates, rounded up, as a function of limits.

    The limits are the largest counts of group 1 that reject, which do not fall, ``(n0 + 1,)``.
    """
    (first0, mass0), (first1, mass1) = _binomial(n0, p0), _binomial(n1, p1)
    below = np.cumsum(mass1, axis=1)
    counts, top = first0[:, None] + np.arange(mass0.shape[1]), below.shape[1] - 1
    missing = (1 - mass0.sum(1)).clip(0) + (1 - below[:, -1]).clip(0) + 1e-11  # rounding

    def of(limit: np.ndarray) -> np.ndarray:
        at = limit[counts] - first1[:, None]
        reject = np.take_along_axis(below, at.clip(0, top), axis=1)
        return np.asarray(np.einsum("ij,ij->i", mass0, np.where(at < 0, 0.0, reject)) + missing)

    return of


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
