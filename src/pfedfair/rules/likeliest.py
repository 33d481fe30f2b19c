"""The usual rule: the likeliest label by the scores."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from pfedfair.models.cells import probabilities
from pfedfair.rules.base import Rule


class Likeliest(Rule):
    """Decide for the label with the largest score; S does not matter.

    Where a head's guess of S follows the scores, `outputs` is the number of scores.
    """

    def __init__(self, numbers: Tensor | None = None, outputs: int | None = None) -> None:
        self.numbers, self.outputs = torch.zeros(0), outputs

    def decide(self, logits: Tensor, s: Tensor, rng: np.random.Generator) -> Tensor:
        scores = logits[:, : self.outputs]
        return scores.argmax(1) if scores.shape[1] > 1 else (scores[:, 0] > 0).long()

    def draw_chances(self, logits: Tensor, s: Tensor) -> Tensor:
        """Return 1 for the decision and 0 for the others: none is drawn."""
        width = logits[:, : self.outputs].shape[1]
        decided = self.decide(logits, s, np.random.default_rng(0))
        return one_hot(decided, max(width, 2)).to(logits)

    def chances(self, logits: Tensor, s: Tensor) -> Tensor:
        """Return the probabilities of the labels by the scores."""
        return probabilities(logits[:, : self.outputs])

    def applied(self, labels: Sequence[str], groups: Sequence[str]) -> list[str]:
        return ["0.500" if len(labels) == 2 else "the largest score"] * len(groups)

    def words(self, labels: Sequence[str], groups: Sequence[str]) -> list[str]:
        if len(labels) == 2:
            return [f"Decide {labels[1]} if the score is above 0.5."]
        return ["Decide for the label with the largest score."]

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "outputs": self.outputs}
