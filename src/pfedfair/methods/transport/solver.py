"""What a client of `Transport` does by itself: from counts of scores to its fair rule."""

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
DRAWS, FEW = 400, 100  # of shapes: for the guarantee, and to say how well a gap is known
ROUNDING = 1e-6  # of a linear program
FAINT = 1e-6  # of a client's rows, evenly in all cells


@dataclass(frozen=True, eq=False)
class Solved:
    """A client's rule, and what it should know of it.

    Attributes
    ----------
    numbers
        Of each group low, high, chance and below; or of each cell the chances of decisions.
    known_to
        How well the client's DDP is known: 95 % of its posterior is within so much. It is drawn
        when it is asked for: another target does not need it.
    certainty_cost
        The accuracy that the confidence level costs, by the calibrated scores; 0 without.
    """

    numbers: np.ndarray
    known_to: Callable[[], float]
    certainty_cost: float


class Facts(Mapping[str, float]):
    """How well a client's DDP is known, and what confidence costs; each is computed once."""

    def __init__(self, solved: Solved) -> None:
        self.known: dict[str, float | Callable[[], float]] = {
            "known_to": solved.known_to, "certainty_cost": solved.certainty_cost,
        }  # fmt: skip

    def __getitem__(self, name: str) -> float:
        found = self.known[name]
        if callable(found):
            found = self.known[name] = found()
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)

    def __reduce__(self) -> tuple[type, tuple[dict[str, float]]]:
        return dict, (dict(self),)


@dataclass(frozen=True, kw_only=True)
class Solver:
    """The settings of `Transport` that a client's rule depends on, and the way to it."""

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
        and `shares` are the client's: how its groups' scores are distributed, and how large they
        are.
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
            # The guess of S is not quite right: a stricter limit on what it shows. If even none is
            # strict enough, the counts of two groups take the guess's place. Those of more, or by
            # label, are too thin for that: some rows, at random, get the most frequent decision.
            decision = decide(strictest(lambda limit: within(decide(limit)), self.target_ddp))
            gap = largest_gap(mass, self.criterion, decision)
            if gap > self.target_ddp + ROUNDING and len(here) == 2 and self.criterion == "dp":
                decision = fair_program(mass, self.criterion, self.target_ddp, aware=False)
            elif gap > self.target_ddp + ROUNDING:
                alike = 1 - self.target_ddp / gap
                decision = (1 - alike) * decision
                decision[..., usual] += alike
        cost, doubted = 0.0, None
        if len(here) > 1 and self.confidence is not None:

            def right(chances: np.ndarray) -> float:
                return float((mass.transpose(0, 2, 1) * chances).sum())

            drawn = belief.draws(DRAWS, rng)[here]
            found = self.surely(decide, drawn, mass, eta[here], usual, by_cell)
            cost, decision = right(decision) - right(found), found
            doubted = doubt(self.gaps(decision, drawn, eta[here]))

        def known_to() -> float:
            if len(here) < 2 or doubted is not None:
                return doubted or 0.0
            return doubt(self.gaps(decision, belief.draws(FEW, rng)[here], eta[here]))

        everywhere = likeliest(eta) if task.aware else decision  # also for groups that it has not
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
        """Two groups, two classes, demographic parity: the closed form, as `fair_program` has it.

        `eta` (of label 1) and `shapes` are ``(2, bins)``.
        """
        tilt = aware_tilt(np.repeat([0, 1], self.bins), float(shares[1] / shares.sum()))
        mass = (shares[:, None] * shapes).ravel()
        positive = fair_rule(eta.ravel(), tilt, mass, limit).positive(eta.ravel(), tilt)
        return np.stack([1 - positive, positive], axis=-1).reshape(2, self.bins, 2)

    def gaps(self, chances: np.ndarray, drawn: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """The groups' rates in the drawn cases, ``(rates compared, groups, draws)``."""
        found = []
        for label, decision in CRITERIA[self.criterion].compared(eta.shape[1]):
            rates = []
            for z, shapes in enumerate(drawn):
                among = np.ones(eta.shape[2]) if label is None else eta[z, label]
                hit = chances[min(z, len(chances) - 1), :, decision]
                rates.append(shapes @ (among * hit) / (shapes @ among).clip(min=1e-300))
            found.append(rates)
        return np.array(found)

    def surely(
        self,
        decide: Callable[[float], np.ndarray],
        drawn: np.ndarray,
        mass: np.ndarray,
        eta: np.ndarray,
        usual: int,
        by_cell: bool,
    ) -> np.ndarray:
        """Return the most accurate decision that keeps the target in enough of the drawn cases.

        `drawn` are distributions that the groups may have, ``(groups, draws, cells)``. If no limit
        is strict enough, the decisions of limit 0 are mixed with the most frequent label `usual`:
        some rows, at random, get that label, or, where that is as safe and more accurate, those
        with the least clear scores do. The gap shrinks with the rates.
        """

        def safe(chances: np.ndarray) -> bool:
            worst = np.ptp(self.gaps(chances, drawn, eta), axis=1).max(0)
            return bool(np.quantile(worst, self.confidence or 0.0) <= self.target_ddp)

        strict = decide(0.0)
        if safe(strict):
            return decide(strictest(lambda limit: safe(decide(limit)), self.target_ddp))
        constant = np.zeros_like(strict)
        constant[..., usual] = 1.0
        fixed = self.ties == "deterministic"
        if by_cell and fixed:  # no random draws, and no order of cells
            return constant

        def mixed(clear: np.ndarray, part: float) -> np.ndarray:
            chances = part * clear + (1 - part) * constant
            if by_cell:
                return chances
            cuts = [self.cut(one, m, fixed) for one, m in zip(chances, mass, strict=True)]
            positive = np.stack([monotonicity.chances(cut, self.bins) for cut in cuts])
            return np.stack([1 - positive, positive], axis=-1)

        tries = [strict]
        if not by_cell and not fixed:  # without draws in a bin the rest can be one draw
            clear = [(strict[..., 1] > level).astype(float) for level in (0.0, 0.5, 1 - 1e-9)]
            tries += [np.stack([1 - positive, positive], axis=-1) for positive in clear]
        found = [mixed(one, strictest(lambda part: safe(mixed(one, part)), 1.0))  # noqa: B023
                 for one in tries]  # fmt: skip
        return max(found, key=lambda one: float((mass.transpose(0, 2, 1) * one).sum()))

    def cut(self, chances: np.ndarray, mass: np.ndarray | None, fixed: bool) -> monotonicity.Cut:
        """Turn a group's chances of decisions in the bins into a threshold.

        `mass` is the group's by label and bin, if the client has rows of it. If `fixed`, random
        draws are for one bin at the most (or for those below the threshold, with equalised odds).
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
        among = mass.sum(0) if self.criterion == "dp" else mass[1]
        return monotonicity.same_rate(positive, among / max(among.sum(), 1e-300))

    def threshold(self, chances: np.ndarray, mass: np.ndarray | None) -> np.ndarray:
        """Turn a group's chances into low, high, chance and below, see `cut`."""
        low, high, chance, below = self.cut(chances, mass, fixed=False)
        if self.ties == "deterministic":
            draws_below = self.criterion == "eo" and high - low > 1  # these cannot be had
            low = high = high - (0.0 if draws_below else chance * (high - low))
            chance = below = 0.0
        ends = np.clip(logit(np.array([low, high]) / self.bins), -FAR, FAR)
        return np.array([*ends, chance, below])


def by_guess(state: dict[str, np.ndarray], shares: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """The mass of group, label and cell, with the head's guess of the group in each cell.

    Counts of rows in so many cells would be fitted by chance; the guess is a smooth function.
    """
    here = np.flatnonzero(shares)
    odds = state["guess"][here] * shares[here, None]
    rows = mass.sum((0, 1)) * odds / odds.sum(0)
    return np.asarray(rows[:, None] * state["eta"][here])


def doubt(rates: np.ndarray) -> float:
    """How far a gap may be from its mean, in 95 % of the cases, ``(compared, groups, draws)``."""
    mean = rates.mean(2)
    high, low = (
        np.take_along_axis(rates, end(mean, 1)[:, None, None], axis=1)[:, 0]
        for end in (np.argmax, np.argmin)
    )
    return float(1.96 * (high - low).std(1).max())


def strictest(enough: Callable[[float], bool], limit: float) -> float:
    """Return the largest number below `limit` that is `enough`, or 0."""
    low, high = 0.0, limit
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low


def likeliest(weights: np.ndarray) -> np.ndarray:
    """The likeliest decision in every cell: ``(n, classes, cells)`` to ``(n, cells, classes)``.

    Of equally likely ones, the first.
    """
    best = weights.argmax(1)
    return np.asarray(np.eye(weights.shape[1])[best])
