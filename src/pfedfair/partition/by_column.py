"""Clients that the data has: one for each value of a column."""

from dataclasses import dataclass, replace

import numpy as np

from pfedfair.data.dataset import Dataset
from pfedfair.errors import InputError, has_column
from pfedfair.partition.base import Partition, Plan, hold_out


@dataclass(frozen=True)
class ByColumn(Plan):
    """One client per value of a column; each keeps a part `test` of its own rows for the test.

    With `rows` a client trains on so many at the most, and all its others are for the test.
    """

    column: str
    test: float = 0.25
    validation: float = 0.0
    min_rows: int = 20
    rows: int | None = None

    @property
    def words(self) -> str:
        return f"by {self.column}" + (f", {self.rows:,} rows each" if self.rows else "")

    def split(self, data: Dataset, seed: int) -> Partition:
        has_column(self.column, data.frame, "to make clients of")
        if self.column in (data.label_column, *data.sensitive_column.split(",")):
            raise InputError(
                f"Column '{self.column}' is the label or the sensitive attribute: it cannot say "
                "which client a row belongs to."
            )
        column = data.frame[self.column]
        if column.isna().any():
            raise InputError(f"The client column '{self.column}' has empty cells: fill them.")
        column = column.astype(str)
        clients = {name: np.flatnonzero(column == name) for name in sorted(column.unique())}
        for name, rows in clients.items():
            if len(rows) < self.min_rows:
                raise InputError(
                    f"Client '{name}' of column '{self.column}' has {len(rows)} rows, "
                    f"at least {self.min_rows} are needed: merge or drop it."
                )
        dealt = hold_out(data, clients, self.test, self.validation, seed, self.rows)
        return replace(dealt, column=self.column)
