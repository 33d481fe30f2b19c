"""A threshold on the score for each group, of two classes."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pfedfair.rules.base import Rule

PARTS = ("low", "high", "chance", "below")


class Thresholds(Rule):
    """Decide 1 from `high` on; from `low` on with `chance`; below that with `below`, mostly 0.

    Attributes
    ----------
    numbers
        ``(groups, 4)``: low and high as logits, chance and below.
    """

    def __init__(self, numbers: Tensor) -> None:
        self.numbers = numbers

    def chances(self, logits: Tensor, s: Tensor) -> Tensor:
        z = logits[:, 0]
        low, high, chance, below = self.numbers[s].unbind(-1)
        positive = torch.where(z >= high, 1.0, torch.where(z < low, below, chance))
        return torch.stack([1 - positive, positive], dim=-1)

    def words(self, labels: Sequence[str], groups: Sequence[str]) -> list[str]:
        lines = [
            f"Decide {labels[1]} if the score is above the threshold of the row's group; "
            "between two numbers the decision is drawn at random."
        ]
        return lines + [f"{name}: {self.cell(z)}" for z, name in enumerate(groups)]

    @property
    def draws(self) -> bool:
        low, high, chance, below = self.numbers.unbind(-1)
        between = (low < high) & (chance > 0) & (chance < 1)
        under = (below > 0) & (below < 1) & (low > float("-inf"))
        return bool((between | under).any())

    def applied(self, labels: Sequence[str], groups: Sequence[str]) -> list[str]:
        return [self.cell(z) for z in range(len(groups))]

    def cell(self, z: int) -> str:
        """Return a group's threshold on the score, or the ends of the range of random decisions."""
        low, high = torch.sigmoid(self.numbers[z, :2]).tolist()
        return threshold(low, high, *self.numbers[z, 2:].tolist())

    def table(self) -> dict[str, float]:
        """Return low and high as scores, chance and below, of each group."""
        ends = torch.sigmoid(self.numbers[:, :2].double())
        each = torch.cat([ends, self.numbers[:, 2:].double()], dim=1).tolist()
        return {f"{part}_s{z}": value for z, row in enumerate(each)
                for part, value in zip(PARTS, row, strict=True)}  # fmt: skip


def threshold(low: float, high: float, chance: float, below: float) -> str:
    """Describe a group's rule in a few characters.

    >>> threshold(0.5, 0.5, 0.0, 0.0), threshold(0.5, 0.502, 0.3, 0.125)
    ('0.500', '0.500-0.502, or 12 % at random')
    >>> threshold(0.4, 1.0, 0.7, 0.0)  # of the rows above it, seven in ten
    '0.400 for 70 % at random'
    """
    draw = f", or {100 * below:.0f} % at random" if below > 0 else ""
    if min(low, high) > 0.999:
        return draw.removeprefix(", or ") or "never"
    if max(low, high) < 0.001:
        return "always"
    if low < 0.001 and chance > 0:
        return f"{high:.3f}, or {100 * chance:.0f} % at random"
    if high > 0.999:
        return f"{low:.3f} for {100 * chance:.0f} % at random{draw}"
    return f"{low:.3f}{draw}" if high == low else f"{low:.3f}-{high:.3f}{draw}"
