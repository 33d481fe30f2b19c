"""Columns that look otherwise at one site because it has nothing in them.

A column without a cell may be one of numbers, categories or dates elsewhere; dates without times
have no hour. Neither is another table.
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


def is_empty(data: Dataset, column: str) -> bool:
    """Whether no cell of a column says anything: then nobody knows what kind it is."""
    return column in data.frame and bool((factor(data.frame[column])[0] == -1).all())


def midnight(column: str, others: Collection[str]) -> bool:
    """Whether a column is the hour of dates whose months are there: without a time it is 0."""
    base, part = base_of(column)
    return part == "hour" and name_of(base, "month") in others


def alike(one: Description, first: Description) -> Description:
    """A description with the columns of the `first`; what it lacks is empty there, or midnight."""
    if one.names == first.names:
        return one
    if one.summary is None or first.summary is None:
        numbers = {c: one.numbers.get(c, (0.0, 0.0, 0)) for c in first.numbers}
        zero = {c: ("0",) if midnight(c, [*one.categories]) else (MISSING,) for c in first.names[1]}
        categories = {c: one.categories.get(c, zero[c]) for c in first.categories}
        return replace(one, numbers=numbers, categories=categories)
    nobody, told = np.zeros(0), one.summary
    values = Values(nobody, nobody.astype(np.int64), one.rows)
    numbered = {c: told.numbers.get(c, values) for c in first.summary.numbers}
    counted = {}
    for c in first.summary.categories:
        empty = one.rows
        if midnight(c, [*told.categories]):
            empty = told.categories[name_of(base_of(c)[0], "month")].empty
        some = {"0": one.rows - empty} if empty < one.rows else {}
        counted[c] = told.categories.get(c, Counts(some, 0, empty))
    return replace(one, summary=Summary(numbered, counted))
