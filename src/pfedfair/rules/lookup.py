"""A table with the chances of decisions in each cell of a network's outputs.

For decisions that no threshold describes: among more than two classes, or where S is not known when
decisions are made and a head guesses it (`pfedfair.models.Both`).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pfedfair.models.cells import Cells
from pfedfair.rules.base import Rule


class Lookup(Rule):
    """Decide by the cell that a row's outputs are in.

    Attributes
    ----------
    numbers
        ``(tables, cells, classes)``: the chance of every decision in every cell. One table for each
        group, or one for all where S is not known.
    cells
        The settings of `Cells`.
    """

    def __init__(self, numbers: Tensor, cells: Sequence[int]) -> None:
        self.cells = Cells(*cells)
        self.numbers = numbers.view(-1, self.cells.number, self.cells.classes)

    def chances(self, logits: Tensor, s: Tensor) -> Tensor:
        group = s if len(self.numbers) > 1 else torch.zeros_like(s)
        return self.numbers[group, self.cells.locate(logits)]

    @property
    def draws(self) -> bool:
        return bool(((self.numbers > 0) & (self.numbers < 1)).any())

    def words(self, labels: Sequence[str], groups: Sequence[str]) -> list[str]:
        return [
            "The rule is a table: the chance of every decision for each combination of scores.",
            "It has no thresholds to show.",
        ]

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "cells": list(self.cells.settings)}
