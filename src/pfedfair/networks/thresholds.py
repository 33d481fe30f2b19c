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

RULE = 6  # numbers of a rule


class Thresholds:
    """Decisions on the logits z of `network`, by group: 1 from `high` on, 0 below `low`.

    In between the decision is 1 by chance. A row is the network's row and ``low, high, chance`` of
    S=0, then of S=1. S (0 or 1) is the last input. The logits are z less a threshold that stands
    for the three: `chance` of the way down from `high` to `low`. Training leaves the rule alone.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self.size = network.size + RULE

    def init(self, rng: np.random.Generator) -> Tensor:
        return torch.cat([self.network.init(rng), torch.zeros(RULE)])

    def logits(self, w: Tensor, x: Tensor) -> Tensor:
        return self.network.logits(w[:, :-RULE], x) - self._threshold(w, x)

    def vjp(self, w: Tensor, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        z, pullback = self.network.vjp(w[:, :-RULE], x)

        def pull(slope: Tensor) -> Tensor:
            return torch.nn.functional.pad(pullback(slope), (0, RULE))

        return z - self._threshold(w, x), pull

    def chance(self, w: Tensor, x: Tensor) -> Tensor:
        """The probability that a decision is 1, ``(rows, n)``: mostly 0 or 1."""
        z = self.network.logits(w[:, :-RULE], x)[..., 0]
        low, high, chance = _own(w, x)
        return torch.where(z >= high, 1.0, torch.where(z < low, 0.0, chance))

    @staticmethod
    def _threshold(w: Tensor, x: Tensor) -> Tensor:
        low, high, chance = _own(w, x)
        return (high + chance * (low - high)).unsqueeze(-1)


def _own(w: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Every person's low, high and chance, each ``(rows, n)``."""
    rule = w[:, -RULE:].reshape(-1, 1, 2, 3)
    s = x[..., -1:]
    low, high, chance = ((1 - s) * rule[:, :, 0] + s * rule[:, :, 1]).unbind(-1)
    return low, high, chance
