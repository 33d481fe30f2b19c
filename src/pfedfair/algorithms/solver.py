"""What a client of `Transport` does by itself: from counts of scores to its fair rule."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from pfedfair.criteria import CRITERIA
from pfedfair.kinds import Kinds
from pfedfair.theory import monotone, shrinkage
from pfedfair.theory.program import fair_program, largest_gap
from pfedfair.theory.rule import aware_tilt, fair_rule

FAR = 1e30  # a logit that no score exceeds
DRAWS = 400  # of shapes, for the guarantee
ROUNDING = 1e-6  # of a linear program
FAINT = 1e-6  # of a client's people, evenly in all cells


@dataclass(frozen=True, kw_only=True)
class Solver:
    """The settings of `Transport` that a client's rule depends on, and the way to it."""

    target_ddp: float
    criterion: str
    confidence: float | None
    kappa: float | None
    ties: str
    bins: int

    def solve(
        self,
        known: dict[str, np.ndarray],
        counts: np.ndarray,
        shares: np.ndarray,
        rng: np.random.Generator,
        kinds: Kinds,
    ) -> np.ndarray:
        """Return a client's rule: of each group low, high, chance and below; or of each cell.

        `known` is what the server has told: eta, the others' counts, the prior of kappa and, if S
        is not an input, the guess of S. `counts` and `shares` are the client's, see
        `Transport.solve`.
        """
        here = np.flatnonzero(shares)
        eta, pooled, prior = known["eta"], known["counts"], known["prior"]
        shapes = np.stack([self.shape(counts[z], pooled[z], prior) for z in here])
        by_cell = not kinds.aware or kinds.classes > 2
        if by_cell:  # somebody may come who is in an empty cell
            shapes = (1 - FAINT) * shapes + FAINT / shapes.shape[1]
        mass = shares[here, None, None] * shapes[:, None] * eta[here]
        seen = mass if kinds.aware else by_guess(known, shares, mass)

        def decide(limit: float) -> np.ndarray:
            if len(here) == 1 or limit >= 1:  # nobody to compare with, or no need
                return sure(eta[here] if kinds.aware else seen.sum(0, keepdims=True))
            if len(here) == 2 and not by_cell and self.criterion == "dp":
                return self.proposition_2(eta[here, 1], shares[here], shapes, limit)
            return fair_program(seen, self.criterion, limit, kinds.aware)

        def within(decision: np.ndarray) -> bool:
            return largest_gap(mass, self.criterion, decision) <= self.target_ddp + ROUNDING

        usual = int(mass.sum((0, 2)).argmax())
        decision = decide(self.target_ddp)
        if not kinds.aware and not within(decision):
            # The guess of S is not quite right: a stricter limit on what it shows. If even none is
            # strict enough, the counts of two groups take the guess's place. Those of more, or by
            # label, are too thin for that: some people by lot get the decision that most have.
            decision = decide(strictest(lambda limit: within(decide(limit)), self.target_ddp))
            gap = largest_gap(mass, self.criterion, decision)
            if gap > self.target_ddp + ROUNDING and len(here) == 2 and self.criterion == "dp":
                decision = fair_program(mass, self.criterion, self.target_ddp, aware=False)
            elif gap > self.target_ddp + ROUNDING:
                alike = 1 - self.target_ddp / gap
                decision = (1 - alike) * decision
                decision[..., usual] += alike
        if self.confidence is not None and len(here) > 1:
            each = [
                shrinkage.posterior_draws(counts[z], pooled[z], DRAWS, rng, self.kappa, prior)
                for z in here
            ]
            decision = self.surely(decide, each, eta[here], usual)
        everywhere = sure(eta) if kinds.aware else decision  # also for groups that it has not
        if kinds.aware:
            everywhere[here] = decision
        if by_cell:
            if self.ties == "deterministic":
                everywhere = sure(everywhere.transpose(0, 2, 1))
            return everywhere.ravel()
        of_group = dict(zip(here, mass, strict=True))
        rule = [self.threshold(chances, of_group.get(z)) for z, chances in enumerate(everywhere)]
        return np.concatenate(rule)

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

    def shape(self, counts: np.ndarray, pooled: np.ndarray, prior: np.ndarray) -> np.ndarray:
        """A group's distribution of scores at a client: its own, as far as it may be trusted."""
        q, n = shrinkage.spread(pooled), counts.sum()
        if pooled.sum() == 0 and n > 0:  # nobody else to ask
            weight = 1.0
        elif self.kappa is None:
            weight = shrinkage.own_weight(counts, q, prior)
        else:
            weight = float(n / (n + self.kappa)) if n + self.kappa > 0 else 0.0
        return shrinkage.posterior_mean(counts, q, weight)

    def surely(
        self,
        decide: Callable[[float], np.ndarray],
        draws: list[np.ndarray],
        eta: np.ndarray,
        usual: int,
    ) -> np.ndarray:
        """Return the most accurate decision that keeps the target in enough of the drawn cases.

        `draws` are distributions that the groups may have, each ``(draws, cells)``. If no limit is
        strict enough, all get the same decision, the most frequent label `usual`.
        """
        enough = self.confidence or 0.0

        def safe(limit: float) -> bool:
            chances = decide(limit)
            worst = np.zeros(len(draws[0]))
            for label, decision in CRITERIA[self.criterion].compared(eta.shape[1]):
                rates = []
                for z, drawn in enumerate(draws):
                    among = np.ones(eta.shape[2]) if label is None else eta[z, label]
                    hit = chances[min(z, len(chances) - 1), :, decision]
                    rates.append(drawn @ (among * hit) / (drawn @ among).clip(min=1e-300))
                worst = np.maximum(worst, np.ptp(rates, axis=0))
            return bool(np.quantile(worst, enough) <= self.target_ddp)

        if not safe(0.0):
            constant = np.zeros_like(decide(1.0))
            constant[..., usual] = 1.0
            return constant
        return decide(strictest(safe, self.target_ddp))

    def threshold(self, chances: np.ndarray, mass: np.ndarray | None) -> np.ndarray:
        """Turn a group's chances of decisions in the bins into low, high, chance and below.

        `mass` is the group's by label and bin, if the client has people of it.
        """
        positive = chances[:, 1]
        first = int((positive == 0).sum())  # bins without a positive decision come first,
        last = self.bins - int((positive == 1).sum())  # sure ones last; lots are drawn between
        lots = positive[first:last]
        if mass is None or ((np.diff(positive) >= 0).all() and (lots == lots[:1]).all()):
            cut = monotone.Cut(first, last, lots[0] if len(lots) else 0.0)
        elif self.criterion == "eo":
            negative, label = (m / max(m.sum(), 1e-300) for m in mass)
            cut = monotone.same_rates(positive, negative, label)
        else:
            among = mass.sum(0) if self.criterion == "dp" else mass[1]
            cut = monotone.same_rate(positive, among / max(among.sum(), 1e-300))
        low, high, chance, below = cut
        if self.ties == "deterministic":
            lots_below = self.criterion == "eo" and high - low > 1  # these cannot be had
            low = high = high - (0.0 if lots_below else chance * (high - low))
            chance = below = 0.0
        ends = np.clip(logit(np.array([low, high]) / self.bins), -FAR, FAR)
        return np.array([*ends, chance, below])


def by_guess(known: dict[str, np.ndarray], shares: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """The mass of group, label and cell, with the head's guess of the group in each cell.

    Counts of people in so many cells would be fitted by chance; the guess is a smooth function.
    """
    here = np.flatnonzero(shares)
    odds = known["guess"][here] * shares[here, None]
    people = mass.sum((0, 1)) * odds / odds.sum(0)
    return np.asarray(people[:, None] * known["eta"][here])


def strictest(enough: Callable[[float], bool], limit: float) -> float:
    """Return the largest number below `limit` that is `enough`, or 0."""
    low, high = 0.0, limit
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low


def sure(weights: np.ndarray) -> np.ndarray:
    """The likeliest decision in every cell: ``(n, classes, cells)`` to ``(n, cells, classes)``.

    Of equally likely ones, the first.
    """
    best = weights.argmax(1)
    return np.asarray(np.eye(weights.shape[1])[best])
