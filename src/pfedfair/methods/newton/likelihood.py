"""Cross-entropy of logits and its derivatives, row by row."""

import torch
from torch import Tensor

from pfedfair.federation import Batch
from pfedfair.penalties.objective import losses

PARTS = torch.tensor([*(0.5**k for k in range(8)), 0.0], dtype=torch.float64)  # of a Newton step


def loss_of(z: Tensor, y: Tensor) -> Tensor:
    """Return every row's cross-entropy ``(points, n)`` by logits ``(points, n, outputs)``."""
    y = y.to(z.dtype).expand(z.shape[:2])
    return losses(z, Batch(z, y, y, y))


def chances(z: Tensor) -> Tensor:
    """Return the chance of each output's class, ``(..., outputs)``; of one output, the second's."""
    return torch.sigmoid(z) if z.shape[-1] == 1 else z.softmax(-1)


def slopes_of(chance: Tensor, y: Tensor) -> Tensor:
    """Return d(loss)/d(logits), ``(..., n, outputs)``."""
    width = chance.shape[-1]
    return chance - (y[:, None] == torch.arange(1 if width == 1 else 0, max(width, 2))).to(chance)


def curvature_of(chance: Tensor) -> Tensor:
    """Return d2(loss)/d(logits)2, ``(n, outputs, outputs)``."""
    if chance.shape[-1] == 1:
        return (chance * (1 - chance)).unsqueeze(-1)
    return torch.diag_embed(chance) - chance.unsqueeze(-1) * chance.unsqueeze(-2)
