"""Steps on a stack of models. Each maker returns a function that updates ``w`` in place.

Moments start at zero with every maker's call and belong to one row each, so a stack of clients
moves exactly as each client would alone.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Step = Callable[[Tensor, Tensor], None]


def sgd(lr: float) -> Step:
    """Plain gradient descent."""

    def step(w: Tensor, grad: Tensor) -> None:
        w.add_(grad, alpha=-lr)

    return step


def adam(lr: float, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8) -> Step:
    """Adam (Kingma and Ba 2015), as ``torch.optim.Adam`` computes it."""
    t = 0
    m = v = torch.empty(0)

    def step(w: Tensor, grad: Tensor) -> None:
        nonlocal t, m, v
        if t == 0:
            m, v = torch.zeros_like(w), torch.zeros_like(w)
        t += 1
        m.lerp_(grad, 1 - beta1)
        v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        scale = v.sqrt().div_((1 - beta2**t) ** 0.5).add_(eps)
        w.addcdiv_(m, scale, value=-lr / (1 - beta1**t))

    return step


OPTIMISERS: dict[str, Callable[[float], Step]] = {"sgd": sgd, "adam": adam}
