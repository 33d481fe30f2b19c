"""A predictor is a scorer and a rule: from a person's inputs and group to a decision."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from pfedfair import seeds
from pfedfair.federation import Table
from pfedfair.metrics import tally
from pfedfair.networks import Network
from pfedfair.rules import Rule

ROWS_AT_ONCE = 4096
Unpack = Callable[[Tensor], Tensor]  # from what an encoder packed to inputs


@dataclass(frozen=True, eq=False)
class Predictor:
    """One client's: the network with its parameters `theta` ``(p,)``, and the rule.

    People's `x` are inputs, or what `unpack` makes inputs of, some people at a time.
    """

    network: Network
    theta: Tensor
    rule: Rule

    def logits(self, x: Tensor, s: Tensor, unpack: Unpack = Tensor.float) -> Tensor:
        """Scores of some people, ``(n, outputs)``."""
        parts = zip(torch.split(x, ROWS_AT_ONCE), torch.split(s, ROWS_AT_ONCE), strict=True)
        return torch.cat([self.network.logits(self.theta[None], unpack(a)[None], b[None])[0]
                          for a, b in parts])  # fmt: skip

    def chances(self, x: Tensor, s: Tensor, unpack: Unpack = Tensor.float) -> Tensor:
        """The chance of every decision, ``(n, classes)``."""
        return self.rule.chances(self.logits(x, s, unpack), s)

    def decide(
        self, x: Tensor, s: Tensor, rng: np.random.Generator, unpack: Unpack = Tensor.float
    ) -> Tensor:
        """Everybody's decision, ``(n,)``, by lot where the rule says so."""
        return self.rule.decide(self.logits(x, s, unpack), s, rng)

    def scores_as(self, other: Self) -> bool:
        """Whether two clients have the same model, perhaps with other rules."""
        return torch.equal(self.theta, other.theta)

    def same(self, other: Self) -> bool:
        """Whether two clients decide alike."""
        return torch.equal(self.rule.numbers, other.rule.numbers) and self.scores_as(other)


def count(
    predictors: Sequence[Predictor],
    table: Table,
    rows: Sequence[np.ndarray],
    seed: int = 0,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Count decisions of client i on its `rows[i]`, ``(clients, S, Y, Yhat)``.

    Lots are drawn from `seed`. For `weight`, of every row of the table, see `metrics.tally`.
    """
    groups, classes = table.kinds.groups, table.kinds.classes
    kind = np.int64 if weight is None else np.float64
    counts = np.zeros((len(predictors), groups, classes, classes), dtype=kind)
    first = torch.empty(0)  # the first client's scores, for those who share its model and rows
    for i, predictor in enumerate(predictors):
        shared = i > 0 and rows[i] is rows[0]
        if shared and predictor.same(predictors[0]):
            counts[i] = counts[0]  # one model for all, on everybody's rows
            continue
        own = torch.from_numpy(rows[i])
        s, y = table.s[own], table.y[own].long()
        if shared and predictor.scores_as(predictors[0]):
            logits = first
        else:
            logits = predictor.logits(table.x[own], s, table.unpack)
            first = logits if i == 0 else first
        decided = predictor.rule.decide(logits, s, seeds.generator(seed, seeds.TIES, i))
        much = None if weight is None else weight[rows[i]]
        counts[i] = tally(s.numpy(), y.numpy(), decided.numpy(), groups, classes, much)
    return counts
