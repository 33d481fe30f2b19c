"""Columns as they are, for trees: one input for each, and the levels of a category in an order.

A tree asks whether an input is above a number. Of a column that `Piecewise` makes 500 inputs of it
asks about one level at a time; here it asks about all levels that the label goes with more often.
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

USUAL = 10  # people with the label as often as everybody, who are counted with every level


@dataclass(frozen=True)
class Ordered(PackedColumns):
    """One input for each column: a number's place among its knots, or the rate of a level.

    `rates` says of each category how often its levels, one that is unknown, and an empty cell go
    with the label 1. An empty cell of a number is at -1, below all places.
    """

    rates: dict[str, tuple[float, ...]]

    def __post_init__(self) -> None:
        super().__post_init__()
        numbers = {name: len(column.names) + 2 for name, column in self.categories.items()}
        if numbers != {name: len(each) for name, each in self.rates.items()}:
            raise InputError("This encoder is damaged: its levels and their rates do not match.")

    @classmethod
    def by_label(cls, encoder: Piecewise, packed: np.ndarray, y: np.ndarray) -> Ordered:
        """Count the labels of some people, `packed` by the encoder."""
        usual, rates = y.mean(), {}
        for k, (name, column) in enumerate(encoder.categories.items(), len(encoder.numbers)):
            last = len(column.names) + 1  # where empty cells, at -1, are counted
            place = packed[:, k].astype(np.int64) % (last + 1)
            people, ones = (np.bincount(place, each, last + 1) for each in (np.ones(len(y)), y))
            rates[name] = tuple(((ones + USUAL * usual) / (people + USUAL)).tolist())
        return cls(encoder.numbers, encoder.categories, rates)

    @property
    def width(self) -> int:
        return len(self.columns)

    def unpack(self, packed: Tensor) -> Tensor:
        """The inputs of trees, ``(..., columns)``, of what `pack` made."""
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
    def from_dict(cls, about: Mapping[str, Any]) -> Ordered:
        of = Piecewise.from_dict(about)
        rates = {name: tuple(each) for name, each in about["rates"].items()}
        return cls(of.numbers, of.categories, rates)
