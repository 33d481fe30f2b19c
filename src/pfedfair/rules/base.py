"""What a rule is, and what rules share."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor


class Rule(Protocol):
    """The contract of a rule."""

    numbers: Tensor  # all numbers of the rule
    facts: Mapping[str, float] = MappingProxyType({})  # what its method knows of it; not saved

    def chances(self, logits: Tensor, s: Tensor) -> Tensor:
        """Return the chance of every decision for everybody, ``(n, classes)``."""

    def draw_chances(self, logits: Tensor, s: Tensor) -> Tensor:
        """Return with what chance each decision is drawn, ``(n, classes)``; 0 or 1 if it is not."""
        return self.chances(logits, s)

    def words(self, labels: Sequence[str], groups: Sequence[str]) -> list[str]:
        """Say what the rule does, a line for each thing."""

    def decide(self, logits: Tensor, s: Tensor, rng: np.random.Generator) -> Tensor:
        """Return everybody's decision, ``(n,)``; random ones are drawn from `rng`."""
        return draw(self.chances(logits, s), rng)

    @property
    def draws(self) -> bool:
        """Whether some decisions are drawn at random."""
        return False

    def applied(self, labels: Sequence[str], groups: Sequence[str]) -> list[str]:
        """Say in a few characters what decides on people of each group."""
        return ["a table of chances"] * len(groups)

    def table(self) -> dict[str, float]:
        """Return what of the rule fits into a table, by the names of its columns."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Describe the rule, but for its numbers, for `from_dict`."""
        return {"kind": type(self).__name__.lower()}


def draw(chances: Tensor, rng: np.random.Generator) -> Tensor:
    """Draw everybody's decision from its chances, ``(n, classes)`` to ``(n,)``."""
    return decide_by(chances, rng.random(len(chances)))


def decide_by(chances: Tensor, draws: np.ndarray) -> Tensor:
    """Return decisions ``(n,)`` by a random number in [0, 1) for each row: a low one is for 1."""
    least = chances.double().flip(-1).cumsum(-1).flip(-1)  # of this class or a later one
    return (torch.from_numpy(draws)[:, None] < least[:, 1:]).sum(1)
