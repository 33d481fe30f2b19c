"""Cross-entropy of logits: what `Newton` needs of it, person by person."""

import torch
from torch import Tensor

from pfedfair.federation import Batch
from pfedfair.penalties.objective import losses

PARTS = torch.tensor([*(0.5**k for k in range(8)), 0.0], dtype=torch.float64)  # of a step


def loss_of(z: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy of every person, ``(points, n)``."""
    y = y.to(z.dtype).expand(z.shape[:2])
    return losses(z, Batch(z, y, y, y))


def chances(z: Tensor) -> Tensor:
    """The chance of each output's class, ``(..., outputs)``: of the second, if there is one."""
    return torch.sigmoid(z) if z.shape[-1] == 1 else z.softmax(-1)


def added(each: Tensor, much: Tensor | None) -> Tensor:
    """The sum over people ``(..., n)`` who count so `much`, if not 1."""
    return (each if much is None else much * each).sum(-1)


def misses(chance: Tensor, y: Tensor, much: Tensor | None = None) -> Tensor:
    """d(loss)/d(logits), ``(..., n, outputs)``, of people who count so `much`."""
    width = chance.shape[-1]
    right = y[:, None] == torch.arange(1 if width == 1 else 0, max(width, 2))
    found = chance - right.to(chance)
    return found if much is None else found * much[:, None]


def spread(chance: Tensor) -> Tensor:
    """d2(loss)/d(logits)2, ``(n, outputs, outputs)``."""
    if chance.shape[-1] == 1:
        return (chance * (1 - chance)).unsqueeze(-1)
    return torch.diag_embed(chance) - chance.unsqueeze(-1) * chance.unsqueeze(-2)
