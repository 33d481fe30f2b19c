"""How one flat row of numbers becomes a classifier.

A network computes the outputs of many models at once. ``w`` is ``(rows, p)``, one model per row;
``x`` is ``(rows, n, d)``; logits are ``(rows, n, 1)`` for two classes, else one for each class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from torch import Tensor

from pfedfair.networks.bias import Bias
from pfedfair.networks.cells import Cells, outputs, probabilities
from pfedfair.networks.linear import linear
from pfedfair.networks.lookup import Lookup
from pfedfair.networks.mlp import MLP
from pfedfair.networks.module import Module
from pfedfair.networks.thresholds import Thresholds

__all__ = [
    "MLP",
    "Bias",
    "Cells",
    "Kinds",
    "Lookup",
    "Module",
    "Network",
    "Thresholds",
    "linear",
    "outputs",
    "probabilities",
]


@dataclass(frozen=True)
class Kinds:
    """What people differ in: the numbers of groups and classes, and whether S is an input."""

    groups: int = 2
    classes: int = 2
    aware: bool = True


class Network(Protocol):
    """The contract of a network."""

    @property
    def size(self) -> int:
        """The number of parameters p of one model."""

    def init(self, rng: np.random.Generator) -> Tensor:
        """Draw the parameters of one model, ``(p,)``."""

    def logits(self, w: Tensor, x: Tensor) -> Tensor:
        """Compute the outputs of every row's model on every row's inputs."""

    def vjp(self, w: Tensor, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Compute the logits, and the map from d(loss)/d(logits) to d(loss)/d(w), ``(rows, p)``."""
