"""Rules: how scores, and a person's group, become a decision.

A rule belongs to one client. It is `numbers` (a tensor, kept in safetensors) and a few words (kept
in JSON). Logits are ``(n, outputs)``, groups ``(n,)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from pfedfair.errors import InputError
from pfedfair.rules.likeliest import Likeliest
from pfedfair.rules.lookup import Lookup
from pfedfair.rules.thresholds import Thresholds

__all__ = ["RULES", "Likeliest", "Lookup", "Rule", "Thresholds", "from_dict"]


class Rule(Protocol):
    """The contract of a rule."""

    @property
    def numbers(self) -> Tensor:
        """All numbers of the rule."""

    def decide(self, logits: Tensor, s: Tensor, rng: np.random.Generator) -> Tensor:
        """Return everybody's decision, ``(n,)``; lots, if any, are drawn from `rng`."""

    def chances(self, logits: Tensor, s: Tensor) -> Tensor:
        """Return the chance of every decision for everybody, ``(n, classes)``."""

    def words(self, labels: Sequence[str], groups: Sequence[str]) -> list[str]:
        """Say what the rule does, a line for each thing."""

    def table(self) -> dict[str, float]:
        """Return what of the rule fits into a table, by the names of its columns."""

    def to_dict(self) -> dict[str, Any]:
        """Describe the rule, but for its numbers, for `from_dict`."""


RULES: dict[str, Callable[..., Rule]] = {
    "likeliest": Likeliest,
    "thresholds": Thresholds,
    "lookup": Lookup,
}


def from_dict(about: dict[str, Any], numbers: Tensor) -> Rule:
    """Make a rule from what its `to_dict` said, and its numbers."""
    rest = {key: value for key, value in about.items() if key != "kind"}
    if about["kind"] not in RULES:
        raise InputError(f"Unknown rule '{about['kind']}': it was saved by another version.")
    return RULES[about["kind"]](numbers, **rest)
