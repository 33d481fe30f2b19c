"""Two networks in one: one scores rows, the other, its auxiliary head, predicts their group.

Where S is not known when decisions are made, a fair rule needs such a prediction.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfedfair.models.base import Network


class Both(Network):
    """A row is the network's row and the head's; the logits are the network's, then the head's."""

    def __init__(self, network: Network, head: Network) -> None:
        self.network, self.head = network, head
        self.size = network.size + head.size
        self.words = f"{network.words} and a guess of S"
        self.measured = network.measured + head.measured
        self.linear = network.linear and head.linear
        self.unbatched = network.unbatched or head.unbatched

    def init(self, rng: np.random.Generator) -> Tensor:
        return torch.cat([self.network.init(rng), self.head.init(rng)])

    def logits(self, w: Tensor, x: Tensor, s: Tensor) -> Tensor:
        return torch.cat([net.logits(part, x, s) for net, part in self._parts(w)], dim=-1)

    def vjp(self, w: Tensor, x: Tensor, s: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        each = [net.vjp(part, x, s) for net, part in self._parts(w)]
        widths = [z.shape[-1] for z, _ in each]

        def pullback(slope: Tensor) -> Tensor:
            slopes = torch.split(slope, widths, dim=-1)
            grads = [back(part.contiguous()) for (_, back), part in zip(each, slopes, strict=True)]
            return torch.cat(grads, dim=1)

        return torch.cat([z for z, _ in each], dim=-1), pullback

    def settle(self, w: Tensor, batches: Callable[[], Iterable[Tensor]]) -> Tensor:
        return torch.cat([net.settle(part, batches) for net, part in self._parts(w)], dim=1)

    def design(self, x: Tensor, s: Tensor) -> Tensor:
        """Return the design of both: a head made by `like` has the network's form."""
        return self.network.design(x, s)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "both", "network": self.network.to_dict(), "head": self.head.to_dict()}

    def buffers(self) -> dict[str, Tensor]:
        return self.network.buffers()

    def _parts(self, w: Tensor) -> list[tuple[Network, Tensor]]:
        """Return the networks, each with its part of every row."""
        end = self.network.size
        return [(self.network, w[:, :end]), (self.head, w[:, end:])]
