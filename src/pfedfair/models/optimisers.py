"""Steps on a stack of models: called with ``w``, which is updated in place, and its gradient.

Moments start at zero with every new step and belong to one row each, so a stack of clients moves
exactly as each client would alone.
"""

from collections.abc import Callable

import torch
from torch import Tensor


class Step:
    """Plain gradient descent, on the objective + ridge/2 |w|^2."""

    adam = False
    beta1 = beta2 = eps = 0.0

    def __init__(self, lr: float, ridge: float = 0.0) -> None:
        self.lr, self.ridge = lr, ridge
        self.made = 0  # steps
        self.m = self.v = torch.empty(0)  # moments, of a method that has some

    def __call__(self, w: Tensor, grad: Tensor) -> None:
        if self.ridge:
            grad = grad.add(w, alpha=self.ridge)
        w.add_(grad, alpha=-self.lr)
        self.made += 1

    def begin(self, w: Tensor) -> None:
        """Make room for what is kept of steps on these models."""


class Adam(Step):
    """Adam (Kingma and Ba 2015), PyTorch's own, fused: one pass over weights and moments.

    On the objective + ridge/2 |w|^2.
    """

    adam = True
    beta1, beta2, eps = 0.9, 0.999, 1e-8

    def __call__(self, w: Tensor, grad: Tensor) -> None:
        self.begin(w)
        self.made += 1
        self.t.fill_(self.made)
        torch._fused_adam_(
            [w], [grad], [self.m], [self.v], [], [self.t],
            lr=self.lr, beta1=self.beta1, beta2=self.beta2, weight_decay=self.ridge, eps=self.eps,
            amsgrad=False, maximize=False,
        )  # fmt: skip

    def begin(self, w: Tensor) -> None:
        if self.m.shape != w.shape:
            self.m, self.v, self.t = torch.zeros_like(w), torch.zeros_like(w), torch.zeros(())
            self.made = 0


OPTIMISERS: dict[str, Callable[..., Step]] = {"sgd": Step, "adam": Adam}
