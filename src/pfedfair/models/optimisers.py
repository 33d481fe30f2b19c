"""Steps on a stack of models: called with ``w``, which is updated in place, and its gradient.

Moments start at zero with every new step and belong to one row each, so a stack of clients moves
exactly as each client would on its own.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.optim.adam import adam


class Step:
    """Gradient descent, on the objective + ridge/2 |w|^2."""

    def __init__(self, lr: float, ridge: float = 0.0) -> None:
        self.lr, self.ridge = lr, ridge

    def __call__(self, w: Tensor, grad: Tensor) -> None:
        if self.ridge:
            grad = grad.add(w, alpha=self.ridge)
        w.add_(grad, alpha=-self.lr)


class Adam(Step):
    """Adam (Kingma and Ba 2015), PyTorch's own, on the objective + ridge/2 |w|^2."""

    def __init__(self, lr: float, ridge: float = 0.0) -> None:
        super().__init__(lr, ridge)
        self.m = self.v = self.t = torch.empty(0)  # moments and the number of steps

    def __call__(self, w: Tensor, grad: Tensor) -> None:
        if self.m.shape != w.shape:
            self.m, self.v, self.t = torch.zeros_like(w), torch.zeros_like(w), torch.zeros(())
        adam(
            [w], [grad], [self.m], [self.v], [], [self.t], fused=True, amsgrad=False,
            lr=self.lr, beta1=0.9, beta2=0.999, weight_decay=self.ridge, eps=1e-8, maximize=False,
        )  # fmt: skip


OPTIMISERS: dict[str, Callable[..., Step]] = {"sgd": Step, "adam": Adam}
