"""Steps on a stack of models. Each maker returns a function that updates ``w`` in place.

Moments start at zero with every maker's call and belong to one row each, so a stack of clients
moves exactly as each client would alone.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Step = Callable[[Tensor, Tensor], None]


def sgd(lr: float, ridge: float = 0.0) -> Step:
    """Plain gradient descent, on the objective + ridge/2 |w|^2."""

    def step(w: Tensor, grad: Tensor) -> None:
        if ridge:
            grad = grad.add(w, alpha=ridge)
        w.add_(grad, alpha=-lr)

    return step


def adam(
    lr: float, ridge: float = 0.0, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8
) -> Step:
    """Adam (Kingma and Ba 2015), PyTorch's own, fused: one pass over weights and moments.

    On the objective + ridge/2 |w|^2.
    """
    m = v = t = torch.empty(0)

    def step(w: Tensor, grad: Tensor) -> None:
        nonlocal m, v, t
        if m.shape != w.shape:
            m, v, t = torch.zeros_like(w), torch.zeros_like(w), torch.zeros(())
        t.add_(1)
        torch._fused_adam_(
            [w], [grad], [m], [v], [], [t],
            lr=lr, beta1=beta1, beta2=beta2, weight_decay=ridge, eps=eps,
            amsgrad=False, maximize=False,
        )  # fmt: skip

    return step


OPTIMISERS: dict[str, Callable[[float, float], Step]] = {"sgd": sgd, "adam": adam}
