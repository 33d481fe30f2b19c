"""The posterior of a client's score distributions, given its counts and all other clients'.

The others' shape of each group, moved as clients of this population move (`theory.effects`), then
mixed with the client's own counts, as far as they agree (`theory.shrinkage`).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from pfedfair.theory import effects, shrinkage, tilts

COUNTS = ("counts", "pooled", "all_counts", "all_pooled")
NO_EFFECTS = 0.999  # probability of no effects above which they are ignored


@dataclass(frozen=True, eq=False, kw_only=True)
class Belief:
    """A client's view of its own groups, or many clients', each its own.

    Attributes
    ----------
    counts, pooled
        Its rows and all others', ``(groups, cells)``; of many clients ``(clients, groups, cells)``.
    prior
        The probability of each kappa before its counts.
    kappa
        The weight of the others' shape, if it is known; clients' effects are not looked at then.
    population
        How clients differ, if that is learnt for such a task.
    all_counts, all_pooled
        Rows by which effects are estimated, if not those above. Scores of rows that the
        model was trained on are biased alike at all clients: they count as much as others do.
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
        counts: dict[str, Any] = {
            name: x[i].copy() for name in COUNTS if (x := getattr(self, name)) is not None
        }
        quadratic = None if self.quadratic is None else self.quadratic[i]
        one = replace(self, **counts, quadratic=quadratic)
        vars(one)["shapes"] = self.shapes[i].copy()
        return one

    @cached_property
    def without_pool(self) -> np.ndarray:
        """Groups that no other client has rows of."""
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
        return effects.mixture(self.likelihood, self.used_effects) if self.used_effects else None

    @property
    def used_effects(self) -> effects.Effects | None:
        """The population of clients' effects, if they are to be used."""
        found = self.population
        return None if found is None or found.none > NO_EFFECTS or self.kappa is not None else found

    @cached_property
    def centres(self) -> np.ndarray:
        """The shapes that its effects suggest."""
        if self.moved is None:
            return _even(self.others)
        return _even(effects.centres(self.others, self.moved))

    @cached_property
    def shapes(self) -> np.ndarray:
        """The best guess of each group's distribution, ``(groups, cells)``."""
        rows = self.counts.sum(-1)
        if self.kappa is None:
            weight = shrinkage.own_weight(self.counts, self.centres, self.prior)
        else:
            weight = rows / np.maximum(rows + self.kappa, 1e-300)
        weight = np.where(self.without_pool & (rows > 0), 1.0, weight)
        return shrinkage.posterior_mean(self.counts, self.centres, weight)

    def draws(self, number: int, rng: np.random.Generator) -> np.ndarray:
        """Shapes that one client's groups may have, ``(groups, number, cells)``."""
        theta = None
        if self.used_effects is not None:
            posterior = effects.mixture(self.likelihood, self.used_effects.doubted)
            theta = posterior.draw(number, rng).reshape(number, -1, tilts.OF_GROUP)
        found = []
        for z, (n, pool) in enumerate(zip(self.counts, self.pooled, strict=True)):
            moves = None
            if theta is not None and not self.without_pool[z]:
                moves = tilts.factors(self.others[z], theta[:, z])
            drawn = shrinkage.posterior_draws(n, pool, number, rng, self.kappa, self.prior, moves)
            found.append(drawn)
        return np.stack(found)


def others(pooled: np.ndarray) -> np.ndarray:
    """The shape of each group of rows, all zeros where there are none."""
    any_rows = pooled.sum(-1, keepdims=True) > 0
    return np.where(any_rows, shrinkage.spread(pooled), 0.0)


def _even(shapes: np.ndarray) -> np.ndarray:
    """The shapes, and an even one where there is none."""
    any_mass = shapes.any(-1, keepdims=True)
    return np.where(any_mass, shapes, 1 / shapes.shape[-1])
