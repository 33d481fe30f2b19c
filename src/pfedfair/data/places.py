"""What cells of encoded columns make of a network's inputs, place by place."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor


class Places(NamedTuple):
    """What cells of a column make of its inputs.

    Row j of the `table` ``(places, inputs)`` is what a cell at place j does, the last row what an
    empty one does; cells may be `between` two places, and their inputs are then, too. At each of
    the first places, as many as there are `levels`, one input is 1 and the others are 0.
    """

    inputs: Tensor
    table: Tensor
    between: bool
    levels: int

    def narrow(self, sums: Tensor) -> Tensor:
        """From sums at places ``(places, ...)`` to sums of inputs ``(inputs, ...)``."""
        found = self.table[self.levels :].T @ sums[self.levels :]
        found[: self.levels] += sums[: self.levels]
        return found


def joined(columns: Sequence[Places]) -> Tensor:
    """What the places of all columns make of all inputs, ``(places, inputs)``."""
    ends = [0, *accumulate(len(column.table) for column in columns)]
    found = torch.zeros(ends[-1], sum(len(column.inputs) for column in columns)).double()
    for column, start, stop in zip(columns, ends[:-1], ends[1:], strict=True):
        found[start:stop, column.inputs] = column.table
    return found
