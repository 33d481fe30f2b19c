"""An ensemble of decision trees as one flat row of numbers, stored like any network.

A row is ``trees`` x ``nodes`` x 5 numbers and one more. Of every node: the number of its input,
the threshold (a sample at or below it goes left, else right), the numbers of the nodes to the left
and to the right, and the value. A leaf leads to itself. The score, a log-odds, is the sum of the
values of the leaves that a sample reaches, and the last number. An empty row scores 0.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfedfair._util.errors import InputError
from pfedfair.models.base import Network, with_group

FIELDS = 5  # input, threshold, left, right, value


class Trees(Network):
    """At most `trees` trees of at most `nodes` nodes; with `groups` S is the last input."""

    def __init__(self, trees: int, nodes: int, groups: int = 0) -> None:
        self.trees, self.nodes, self.groups = trees, nodes, groups
        self.size = trees * nodes * FIELDS + 1
        self.words = f"up to {trees} trees"

    def init(self, rng: np.random.Generator) -> Tensor:
        return torch.zeros(self.size)

    def pack(self, trees: list[np.ndarray], base: float) -> Tensor:
        """Flatten trees into a row, each ``(nodes, 5)`` as above.

        Thresholds are rounded down to single precision: inputs of single precision then take
        the same way.
        """
        row = np.zeros((self.trees, self.nodes, FIELDS))
        for tree, nodes in zip(row, trees, strict=False):
            tree[: len(nodes)] = nodes
        single = row.astype(np.float32)
        up = single[..., 1] > row[..., 1]
        single[..., 1] = np.where(up, np.nextafter(single[..., 1], -np.inf), single[..., 1])
        return torch.from_numpy(np.append(single.ravel(), np.float32(base)))

    def logits(self, w: Tensor, x: Tensor, s: Tensor) -> Tensor:
        x = with_group(x.flatten(2), s, self.groups)
        total = w[:, -1:].expand(x.shape[:2]).clone()
        for tree in w[:, :-1].view(-1, self.trees, self.nodes, FIELDS).unbind(1):
            if not tree.any():  # an empty one, and so are those behind it
                break
            where, threshold, left, right, value = tree.unbind(-1)
            where, left, right = where.long(), left.long(), right.long()
            node = torch.zeros(x.shape[:2], dtype=torch.long)
            for _ in range(self.nodes):
                seen = x.gather(2, where.gather(1, node).unsqueeze(2))[..., 0]
                low = seen <= threshold.gather(1, node)
                after = torch.where(low, left.gather(1, node), right.gather(1, node))
                if torch.equal(after, node):
                    break
                node = after
            total += value.gather(1, node)
        return total.unsqueeze(-1)

    def vjp(self, w: Tensor, x: Tensor, s: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        raise InputError("Trees are grown, not trained by gradients: take an MLP or linear.")

    def to_dict(self) -> dict[str, Any]:
        about = {"trees": self.trees, "nodes": self.nodes, "groups": self.groups}
        return {"kind": "trees", **about}
