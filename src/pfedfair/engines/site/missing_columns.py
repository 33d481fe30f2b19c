"""Columns that are missing at one site because it has no values for them.

An empty column may hold numbers, categories or dates elsewhere; dates without times have no hour.
Neither makes it another table.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pfedfair.data.dataset import Dataset
from pfedfair.data.tables.cells import factor
from pfedfair.data.tables.dates import base_of, name_of
from pfedfair.data.tables.encoder import MISSING
from pfedfair.data.tables.summary import Counts, Summary, Values

if TYPE_CHECKING:
    from pfedfair.engines.site.schema import Description

FIRST = 1000  # rows that are looked at before all are


def is_empty(data: Dataset, column: str) -> bool:
    """Whether all cells of a column are missing: then its kind is unknown."""
    if column not in data.frame or (factor(data.frame[column].iloc[:FIRST])[0] != -1).any():
        return False
    return bool((factor(data.frame[column])[0] == -1).all())


def is_absent_hour(column: str, columns: Collection[str]) -> bool:
    """Whether a column is the hour of dates whose months are present: without a time it is 0."""
    base, part = base_of(column)
    return part == "hour" and name_of(base, "month") in columns


def fill_columns(one: Description, first: Description) -> Description:
    """Return a description with the columns of the `first`; missing ones are empty, or hour 0."""
    if one.names == first.names:
        return one
    if one.summary is None or first.summary is None:
        numbers = {c: one.numbers.get(c, (0.0, 0.0, 0)) for c in first.numbers}
        default = {
            c: ("0",) if is_absent_hour(c, [*one.categories]) else (MISSING,)
            for c in first.names[1]
        }
        categories = {c: one.categories.get(c, default[c]) for c in first.categories}
        return replace(one, numbers=numbers, categories=categories)
    none, summary = np.zeros(0), one.summary
    values = Values(none, none.astype(np.int64), one.rows)
    numbered = {c: summary.numbers.get(c, values) for c in first.summary.numbers}
    counted = {}
    for c in first.summary.categories:
        empty = one.rows
        if is_absent_hour(c, [*summary.categories]):
            empty = summary.categories[name_of(base_of(c)[0], "month")].empty
        counts = {"0": one.rows - empty} if empty < one.rows else {}
        counted[c] = summary.categories.get(c, Counts(counts, 0, empty))
    return replace(one, summary=Summary(numbered, counted))
