"""A network and one number per group that is added to its logits.

Post-processing rules move a decision threshold by group; here the move is a parameter like any
other, so that such a rule is a personal model: a row of numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from pfedfair.networks import Network


class GroupOffset:
    """Logits of `network`, plus the row's offset for the person's group.

    A row is ``[network's row, offset of S=0, offset of S=1]``. S (0 or 1) is the last input.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self.size = network.size + 2

    def init(self, rng: np.random.Generator) -> Tensor:
        return torch.cat([self.network.init(rng), torch.zeros(2)])

    def logits(self, w: Tensor, x: Tensor) -> Tensor:
        return self.network.logits(w[:, :-2], x) + self._offset(w, x)

    def vjp(self, w: Tensor, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        logits, pullback = self.network.vjp(w[:, :-2], x)

        def pull(slope: Tensor) -> Tensor:
            s = x[..., -1:]
            offsets = torch.stack([(slope * (1 - s)).sum((1, 2)), (slope * s).sum((1, 2))], dim=1)
            return torch.cat([pullback(slope), offsets], dim=1)

        return logits + self._offset(w, x), pull

    @staticmethod
    def _offset(w: Tensor, x: Tensor) -> Tensor:
        s = x[..., -1:]
        return (1 - s) * w[:, None, -2:-1] + s * w[:, None, -1:]
