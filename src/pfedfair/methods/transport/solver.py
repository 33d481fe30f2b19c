"""A client's fair rule from its posterior of score distributions: step 4 of `Transport`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from pfedfair.data.task import Task
from pfedfair.methods.transport.problem import Problem, Wish, cut, is_fine, likeliest
from pfedfair.theory.belief import Belief

FAR = 1e30  # a logit that no score exceeds
FAINT = 1e-6  # part of a client's rows that is spread over all cells


class Facts(Mapping[str, float]):
    """Facts about a client's rule; a function is called on first access.

    known_to
        The half-width of the 95 % interval of the client's DDP, by its posterior.
    certainty_cost
        The accuracy lost to the confidence level, by the calibrated scores; 0 without.
    too_small
        1 if the client's rows are too few for the target at the confidence level: its rule is the
        one with the least gap by estimate that is affordable. Else 0.
    enough_rows
        About how many more rows of the client would do; 0 if none are needed, or no number would.
    enough_target, enough_confidence
        The target that the rule meets at this confidence level; the level at which it meets this
        target.
    """

    def __init__(self, facts: Mapping[str, float | Callable[[], float]]) -> None:
        self.facts = dict(facts)

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


@dataclass(frozen=True, eq=False)
class Solved:
    """A client's rule, and facts about it.

    Attributes
    ----------
    numbers
        Low, high, chance and below of each group; or the chances of decisions in each cell.
    """

    numbers: np.ndarray
    facts: Facts


@dataclass(frozen=True, kw_only=True)
class Solver(Wish):
    """The settings of `Transport` that a client's rule depends on, and its solution."""

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
        here, eta = np.flatnonzero(shares), state["eta"]
        shapes, ordered = belief.shapes[here], task.aware and task.classes == 2
        if not ordered:  # a new row may be in a cell without rows
            shapes = (1 - FAINT) * shapes + FAINT / shapes.shape[1]
        mass = shares[here, None, None] * shapes[:, None] * eta[here]
        error = state.get("eta_error")
        problem = Problem(
            wish=self,
            eta=eta[here],
            error=None if error is None else error[here],
            mass=mass,
            seen=mass if task.aware else by_guess(state, shares, mass),
            aware=task.aware,
            ordered=ordered,
            rows=float(belief.counts.sum()),
            shapes=lambda number: belief.draws(number, rng)[here],
            rng=rng,
        )
        decision, facts = problem.solve()
        everywhere = decision
        if task.aware:  # also for absent groups
            everywhere = likeliest(eta)
            everywhere[here] = decision
        if not ordered:
            return Solved(everywhere.ravel(), Facts(facts))
        of_group = dict(zip(here, mass, strict=True))
        rule = [self.threshold(chances, of_group.get(z)) for z, chances in enumerate(everywhere)]
        return Solved(np.concatenate(rule), Facts(facts))

    def threshold(self, chances: np.ndarray, mass: np.ndarray | None) -> np.ndarray:
        """Turn a group's chances into low, high, chance and below, see `problem.cut`.

        A threshold inside a bin replaces random draws in it, if the bin has few rows.
        """
        low, high, chance, below = found = cut(chances, mass, self.criterion)
        if mass is not None and is_fine(found, mass):
            low = high = high - chance * (high - low)
            chance = 0.0
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
