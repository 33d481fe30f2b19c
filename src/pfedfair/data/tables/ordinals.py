"""Encode columns for trees: one input for each column, categories ordered by the label.

A tree splits on whether an input exceeds a threshold. A column that `Piecewise` encodes as 500
inputs is split by one category at a time; here by all categories with a higher rate of the label.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfedfair._util.errors import InputError
from pfedfair.data.tables.piecewise import PackedColumns, Piecewise

USUAL = 10  # rows with the overall rate of the label that are added to every category


@dataclass(frozen=True)
class OrderedColumns(PackedColumns):
    """One input for each column: a number's position among its knots, or a category's rate.

    `rates` has for each column the rate of label 1 of its categories, of an unknown one, and of a
    missing value. A missing number is at -1, below all positions.
    """

    rates: dict[str, tuple[float, ...]]

    def __post_init__(self) -> None:
        super().__post_init__()
        numbers = {name: len(column.names) + 2 for name, column in self.categories.items()}
        if numbers != {name: len(each) for name, each in self.rates.items()}:
            raise InputError(
                "This encoder is damaged: its categories and their rates do not match."
            )

    @classmethod
    def by_label(cls, encoder: Piecewise, packed: np.ndarray, y: np.ndarray) -> OrderedColumns:
        """Count the labels of some rows, `packed` by the encoder."""
        usual, rates = y.mean(), {}
        for k, (name, column) in enumerate(encoder.categories.items(), len(encoder.numbers)):
            last = len(column.names) + 1  # where missing values, at -1, are counted
            code = packed[:, k].astype(np.int64) % (last + 1)
            rows, ones = (np.bincount(code, each, last + 1) for each in (np.ones(len(y)), y))
            rates[name] = tuple(((ones + USUAL * usual) / (rows + USUAL)).tolist())
        return cls(encoder.numbers, encoder.categories, rates)

    @property
    def width(self) -> int:
        return len(self.columns)

    def unpack(self, packed: Tensor) -> Tensor:
        """Return the inputs of trees, ``(..., columns)``, of what `pack` returned."""
        found = packed.clone()
        for k, rates in enumerate(self._rates, len(self.numbers)):
            found[..., k] = rates[packed[..., k].long()]  # -1 is the last
        return found

    @cached_property
    def _rates(self) -> list[Tensor]:
        return [torch.tensor(self.rates[name]) for name in self.categories]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "ordered", **asdict(self)}

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> OrderedColumns:
        of = Piecewise.from_dict(about)
        rates = {name: tuple(each) for name, each in about["rates"].items()}
        return cls(of.numbers, of.categories, rates)
