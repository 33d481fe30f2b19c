"""A client's fair rule from its posterior of score distributions: step 4 of `Transport`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from pfedfair.data.task import Task
from pfedfair.metrics.criteria import CRITERIA
from pfedfair.theory import monotonicity
from pfedfair.theory.belief import Belief
from pfedfair.theory.program import fair_program, largest_gap
from pfedfair.theory.rule import aware_tilt, fair_rule

FAR = 1e30  # a logit that no score exceeds
DRAWS, FACT_DRAWS = 400, 100  # of shapes: for the guarantee, and for the interval of a gap
ROUNDING = 1e-6  # of a linear program
FAINT = 1e-6  # part of a client's rows that is spread over all cells


@dataclass(frozen=True, eq=False)
class Solved:
    """A client's rule, and facts about it.

    Attributes
    ----------
    numbers
        Low, high, chance and below of each group; or the chances of decisions in each cell.
    known_to
        The half-width of the 95 % interval of the client's DDP, by its posterior. It is computed on
        first access, since not every target needs it.
    certainty_cost
        The accuracy lost to the confidence level, by the calibrated scores; 0 without.
    """

    numbers: np.ndarray
    known_to: Callable[[], float]
    certainty_cost: float


class Facts(Mapping[str, float]):
    """The half-width of DDP's interval, and the cost of the confidence level; computed once."""

    def __init__(self, solved: Solved) -> None:
        self.facts: dict[str, float | Callable[[], float]] = {
            "known_to": solved.known_to, "certainty_cost": solved.certainty_cost,
        }  # fmt: skip

    def __getitem__(self, name: str) -> float:
        found = self.facts[name]
        if callable(found):
            found = self.facts[name] = found()
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.facts)

    def __len__(self) -> int:
        return len(self.facts)

    def __reduce__(self) -> tuple[type, tuple[dict[str, float]]]:
        return dict, (dict(self),)


@dataclass(frozen=True, kw_only=True)
class Solver:
    """The settings of `Transport` that a client's rule depends on, and its solution."""

    target_ddp: float
    criterion: str
    confidence: float | None
    ties: str
    bins: int

    def solve(
        self,
        state: dict[str, np.ndarray],
        belief: Belief,
        shares: np.ndarray,
        rng: np.random.Generator,
        task: Task,
    ) -> Solved:
        """Return a client's rule.

        `state` is the server's state: eta and, if S is not an input, the guess of S. `belief`
        is the posterior of the client's score distributions, `shares` are those of its groups.
        """
        here = np.flatnonzero(shares)
        eta = state["eta"]
        shapes = belief.shapes[here]
        by_cell = not task.aware or task.classes > 2
        if by_cell:  # a new row may be in a cell without rows
            shapes = (1 - FAINT) * shapes + FAINT / shapes.shape[1]
        mass = shares[here, None, None] * shapes[:, None] * eta[here]
        seen = mass if task.aware else by_guess(state, shares, mass)

        def decide(limit: float) -> np.ndarray:
            if len(here) == 1 or limit >= 1:  # no other group, or no limit
                return likeliest(eta[here] if task.aware else seen.sum(0, keepdims=True))
            if len(here) == 2 and not by_cell and self.criterion == "dp":
                return self.proposition_2(eta[here, 1], shares[here], shapes, limit)
            return fair_program(seen, self.criterion, limit, task.aware)

        def within(decision: np.ndarray) -> bool:
            return largest_gap(mass, self.criterion, decision) <= self.target_ddp + ROUNDING

        usual = int(mass.sum((0, 2)).argmax())
        decision = decide(self.target_ddp)
        if not task.aware and not within(decision):
            # The guess of S is inexact: limit the gap by the guess more strictly. If no limit is
            # strict enough, use the counts of two groups instead of the guess. Those of more, or by
            # label, are too sparse: random rows get the most frequent decision.
            decision = decide(strictest(lambda limit: within(decide(limit)), self.target_ddp))
            gap = largest_gap(mass, self.criterion, decision)
            if gap > self.target_ddp + ROUNDING and len(here) == 2 and self.criterion == "dp":
                decision = fair_program(mass, self.criterion, self.target_ddp, aware=False)
            elif gap > self.target_ddp + ROUNDING:
                constant = 1 - self.target_ddp / gap
                decision = (1 - constant) * decision
                decision[..., usual] += constant
        cost, width = 0.0, None
        if len(here) > 1 and self.confidence is not None:

            def right(chances: np.ndarray) -> float:
                return float((mass.transpose(0, 2, 1) * chances).sum())

            drawn = belief.draws(DRAWS, rng)[here]
            found = self.with_confidence(decide, drawn, mass, eta[here], usual, by_cell)
            cost, decision = right(decision) - right(found), found
            width = half_width(self.gaps(decision, drawn, eta[here]))

        def known_to() -> float:
            if len(here) < 2 or width is not None:
                return width or 0.0
            return half_width(self.gaps(decision, belief.draws(FACT_DRAWS, rng)[here], eta[here]))

        everywhere = likeliest(eta) if task.aware else decision  # also for absent groups
        if task.aware:
            everywhere[here] = decision
        if by_cell:
            if self.ties == "deterministic":
                everywhere = likeliest(everywhere.transpose(0, 2, 1))
            return Solved(everywhere.ravel(), known_to, cost)
        of_group = dict(zip(here, mass, strict=True))
        rule = [self.threshold(chances, of_group.get(z)) for z, chances in enumerate(everywhere)]
        return Solved(np.concatenate(rule), known_to, cost)

    def proposition_2(
        self, eta: np.ndarray, shares: np.ndarray, shapes: np.ndarray, limit: float
    ) -> np.ndarray:
        """Solve for two groups, two classes and demographic parity in closed form.

        `eta` (of label 1) and `shapes` are ``(2, bins)``; the result is like `fair_program`'s.
        """
        tilt = aware_tilt(np.repeat([0, 1], self.bins), float(shares[1] / shares.sum()))
        mass = (shares[:, None] * shapes).ravel()
        positive = fair_rule(eta.ravel(), tilt, mass, limit).positive(eta.ravel(), tilt)
        return np.stack([1 - positive, positive], axis=-1).reshape(2, self.bins, 2)

    def gaps(self, chances: np.ndarray, drawn: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """Return the groups' rates by draw, ``(rates compared, groups, draws)``."""
        found = []
        for label, decision in CRITERIA[self.criterion].comparisons(eta.shape[1]):
            rates = []
            for z, shapes in enumerate(drawn):
                weight = np.ones(eta.shape[2]) if label is None else eta[z, label]
                hit = chances[min(z, len(chances) - 1), :, decision]
                rates.append(shapes @ (weight * hit) / (shapes @ weight).clip(min=1e-300))
            found.append(rates)
        return np.array(found)

    def with_confidence(
        self,
        decide: Callable[[float], np.ndarray],
        drawn: np.ndarray,
        mass: np.ndarray,
        eta: np.ndarray,
        usual: int,
        by_cell: bool,
    ) -> np.ndarray:
        """Return the most accurate decision within the target at the confidence level.

        `drawn` are posterior draws of the groups' distributions, ``(groups, draws, cells)``. If no
        limit is strict enough, the decisions of limit 0 are mixed with the most frequent label
        `usual`, which shrinks the gap: random rows get that label, or, where that meets the target
        and is more accurate, those with the least clear scores.
        """

        def meets_target(chances: np.ndarray) -> bool:
            worst = np.ptp(self.gaps(chances, drawn, eta), axis=1).max(0)
            return bool(np.quantile(worst, self.confidence or 0.0) <= self.target_ddp)

        strict = decide(0.0)
        if meets_target(strict):
            return decide(strictest(lambda limit: meets_target(decide(limit)), self.target_ddp))
        constant = np.zeros_like(strict)
        constant[..., usual] = 1.0
        fixed = self.ties == "deterministic"
        if by_cell and fixed:  # no random draws, and no order of cells
            return constant

        def mix(decision: np.ndarray, part: float) -> np.ndarray:
            chances = part * decision + (1 - part) * constant
            if by_cell:
                return chances
            cuts = [self.cut(one, m, fixed) for one, m in zip(chances, mass, strict=True)]
            positive = np.stack([monotonicity.chances(cut, self.bins) for cut in cuts])
            return np.stack([1 - positive, positive], axis=-1)

        tries = [strict]
        if not by_cell and not fixed:  # without draws within a bin, the mixture is one draw
            sharp = [(strict[..., 1] > cut).astype(float) for cut in (0.0, 0.5, 1 - 1e-9)]
            tries += [np.stack([1 - positive, positive], axis=-1) for positive in sharp]
        found = [mix(one, strictest(lambda part: meets_target(mix(one, part)), 1.0))  # noqa: B023
                 for one in tries]  # fmt: skip
        return max(found, key=lambda one: float((mass.transpose(0, 2, 1) * one).sum()))

    def cut(self, chances: np.ndarray, mass: np.ndarray | None, fixed: bool) -> monotonicity.Cut:
        """Turn a group's chances of decisions in the bins into a threshold.

        `mass` is the group's by label and bin, if the client has rows of it. If `fixed`, random
        draws are within at most one bin (or below the threshold, with equalised odds).
        """
        positive = chances[:, 1]
        first = int((positive == 0).sum())  # bins without a positive decision come first,
        last = self.bins - int((positive == 1).sum())  # certain ones last; random draws between
        draws = positive[first:last]
        simple = (np.diff(positive) >= 0).all() and (draws == draws[:1]).all()
        if mass is None or (simple and not (fixed and len(draws) > 1)):
            return monotonicity.Cut(first, last, draws[0] if len(draws) else 0.0)
        if self.criterion == "eo":
            negative, label = (m / max(m.sum(), 1e-300) for m in mass)
            return monotonicity.same_rates(positive, negative, label)
        counted = mass.sum(0) if self.criterion == "dp" else mass[1]
        return monotonicity.same_rate(positive, counted / max(counted.sum(), 1e-300))

    def threshold(self, chances: np.ndarray, mass: np.ndarray | None) -> np.ndarray:
        """Turn a group's chances into low, high, chance and below, see `cut`."""
        low, high, chance, below = self.cut(chances, mass, fixed=False)
        if self.ties == "deterministic":
            draws_below = self.criterion == "eo" and high - low > 1  # which must not be random
            low = high = high - (0.0 if draws_below else chance * (high - low))
            chance = below = 0.0
        ends = np.clip(logit(np.array([low, high]) / self.bins), -FAR, FAR)
        return np.array([*ends, chance, below])


def by_guess(state: dict[str, np.ndarray], shares: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Return the mass by group, label and cell, with the head's guess of the group.

    Counts of rows in so many cells would be overfitted; the guess is a smooth function.
    """
    here = np.flatnonzero(shares)
    odds = state["guess"][here] * shares[here, None]
    rows = mass.sum((0, 1)) * odds / odds.sum(0)
    return np.asarray(rows[:, None] * state["eta"][here])


def half_width(rates: np.ndarray) -> float:
    """Return the half-width of a gap's 95 % interval, by draws ``(compared, groups, draws)``."""
    mean = rates.mean(2)
    high, low = (
        np.take_along_axis(rates, end(mean, 1)[:, None, None], axis=1)[:, 0]
        for end in (np.argmax, np.argmin)
    )
    return float(1.96 * (high - low).std(1).max())


def strictest(enough: Callable[[float], bool], limit: float) -> float:
    """Return the largest number below `limit` for which `enough` is true, or 0."""
    low, high = 0.0, limit
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low


def likeliest(weights: np.ndarray) -> np.ndarray:
    """Return each cell's likeliest decision, ``(n, classes, cells)`` to ``(n, cells, classes)``.

    Of equally likely ones it is the first.
    """
    best = weights.argmax(1)
    return np.asarray(np.eye(weights.shape[1])[best])
