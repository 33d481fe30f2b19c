"""A network, and a table that says how to decide in each cell of its outputs.

For decisions that no threshold describes: among more than two classes, or where S is not known when
decisions are made and a second network, the head, guesses it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from pfedfair.networks.cells import Cells
from pfedfair.networks.thresholds import group_of

if TYPE_CHECKING:
    from pfedfair.networks import Network


class Lookup:
    """Decisions by the cell that a person's outputs are in.

    A row is the network's row, the head's, and the probability of every decision in every cell for
    each of `tables` (one for each group, or one for all if S is not an input). The logits are the
    network's, then the head's. Training leaves the tables alone.
    """

    def __init__(self, network: Network, head: Network | None, cells: Cells, tables: int) -> None:
        self.network, self.head, self.cells, self.tables = network, head, cells, tables
        self.rule_size = tables * cells.number * cells.classes
        self.size = network.size + (head.size if head else 0) + self.rule_size

    def init(self, rng: np.random.Generator) -> Tensor:
        nets = [network.init(rng) for network in (self.network, self.head) if network]
        return torch.cat([*nets, torch.zeros(self.rule_size)])

    def logits(self, w: Tensor, x: Tensor) -> Tensor:
        return torch.cat([net.logits(part, x) for net, part in self._parts(w)], dim=-1)

    def vjp(self, w: Tensor, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        each = [net.vjp(part, x) for net, part in self._parts(w)]
        widths = [z.shape[-1] for z, _ in each]

        def pull(slope: Tensor) -> Tensor:
            slopes = torch.split(slope, widths, dim=-1)
            grads = [back(s.contiguous()) for (_, back), s in zip(each, slopes, strict=True)]
            return pad(torch.cat(grads, dim=1), (0, self.rule_size))

        return torch.cat([z for z, _ in each], dim=-1), pull

    def rule(self, w: Tensor) -> Tensor:
        """Probabilities of decisions, ``(rows, tables, cells, classes)``."""
        table = w[:, -self.rule_size :]
        return table.reshape(-1, self.tables, self.cells.number, self.cells.classes)

    def chances(self, w: Tensor, x: Tensor) -> Tensor:
        """The probabilities of every person's decisions, ``(rows, n, classes)``."""
        place = self.cells.place(self.logits(w, x))
        if self.tables > 1:
            place = place + self.cells.number * group_of(x, self.tables)
        flat = self.rule(w).flatten(1, 2)
        return torch.take_along_dim(flat, place[..., None], 1)

    def _parts(self, w: Tensor) -> list[tuple[Network, Tensor]]:
        """The networks, each with its part of every row."""
        end = self.network.size
        both = [(self.network, w[:, :end])]
        if self.head:
            both.append((self.head, w[:, end : end + self.head.size]))
        return both
