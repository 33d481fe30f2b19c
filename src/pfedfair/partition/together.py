"""Nobody is apart: all rows in one place, for centralised training."""

from dataclasses import dataclass

import numpy as np

from pfedfair.data.dataset import Dataset
from pfedfair.partition.base import Partition, Plan, hold_out


@dataclass(frozen=True)
class Together(Plan):
    """One client with all rows, of which it keeps a part `test` for the test."""

    test: float = 0.25
    validation: float = 0.0

    column = None
    words = "together"

    def split(self, data: Dataset, seed: int) -> Partition:
        rows = {"everybody": np.arange(len(data))}
        return hold_out(data, rows, self.test, self.validation, seed)
