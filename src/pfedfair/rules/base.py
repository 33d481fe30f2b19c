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
    facts: Mapping[str, float] = MappingProxyType({})  # what its method can say about it; not saved

    def chances(self, logits: Tensor, s: Tensor) -> Tensor:
        """Return the chance of every decision for each row, ``(n, classes)``."""

    def draw_chances(self, logits: Tensor, s: Tensor) -> Tensor:
        """Return the chances of random draws, ``(n, classes)``: 0 or 1 without a draw."""
        return self.chances(logits, s)

    def words(self, labels: Sequence[str], groups: Sequence[str]) -> list[str]:
        """Describe the rule in words, a line for each part."""

    def decide(self, logits: Tensor, s: Tensor, rng: np.random.Generator) -> Tensor:
        """Return each row's decision, ``(n,)``; random ones are drawn from `rng`."""
        return draw(self.chances(logits, s), rng)

    @property
    def draws(self) -> bool:
        """Whether some decisions are drawn at random."""
        return False

    def applied(self, labels: Sequence[str], groups: Sequence[str]) -> list[str]:
        """Describe in a few characters what decides in each group."""
        return ["a table of chances"] * len(groups)

    def table(self) -> dict[str, float]:
        """Return the rule's numbers for a table, by the names of its columns."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Describe the rule, but for its numbers, for `from_dict`."""
        return {"kind": type(self).__name__.lower()}


def draw(chances: Tensor, rng: np.random.Generator) -> Tensor:
    """Draw each row's decision from its chances, ``(n, classes)`` to ``(n,)``."""
    return decide_by(chances, rng.random(len(chances)))


def decide_by(chances: Tensor, draws: np.ndarray) -> Tensor:
    """Return decisions ``(n,)`` by a random number in [0, 1) for each row: a low one is for 1."""
    least = chances.double().flip(-1).cumsum(-1).flip(-1)  # of this class or a later one
    return (torch.from_numpy(draws)[:, None] < least[:, 1:]).sum(1)
