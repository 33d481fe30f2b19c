"""What a network is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from pfedfair.errors import InputError


class Network(Protocol):
    """The contract of a network."""

    size: int  # the number of parameters p of one model
    words: str  # what it is, for tables

    def init(self, rng: np.random.Generator) -> Tensor:
        """Draw the parameters of one model, ``(p,)``."""

    def logits(self, w: Tensor, x: Tensor, s: Tensor) -> Tensor:
        """Compute the outputs of every row's model on every row's people."""

    def vjp(self, w: Tensor, x: Tensor, s: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Compute the logits, and the map from d(loss)/d(logits) to d(loss)/d(w), ``(rows, p)``."""

    def like(self, outputs: int) -> Network:
        """Return a network of the same form with other outputs, to guess S where it is not told."""
        raise InputError(f"{self.words} cannot guess S, which this needs: take linear or an MLP.")

    def to_dict(self) -> dict[str, Any]:
        """Describe the network for `from_dict`, as JSON can hold it."""

    def buffers(self) -> dict[str, Tensor]:
        """Numbers that belong to the network and are not trained."""
        return {}
