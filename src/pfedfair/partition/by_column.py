"""Natural clients: one for each value of a column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError, has_column, option, shorten
from pfedfair.data.dataset import Dataset
from pfedfair.data.tables.cells import factor
from pfedfair.partition.base import Partition, Plan, Rows, hold_out

FEWEST = 20  # rows of a client, unless `min_rows` is given
UNKNOWN = "?"
NAMED = 10  # clients that a note names


@dataclass(frozen=True)
class ByColumn(Plan):
    """One client per value of a column; a part `test` of its rows is held out for the test.

    With `rows` a client trains on at most that many, and the rest is for the test. With `min_rows`
    clients with fewer rows are left out; without it, fewer than 20 are refused. Where the data
    reserves rows for the test, only the others count.
    """

    column: str
    test: float = 0.25
    validation: float = 0.0
    min_rows: int | None = None
    rows: int | None = None

    def __post_init__(self) -> None:
        if self.min_rows is not None and self.min_rows < 1:
            raise InputError(f"min_rows must be at least 1, got {self.min_rows}.")
        super().__post_init__()

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
        if data.person and self.column == data.person:
            raise InputError(
                f"Column '{self.column}' says whose a row is: it cannot make clients, too, as all "
                "rows of a client would be on one side of every split."
            )
        clients = clients_of(data.cells_of(self.column))
        able = np.ones(len(data), bool) if data.held is None else ~data.held
        size = {name: int(able[rows].sum()) for name, rows in clients.items()}
        small = [name for name in clients if size[name] < (self.min_rows or FEWEST)]
        if small and self.min_rows is None:
            raise InputError(self._too_small(small[0], size[small[0]], len(clients[small[0]])))
        if len(small) == len(clients):
            raise InputError(f"No client of column '{self.column}' has {self.min_rows} rows.")
        excluded = set(small)
        large = {name: rows for name, rows in clients.items() if name not in excluded}
        dealt = hold_out(data, large, self.test, self.validation, seed, self.rows)
        notes = self._left_out(small, size) if small else ()
        return replace(dealt, notes=notes, column=self.column)

    def _too_small(self, name: str, train: int, rows: int) -> str:
        """Say that a client has too few rows to train on, and what to do."""
        of_test = f" ({rows - train:,} are for the test)" if rows > train else ""
        number = f"{train} training rows" if train else "no training rows"
        return (
            f"Client '{shorten(name)}' of column '{self.column}' has {number}{of_test}, "
            f"at least {FEWEST} are needed: merge it with another or drop it, or leave small "
            f"clients out, as {option('min_rows', FEWEST)} does."
        )

    def _left_out(self, small: list[str], size: dict[str, int]) -> tuple[str, ...]:
        named = ", ".join(f"{name} ({size[name]})" for name in small[:NAMED])
        more = f" and {len(small) - NAMED} more" if len(small) > NAMED else ""
        what = "client is" if len(small) == 1 else "clients are"
        rows = sum(size[name] for name in small)
        return (
            f"{len(small)} {what} left out, with fewer than {self.min_rows} rows ({rows:,} "
            f"rows in all): {named}{more}.",
        )


def clients_of(column: pd.Series[Any]) -> dict[str, Rows]:
    """Return the rows of each client by its name, in the order of names.

    Equal names are one client, however a program read them; a name is spelt as in the column if
    all its cells are spelt alike. "?" is the name of a client like any other.
    """
    codes, words = factor(column)
    unknown = (column.astype(str).str.strip() == UNKNOWN).to_numpy(bool)
    if unknown.any():
        codes, words = np.where(unknown, len(words), codes), [*words, UNKNOWN]
    if (missing := int((codes == -1).sum())) > 0:
        raise InputError(
            f"The client column '{column.name}' has {missing} missing values: fill them."
        )
    if not pd.api.types.is_numeric_dtype(column):
        spelled = column.astype(str).str.strip().groupby(codes).agg(["first", "nunique"])
        alike = spelled["nunique"].to_numpy() == 1
        words = [
            s if same else w for s, same, w in zip(spelled["first"], alike, words, strict=True)
        ]
    order = np.argsort(codes, kind="stable")
    rows = np.split(order, np.cumsum(np.bincount(codes))[:-1])
    found = dict(zip(words, rows, strict=True))
    return {name: found[name] for name in sorted(found)}
