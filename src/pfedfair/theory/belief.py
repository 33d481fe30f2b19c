"""What the distributions of a client's scores may be, given its counts and everybody else's.

The others' shape of each group, moved as clients of this population move (`theory.effects`), then
mixed with the client's own counts, as far as they agree (`theory.shrinkage`).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from pfedfair.theory import effects, shrinkage, tilts

PEOPLE = ("counts", "pooled", "all_counts", "all_pooled")
SURE = 0.999  # that there are no effects: then they are not looked at


@dataclass(frozen=True, eq=False, kw_only=True)
class Belief:
    """A client's view of its own groups, or many clients', each its own.

    Attributes
    ----------
    counts, pooled
        Its people and everybody else's, ``(groups, cells)``; of many ``(clients, groups, cells)``.
    prior
        How likely each kappa is held to be before its counts.
    kappa
        The weight of the others' shape, if it is known; clients' effects are not looked at then.
    population
        How clients differ, if that is learnt for such people.
    all_counts, all_pooled
        Rows by which effects are estimated, if not those above. What is odd of the scores of rows
        that a model was trained on is so everywhere: they count as much as others do.
    quadratic
        The likelihood of effects by these rows, if it is known already.
    """

    counts: np.ndarray
    pooled: np.ndarray
    prior: np.ndarray
    kappa: float | None = None
    population: effects.Effects | None = None
    all_counts: np.ndarray | None = None
    all_pooled: np.ndarray | None = None
    quadratic: tilts.Likelihood | None = None

    def __getitem__(self, i: int) -> Self:
        """One client's, of many clients'. The best guess is found for all of them at once.

        It is kept with a client's rule for long, so it holds on to nothing of the others'.
        """
        people: dict[str, Any] = {
            name: x[i].copy() for name in PEOPLE if (x := getattr(self, name)) is not None
        }
        quadratic = None if self.quadratic is None else self.quadratic[i]
        one = replace(self, **people, quadratic=quadratic)
        vars(one)["shapes"] = self.shapes[i].copy()
        return one

    @cached_property
    def alone(self) -> np.ndarray:
        """Groups that nobody else has people of."""
        return np.asarray(self.pooled.sum(-1) == 0)

    @cached_property
    def others(self) -> np.ndarray:
        """The others' shape of each group, all zeros where there is none."""
        return others(self.pooled)

    @cached_property
    def likelihood(self) -> tilts.Likelihood:
        """The likelihood of its effects, if there are any, by its rows."""
        assert self.population is not None
        counts = self.counts if self.all_counts is None else self.all_counts
        shapes = others(self.pooled if self.all_pooled is None else self.all_pooled)
        first = self.quadratic or tilts.likelihood(counts, shapes)
        return effects.around_likelihood(first, counts, shapes, self.population, self.prior)

    @cached_property
    def moved(self) -> effects.Mixture | None:
        """How the client differs from the others by its effects, by the best guess."""
        return effects.mixture(self.likelihood, self.held) if self.held else None

    @property
    def held(self) -> effects.Effects | None:
        """What is held of clients' effects, if there are any."""
        found = self.population
        return None if found is None or found.none > SURE or self.kappa is not None else found

    @cached_property
    def centres(self) -> np.ndarray:
        """The shapes that it would have, as far as effects tell."""
        if self.moved is None:
            return _even(self.others)
        return _even(effects.centres(self.others, self.moved))

    @cached_property
    def shapes(self) -> np.ndarray:
        """The best guess of each group's distribution, ``(groups, cells)``."""
        people = self.counts.sum(-1)
        if self.kappa is None:
            weight = shrinkage.own_weight(self.counts, self.centres, self.prior)
        else:
            weight = people / np.maximum(people + self.kappa, 1e-300)
        weight = np.where(self.alone & (people > 0), 1.0, weight)
        return shrinkage.posterior_mean(self.counts, self.centres, weight)

    def draws(self, number: int, rng: np.random.Generator) -> np.ndarray:
        """Shapes that one client's groups may have, ``(groups, number, cells)``."""
        theta = None
        if self.held is not None:
            may_be = effects.mixture(self.likelihood, self.held.doubted)
            theta = may_be.draw(number, rng).reshape(number, -1, tilts.OF_GROUP)
        found = []
        for z, (n, pool) in enumerate(zip(self.counts, self.pooled, strict=True)):
            moves = None
            if theta is not None and not self.alone[z]:
                moves = tilts.factors(self.others[z], theta[:, z])
            drawn = shrinkage.posterior_draws(n, pool, number, rng, self.kappa, self.prior, moves)
            found.append(drawn)
        return np.stack(found)


def others(pooled: np.ndarray) -> np.ndarray:
    """The shape of each group of rows, all zeros where there are none."""
    anybody = pooled.sum(-1, keepdims=True) > 0
    return np.where(anybody, shrinkage.spread(pooled), 0.0)


def _even(shapes: np.ndarray) -> np.ndarray:
    """The shapes, and an even one where there is none."""
    anybody = shapes.any(-1, keepdims=True)
    return np.where(anybody, shapes, 1 / shapes.shape[-1])
