"""Infer the roles of a table's columns: numbers, categories, dates, or no input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import option
from pfedfair.data.tables import dates
from pfedfair.data.tables.cells import factor, floats, is_number
from pfedfair.data.tables.duplicates import Protected, determines, fold_case

DISTINCT = {"text": 0.9, "number": 0.98}  # minimum share of distinct values of an identifier
CLOSE, LONG = 10, 1e6  # of whole numbers: maximum range per row, or minimum of the smallest
FEWEST = {"text": 20, "number": 100}  # rows from which an identifier is recognised
LIKE_A_NAME = "has another value in nearly every row, like a name"
NAMED = 4  # columns that a note names


@dataclass
class Roles:
    """Columns by role, and counts of their odd cells."""

    numeric: list[str] = field(default_factory=list)
    categorical: list[str] = field(default_factory=list)
    dates: dict[str, list[str]] = field(default_factory=dict)
    excluded: dict[str, str] = field(default_factory=dict)  # columns, and why
    empty: dict[str, int] = field(default_factory=dict)
    words: dict[str, int] = field(default_factory=dict)  # cells that should be numbers
    no_dates: dict[str, int] = field(default_factory=dict)  # cells that should be dates
    determined: list[tuple[str, str]] = field(default_factory=list)  # input, what it determines

    def notes(self) -> tuple[str, ...]:
        """Return notes on columns with special treatment."""
        notes = []
        if self.empty:
            total = sum(self.empty.values())
            notes.append(
                f"{total:,} missing value{'s' * (total > 1)} ({_some(self.empty)}): where training "
                "rows have such, they have an input of their own."
            )
        if self.words:
            notes.append(
                f"Some cells are no finite numbers, and count as empty ({_some(self.words)}): "
                f"{option('categorical')} makes categories of such a column."
            )
        if self.no_dates:
            notes.append(
                f"Some cells are no dates, and count as empty ({_some(self.no_dates)}): "
                f"{option('categorical')} makes categories of such a column."
            )
        if self.dates:
            named = ", ".join(f"'{c}'" for c in self.dates)
            notes.append(f"Dates are taken apart into year, month, weekday and hour: {named}.")
        for column, what in self.determined:
            notes.append(
                f"'{column}' determines {what}: with each of its values there is one of "
                f"{what}. {option('drop', column)} if the model should not know it."
            )
        if self.excluded:
            named = "; ".join(f"'{c}' {why}" for c, why in self.excluded.items())
            notes.append(f"Left out: {named}; {option('keep')} takes a column all the same.")
        return tuple(notes)


def sort_out(
    frame: pd.DataFrame,
    inputs: Sequence[str],
    codes: Sequence[str],
    keep: Sequence[str],
    protected: Sequence[Protected],
    part: bool,
    odd: Mapping[str, int],
) -> Roles:
    """Infer the role of each of the `inputs`, whose numbers and dates are converted.

    `codes` are always categories; columns in `keep` are never excluded. No input may be a copy of
    a `protected` column. A `part` of a table supports fewer conclusions. `odd` are numbers of
    cells that could not be converted.
    """
    roles = Roles()
    for name in inputs:
        column = frame[name]
        kind, cells, words = _kind(column, name in codes)
        numbers = pd.factorize(cells)[0] if kind == "number" else cells  # -1 where there is none
        different = int(numbers.max(initial=-1)) + 1
        empty = int((numbers == -1).sum())
        if name not in keep:
            why = "" if name in codes else identifier(kind, cells, different, part)
            forms = [(numbers, different), *fold_case(cells, words)]
            copied = (one.name for one in protected if one.is_copied(forms, column, kind))
            why = why or next((f"is a copy of {what}" for what in copied), "")
            why = why or ("is empty" if empty == len(frame) and not part else "")
            constant = not part and not empty and len(frame) > 1 and different == 1
            why = why or ("is the same in every row" if constant else "")
            if why:
                roles.excluded[name] = why
                continue
            for one in protected:
                if determines(numbers, different, one.codes, one.n):
                    roles.determined.append((name, one.name))
        if kind == "number":
            roles.numeric.append(name)
            if n := odd.get(name, 0) + _infinite(column):
                roles.words[name] = n
        elif kind == "text":
            roles.categorical.append(name)
        else:
            parts = dates.parts_of(column, every=part)
            if not parts:
                roles.excluded[name] = "has one date"
                continue
            roles.dates[name] = parts
            if n := odd.get(name, 0):
                roles.no_dates[name] = n
            roles.numeric += [dates.name_of(name, p) for p in parts if p == "year"]
            roles.categorical += [dates.name_of(name, p) for p in parts if p != "year"]
        blank = empty - roles.words.get(name, 0) - roles.no_dates.get(name, 0)
        if blank:
            roles.empty[name] = blank
    return roles


def _kind(column: pd.Series[Any], code: bool) -> tuple[str, np.ndarray, Sequence[str]]:
    """Return a column's kind (number, text, date), its cells as numbers or codes, its words."""
    if is_number(column) and not code:
        return "number", floats(column), ()
    if pd.api.types.is_datetime64_any_dtype(column) and not code:
        return "date", pd.factorize(column)[0], ()
    return "text", *factor(column)


def _infinite(column: pd.Series[Any]) -> int:
    if not pd.api.types.is_float_dtype(column):
        return 0
    return int(np.isinf(column.to_numpy(np.float64, na_value=np.nan)).sum())


def identifier(kind: str, cells: np.ndarray, different: int, part: bool) -> str:
    """Return why a column with so many `different` values is an identifier, or "".

    Whole numbers must also be dense, like a counter, or long. In a part of a table this cannot be
    inferred: there incomes may all be distinct.
    """
    if kind == "date" or (kind == "number" and part):
        return ""
    present = cells[~np.isnan(cells)] if kind == "number" else cells[cells >= 0]
    if len(present) < FEWEST[kind] or different < DISTINCT[kind] * len(present):
        return ""
    if kind == "number":
        close = np.ptp(present) <= CLOSE * len(present)
        if (present % 1 != 0).any() or not (close or present.min() >= LONG):
            return ""
    return LIKE_A_NAME


def _some(counts: dict[str, int]) -> str:
    """Name the columns with the largest counts."""
    most = sorted(counts, key=lambda c: -counts[c])
    named = ", ".join(f"{c} {counts[c]:,}" for c in most[:NAMED])
    rest = len(most) - NAMED
    return f"{named} and {rest} other column{'s' * (rest > 1)}" if rest > 0 else named
