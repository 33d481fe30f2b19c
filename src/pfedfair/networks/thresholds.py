"""A network and a decision threshold for each group.

Post-processing rules decide by group; here such a rule is part of the parameters, so that it is a
personal model like any other: a row of numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from pfedfair.networks import Network


class Thresholds:
    """Decisions on the logits z of `network`, by group: 1 from `high` on.

    From `low` on the decision is 1 by `chance`, and below it by another, `below`, mostly 0. A row
    is the network's row and ``low, high, chance, below`` of each group. S is the last input, or the
    last `groups` inputs if there are more than two. The logits are z less a threshold that stands
    for the rule: `chance` of the way down from `high` to `low`. Training leaves the rule alone.
    """

    def __init__(self, network: Network, groups: int = 2) -> None:
        self.network = network
        self.groups = groups
        self.rule_size = 4 * groups
        self.size = network.size + self.rule_size

    def init(self, rng: np.random.Generator) -> Tensor:
        return torch.cat([self.network.init(rng), torch.zeros(self.rule_size)])

    def logits(self, w: Tensor, x: Tensor) -> Tensor:
        return self.network.logits(w[:, : -self.rule_size], x) - self._threshold(w, x)

    def vjp(self, w: Tensor, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        z, pullback = self.network.vjp(w[:, : -self.rule_size], x)

        def pull(slope: Tensor) -> Tensor:
            return torch.nn.functional.pad(pullback(slope), (0, self.rule_size))

        return z - self._threshold(w, x), pull

    def rule(self, w: Tensor) -> Tensor:
        """Low, high, chance and below of every group, ``(rows, groups, 4)``."""
        return w[:, -self.rule_size :].reshape(-1, self.groups, 4)

    def chances(self, w: Tensor, x: Tensor) -> Tensor:
        """The probabilities of decisions 0 and 1, ``(rows, n, 2)``: mostly sure."""
        z = self.network.logits(w[:, : -self.rule_size], x)[..., 0]
        low, high, chance, below = self._own(w, x)
        positive = torch.where(z >= high, 1.0, torch.where(z < low, below, chance))
        return torch.stack([1 - positive, positive], dim=-1)

    def _threshold(self, w: Tensor, x: Tensor) -> Tensor:
        low, high, chance, _ = self._own(w, x)
        return (high + chance * (low - high)).unsqueeze(-1)

    def _own(self, w: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        """Every person's low, high, chance and below, each ``(rows, n)``."""
        s = group_of(x, self.groups)
        return torch.take_along_dim(self.rule(w), s[..., None], 1).unbind(-1)


def group_of(x: Tensor, groups: int) -> Tensor:
    """Read S off the last input, or the last `groups` inputs; ``(..., n, d)`` to ``(..., n)``."""
    return x[..., -1].long() if groups == 2 else x[..., -groups:].argmax(-1)
