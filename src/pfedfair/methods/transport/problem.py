"""One client's decisions: the most accurate ones within a target, at a confidence level."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, logit

from pfedfair.methods.transport import rates
from pfedfair.theory import monotonicity
from pfedfair.theory.pairs import best_pair
from pfedfair.theory.program import fair_program, largest_gap, positive_rates
from pfedfair.theory.rule import aware_tilt, fair_rule

DRAWS, MOST_DRAWS, FACT_DRAWS = 400, 4000, 100  # of shapes: for a confidence level, for a fact
IN_TAIL = 10  # draws beyond a quantile, by which it is estimated
ROUNDING = 1e-6  # of a linear program, and of chances
FINE = 2.5  # of an average bin's rows: a threshold may divide a bin with no more
PART = 0.5  # of what scores gain over one decision for all rows, which rules should keep


@dataclass(frozen=True, kw_only=True)
class Wish:
    """The settings of `Transport` that a client's decisions depend on; see there."""

    target_ddp: float
    criterion: str
    confidence: float
    max_randomised: float
    max_cost: float
    prefer: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """What a client knows of its rows. All arrays are of the groups that it has rows of.

    Attributes
    ----------
    eta
        P(Y) by group and cell, ``(groups, classes, cells)``.
    error
        Independent directions in which the logit of P(Y=1) may err by one standard deviation,
        ``(groups, directions, cells)``; None if that is not estimated.
    mass
        P(group, label, cell), by the posterior mean of the groups' distributions over the cells.
    seen
        The same by the guess of the group, where S is not known when decisions are made.
    aware, ordered
        Whether S is known; whether cells are bins of one score, which a threshold divides.
    shapes
        Returns draws of the groups' distributions from their posterior, ``(groups, draws, cells)``.
    """

    wish: Wish
    eta: np.ndarray
    error: np.ndarray | None
    mass: np.ndarray
    seen: np.ndarray
    aware: bool
    ordered: bool
    rows: float
    shapes: Callable[[int], np.ndarray]
    rng: np.random.Generator

    def solve(self) -> tuple[np.ndarray, dict[str, float | Callable[[], float]]]:
        """Return decisions ``(groups or 1, cells, classes)``, and facts about them.

        Of decisions within smaller and smaller limits, the first that are within the target at the
        confidence level, at an accuracy of at least `floor`. If none are, deterministic thresholds
        that are, at the same price, or a mixture with one decision for all rows that is random no
        more often than allowed. Else the rows are too few: decisions have the least gap by
        estimate that is affordable.
        """
        target = self.wish.target_ddp
        first = self.decide(target)
        found, too_small = first, False
        if not self.meets_target(first):
            floor = self.floor(first)
            least = smallest(lambda x: self.right(self.decide(x)) >= floor, target)
            found = self.decide(least)
            if self.meets_target(found):
                found = self.decide(
                    least
                    + largest(lambda x: self.meets_target(self.decide(least + x)), target - least)
                )
            elif others := self.others(found, floor):
                found = max(others, key=self.right)
            else:
                too_small = True
        facts: dict[str, float | Callable[[], float]] = {
            "known_to": lambda: self.known_to(found),
            "certainty_cost": self.right(first) - self.right(found)
            if self.wish.confidence
            else 0.0,
            "too_small": float(too_small),
        }
        return found, facts | self.what_would_do(found, too_small)

    # --- decisions within a limit

    def decide(self, limit: float) -> np.ndarray:
        """Return the most accurate decisions within a limit, with few enough random draws."""
        found = self.in_one_bin(self.best(limit))
        if self.randomised(found) <= self.wish.max_randomised + ROUNDING:
            return found
        if self.ordered and len(self.mass) == 2:
            shapes = self.mass.sum(1, keepdims=True) / self.mass.sum((1, 2))[:, None, None]
            fine = FINE / self.mass.shape[-1]
            return self.pair(shapes, self.eta[:, None], max(limit, fine), 1.0)
        return likeliest(found.transpose(0, 2, 1))

    def in_one_bin(self, chances: np.ndarray) -> np.ndarray:
        """Return thresholds with the same rates, whose random draws are in one bin of a group."""
        if not self.ordered:
            return chances
        cuts = [cut(one, mass, self.wish.criterion, True)
                for one, mass in zip(chances, self.mass, strict=True)]  # fmt: skip
        positive = np.stack([monotonicity.chances(one, chances.shape[1]) for one in cuts])
        positive[positive < ROUNDING], positive[positive > 1 - ROUNDING] = 0.0, 1.0
        return np.stack([1 - positive, positive], axis=-1)

    def best(self, limit: float) -> np.ndarray:
        """Return the most accurate decisions within a limit, maybe with random draws."""
        free, criterion = self.free, self.wish.criterion
        if len(self.mass) == 1 or limit >= 1:  # no other group, or no limit
            return free
        closed = len(self.mass) == self.eta.shape[1] == 2 and criterion == "dp"
        if self.wish.prefer == "up":
            if closed and self.aware:
                return self.raised(limit)
            least = positive_rates(self.seen, free)
            return fair_program(self.seen, criterion, limit, self.aware, least)
        if closed:
            return self.proposition_2(limit)
        return fair_program(self.seen, criterion, limit, self.aware)

    @cached_property
    def free(self) -> np.ndarray:
        """The decisions without a limit."""
        return likeliest(self.eta if self.aware else self.seen.sum(0, keepdims=True))

    def proposition_2(self, limit: float) -> np.ndarray:
        """Solve for two groups, two classes and demographic parity in closed form.

        Without S the tilt is by the guess of the group, and its size by the groups' distributions.
        """
        of_group = self.mass.sum((1, 2))
        if self.aware:
            eta, mass = self.eta[:, 1], self.mass.sum(1)
            tilt = aware_tilt(np.repeat([0, 1], mass.shape[1]), float(of_group[1] / of_group.sum()))
            rule = fair_rule(eta.ravel(), tilt, mass.ravel(), limit)
            positive = rule.positive(eta.ravel(), tilt).reshape(eta.shape)
        else:
            mass = self.seen.sum((0, 1))
            eta = self.seen[:, 1].sum(0) / mass
            guess = self.seen.sum(1) / mass / self.seen.sum((1, 2))[:, None]
            shapes = self.mass.sum(1) / of_group[:, None]
            rule = fair_rule(eta, guess[1] - guess[0], mass, limit, shapes[1] - shapes[0])
            positive = rule.positive(eta, guess[1] - guess[0])[None]
        return np.stack([1 - positive, positive], axis=-1)

    def raised(self, limit: float) -> np.ndarray:
        """Lower the threshold of the group with the lower positive rate, and no other."""
        rates_of = positive_rates(self.mass, self.free)
        low, high = rates_of.argmin(), rates_of.argmax()
        positive = self.free[..., 1].copy()
        if rates_of[high] - rates_of[low] > limit:
            shape = self.mass[low].sum(0) / self.mass[low].sum()
            same = monotonicity.same_rate(np.full(len(shape), rates_of[high] - limit), shape)
            positive[low] = monotonicity.chances(same, len(shape))
        return np.stack([1 - positive, positive], axis=-1)

    def pair(
        self, shapes: np.ndarray, eta: np.ndarray, limit: float, confidence: float
    ) -> np.ndarray:
        """Return the best deterministic thresholds by draws of shapes and P(Y); see `best_pair`."""
        right = self.mass[:, 1] - self.mass[:, 0]
        labelled = [np.stack([one / one.sum(-1, keepdims=True) for one in each])
                    for each in rates.weighted(shapes, eta, self.wish.criterion)]  # fmt: skip

        def enough(positive: np.ndarray) -> bool:
            chances = np.stack([1 - positive, positive], axis=-1)
            worst = rates.worst_gaps(chances, shapes, eta, self.wish.criterion)
            return bool(np.quantile(worst, confidence) <= limit + ROUNDING)

        lowest = None if self.wish.prefer == "any" else (
            (self.free[..., 1] == 0).sum(1))  # no threshold above that without a limit  # fmt: skip
        positive = best_pair(right, labelled, limit, confidence, enough, lowest)
        return np.stack([1 - positive, positive], axis=-1)

    @cached_property
    def constant(self) -> float:
        """The accuracy of one decision for all rows."""
        return float(self.mass.sum((0, 2)).max())

    def floor(self, first: np.ndarray) -> float:
        """Return the least accuracy of decisions that replace the `first` ones."""
        right, most = self.right(first), self.wish.max_cost
        return right - min(most, max(PART, most) * max(right - self.constant, 0.0)) - ROUNDING

    def others(self, strict: np.ndarray, floor: float) -> list[np.ndarray]:
        """Return decisions that meet the target where the `strict` ones do not."""
        sharp = likeliest(strict.transpose(0, 2, 1)) if self.ordered else strict
        constant = np.zeros_like(sharp)
        constant[..., int(self.mass.sum((0, 2)).argmax())] = 1.0
        found = []
        if self.ordered and len(self.mass) == 2 and self.wish.confidence:
            pair = self.pair(*self.draws, self.wish.target_ddp, self.wish.confidence)
            found += [pair] if self.right(pair) >= floor else []

        def mix(part: float) -> np.ndarray:
            return np.asarray(part * sharp + (1 - part) * constant)

        if self.wish.max_randomised > 0:
            part = largest(lambda part: self.meets_target(mix(part)), 1.0)
            found += [mix(part)] if part else []  # else one decision for all rows
        most = self.wish.max_randomised + ROUNDING
        return [one for one in found if self.meets_target(one) and self.randomised(one) <= most]

    # --- what becomes of decisions

    def right(self, chances: np.ndarray) -> float:
        """Return the accuracy of decisions by the calibrated scores."""
        return float((self.mass.transpose(0, 2, 1) * chances).sum())

    def randomised(self, chances: np.ndarray) -> float:
        """Return the part of the client's rows whose decision is a random draw."""
        if not self.ordered:
            random = ((chances > ROUNDING) & (chances < 1 - ROUNDING)).any(-1)
            mass = self.mass.sum(1) if self.aware else self.mass.sum((0, 1))[None]
            return float((mass * random).sum())
        total = 0.0
        for one, mass in zip(chances, self.mass, strict=True):
            found = cut(one, mass, self.wish.criterion)
            positive = monotonicity.chances(found, len(one))
            random = (positive > ROUNDING) & (positive < 1 - ROUNDING)
            total += 0.0 if is_fine(found, mass) else float(mass.sum(0)[random].sum())
        return total

    @cached_property
    def draws(self) -> tuple[np.ndarray, np.ndarray]:
        """Draws of shapes and of P(Y) from their posterior, for the confidence level."""
        in_tail = IN_TAIL / (1 - self.wish.confidence)
        return self.drawn(int(np.clip(np.ceil(in_tail), DRAWS, MOST_DRAWS)))

    def drawn(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw shapes ``(groups, number, cells)``, P(Y) ``(groups, number or 1, classes, cells)``.

        P(Y) matters to gaps among rows of equal label only.
        """
        shapes = self.shapes(number)
        if self.error is None or self.wish.criterion == "dp":
            return shapes, self.eta[:, None]
        off = self.rng.normal(size=(len(self.eta), number, self.error.shape[1])) @ self.error
        positive = expit(logit(self.eta[:, 1].clip(1e-12, 1 - 1e-12))[:, None] + off)
        return shapes, np.stack([1 - positive, positive], axis=2)

    def worst_gaps(self, chances: np.ndarray) -> np.ndarray:
        """Return the largest gap of decisions by draw, ``(draws,)``."""
        return rates.worst_gaps(chances, *self.draws, self.wish.criterion)

    def meets_target(self, chances: np.ndarray) -> bool:
        """Return whether decisions are within the target, at the confidence level if there is one.

        By estimate one may exceed it by what the rows of a fine bin weigh.
        """
        if len(self.mass) == 1:
            return True
        if not self.wish.confidence:
            gap = largest_gap(self.mass, self.wish.criterion, chances)
            slack = FINE / self.mass.shape[-1] if self.ordered else ROUNDING
            return bool(gap <= self.wish.target_ddp + slack)
        found = np.quantile(self.worst_gaps(chances), self.wish.confidence)
        return bool(found <= self.wish.target_ddp)

    def known_to(self, chances: np.ndarray) -> float:
        """Return the half-width of the 95 % interval of the gap."""
        if len(self.mass) == 1:
            return 0.0
        drawn = self.draws if self.wish.confidence else self.drawn(FACT_DRAWS)
        return rates.half_width(rates.of_groups(chances, *drawn, self.wish.criterion))

    def what_would_do(self, chances: np.ndarray, too_small: bool) -> dict[str, float]:
        """Return how many more rows, which target, or which level would do for these decisions.

        The interval of a gap shrinks with the square root of the rows.
        """
        target, rows, level = self.wish.target_ddp, 0.0, self.wish.confidence
        if too_small and level:
            worst = self.worst_gaps(chances)
            target, level = float(np.quantile(worst, level)), float(np.mean(worst <= target))
            if self.wish.target_ddp > 0:
                rows = self.rows * ((target / self.wish.target_ddp) ** 2 - 1)
        elif too_small:
            target = largest_gap(self.mass, self.wish.criterion, chances)
        return {"enough_rows": rows, "enough_target": target, "enough_confidence": level}


def cut(
    chances: np.ndarray, mass: np.ndarray | None, criterion: str, one_bin: bool = False
) -> monotonicity.Cut:
    """Turn a group's chances of decisions in the bins into a threshold with the same rates.

    `mass` is the group's by label and bin, if the client has rows of it. With `one_bin` random
    draws are in one bin at most (or below the threshold, with equalised odds).
    """
    positive = chances[:, 1]
    first = int((positive == 0).sum())  # bins without a positive decision come first,
    last = len(positive) - int((positive == 1).sum())  # certain ones last; draws between
    draws = positive[first:last]
    simple = (np.diff(positive) >= 0).all() and (draws == draws[:1]).all()
    if mass is None or (simple and not (one_bin and len(draws) > 1)):
        return monotonicity.Cut(first, last, draws[0] if len(draws) else 0.0)
    if criterion == "eo":
        negative, label = (m / max(m.sum(), 1e-300) for m in mass)
        return monotonicity.same_rates(positive, negative, label)
    counted = mass.sum(0) if criterion == "dp" else mass[1]
    return monotonicity.same_rate(positive, counted / max(counted.sum(), 1e-300))


def is_fine(cut: monotonicity.Cut, mass: np.ndarray) -> bool:
    """Return whether draws are in one bin at most, which a threshold inside it may replace."""
    if cut.below > ROUNDING or cut.high - cut.low > 1:
        return False
    rows = mass.sum(0)
    return cut.high == cut.low or bool(rows[int(cut.low)] <= FINE / len(rows) * rows.sum())


def largest(enough: Callable[[float], bool], limit: float) -> float:
    """Return the largest number below `limit` for which `enough` is true, or 0."""
    low, high = 0.0, limit
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low


def smallest(enough: Callable[[float], bool], limit: float) -> float:
    """Return the smallest number from 0 to `limit` for which `enough` is true, or `limit`."""
    return 0.0 if enough(0.0) else limit - largest(lambda x: enough(limit - x), limit)


def likeliest(weights: np.ndarray) -> np.ndarray:
    """Return each cell's likeliest decision, ``(n, classes, cells)`` to ``(n, cells, classes)``.

    Of equally likely ones it is the first.
    """
    best = weights.argmax(1)
    return np.asarray(np.eye(weights.shape[1])[best])
