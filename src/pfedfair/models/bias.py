"""The smallest network: the same outputs, whatever the input. It is the constant classifier."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfedfair.models.base import Network


class Bias(Network):
    """Every row's parameters are its logits."""

    words = "constant"

    def __init__(self, outputs: int = 1) -> None:
        self.size = outputs

    def init(self, rng: np.random.Generator) -> Tensor:
        return torch.zeros(self.size)

    def logits(self, w: Tensor, x: Tensor, s: Tensor) -> Tensor:
        return w[:, None, :].expand(len(w), x.shape[1], self.size)

    def vjp(self, w: Tensor, x: Tensor, s: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        return self.logits(w, x, s), lambda slope: slope.sum(1)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "bias", "outputs": self.size}
