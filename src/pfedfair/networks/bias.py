"""The smallest network: one number, whatever the input. It is the constant classifier."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor


class Bias:
    """Every row's logit is its only parameter."""

    size = 1

    def init(self, rng: np.random.Generator) -> Tensor:
        return torch.zeros(1)

    def logits(self, w: Tensor, x: Tensor) -> Tensor:
        return w[:, :, None].expand(len(w), x.shape[1], 1)

    def vjp(self, w: Tensor, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        return self.logits(w, x), lambda slope: slope.sum(1)
