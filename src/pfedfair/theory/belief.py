"""The posterior of a client's score distributions, given its counts and all other clients'.

The pooled shape of each group, shifted by the client's estimated effects (`theory.effects`), is
mixed with the client's own counts according to how well they agree (`theory.shrinkage`).
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
    """The posterior of one client, or of each of many clients.

    Attributes
    ----------
    counts, pooled
        Its rows and all others', ``(groups, cells)``; of many clients ``(clients, groups, cells)``.
    prior
        The probability of each kappa before its counts.
    kappa
        The weight of the pooled shape, if it is given; clients' effects are ignored then.
    population
        How clients differ, if that is learnt for such a task.
    all_counts, all_pooled
        Rows by which effects are estimated, if not those above. Scores of rows that the
        model was trained on have the same bias at all clients, so these rows count fully.
    quadratic
        The likelihood of effects by these rows, if it is computed already.
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
        """Return client i's posterior. The shapes are computed for all clients at once.

        A client's rule refers to it, so it shares no memory with those of other clients.
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
        """Whether no other client has rows of a group, ``(..., groups)``."""
        return np.asarray(self.pooled.sum(-1) == 0)

    @cached_property
    def pooled_shapes(self) -> np.ndarray:
        """The pooled shape of each group, zero where no other client has rows."""
        return shapes_of(self.pooled)

    @cached_property
    def likelihood(self) -> tilts.Likelihood:
        """The likelihood of the client's effects by its rows."""
        assert self.population is not None
        counts = self.counts if self.all_counts is None else self.all_counts
        shapes = shapes_of(self.pooled if self.all_pooled is None else self.all_pooled)
        first = self.quadratic or tilts.likelihood(counts, shapes)
        return effects.around_likelihood(first, counts, shapes, self.population, self.prior)

    @cached_property
    def effects_posterior(self) -> effects.Mixture | None:
        """The estimated distribution of the client's effects, if they are used."""
        return effects.mixture(self.likelihood, self.used_effects) if self.used_effects else None

    @property
    def used_effects(self) -> effects.Effects | None:
        """The population of clients' effects, if they are used."""
        if self.population is None or self.kappa is not None:
            return None
        return None if self.population.none > NO_EFFECTS else self.population

    @cached_property
    def centres(self) -> np.ndarray:
        """The pooled shapes, shifted by the client's effects."""
        if self.effects_posterior is None:
            return _filled(self.pooled_shapes)
        return _filled(effects.centres(self.pooled_shapes, self.effects_posterior))

    @cached_property
    def shapes(self) -> np.ndarray:
        """The posterior mean of each group's distribution, ``(..., groups, cells)``."""
        rows = self.counts.sum(-1)
        if self.kappa is None:
            weight = shrinkage.own_weight(self.counts, self.centres, self.prior)
        else:
            weight = rows / np.maximum(rows + self.kappa, 1e-300)
        weight = np.where(self.without_pool & (rows > 0), 1.0, weight)
        return shrinkage.posterior_mean(self.counts, self.centres, weight)

    def draws(self, number: int, rng: np.random.Generator) -> np.ndarray:
        """Draw one client's shapes from the posterior, ``(groups, number, cells)``."""
        theta = None
        if self.used_effects is not None:
            posterior = effects.mixture(self.likelihood, self.used_effects.doubted)
            theta = posterior.draw(number, rng).reshape(number, -1, tilts.OF_GROUP)
        found = []
        for z, (n, pool) in enumerate(zip(self.counts, self.pooled, strict=True)):
            moves = None
            if theta is not None and not self.without_pool[z]:
                moves = tilts.factors(self.pooled_shapes[z], theta[:, z])
            drawn = shrinkage.posterior_draws(n, pool, number, rng, self.kappa, self.prior, moves)
            found.append(drawn)
        return np.stack(found)


def shapes_of(pooled: np.ndarray) -> np.ndarray:
    """Return the shape of each group of rows, zero where there are no rows."""
    any_rows = pooled.sum(-1, keepdims=True) > 0
    return np.where(any_rows, shrinkage.spread(pooled), 0.0)


def _filled(shapes: np.ndarray) -> np.ndarray:
    """Return the shapes, uniform where a shape is zero."""
    any_mass = shapes.any(-1, keepdims=True)
    return np.where(any_mass, shapes, 1 / shapes.shape[-1])
