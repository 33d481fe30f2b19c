"""What cells of encoded columns make of a network's inputs, place by place."""

from typing import NamedTuple

import numpy as np
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


RANGE = np.dtype(
    [*((name, np.int64) for name in ("low", "high", "first", "last")),
     *((name, np.float64) for name in ("factor", "scale"))]
)  # fmt: skip


class Ranges(NamedTuple):
    """The same for all columns in a shorter way: places are numbered through them.

    Column k has the places from ``starts[k]`` to ``starts[k + 1]``, and cells may be `between`
    places. Each input is `scale` times (1 at the places from `low` to `high`, and `factor` at those
    from `first` to `last`), ends left out; `each` has these numbers.
    """

    starts: np.ndarray
    between: np.ndarray
    each: np.ndarray

    def by_column(self) -> tuple[np.ndarray, np.ndarray]:
        """The inputs column after column, and where each column's begin, and the end."""
        low, high, first, last = (self.each[name] for name in ("low", "high", "first", "last"))
        place = np.where(high > low, low, np.where(last > first, first, 0))  # one of its own
        column = np.searchsorted(self.starts, place, side="right") - 1
        order = np.argsort(column, kind="stable")
        return order, np.searchsorted(column[order], np.arange(len(self.starts)))
