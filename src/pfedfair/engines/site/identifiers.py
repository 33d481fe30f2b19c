"""Identifier columns: each site reports those that look like one, and the majority decides.

At one site, a column of numbers that differ from row to row may be an income; if the numbers are
unique and consecutive at most sites, the column is an input of no site's model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import pandas as pd

from pfedfair.data.dataset import Dataset
from pfedfair.data.tables.cells import floats
from pfedfair.data.tables.dates import base_of
from pfedfair.data.tables.roles import LIKE_A_NAME, identifier
from pfedfair.data.tables.summary import Summary

if TYPE_CHECKING:
    from pfedfair.engines.site.schema import Description


T = TypeVar("T")


def find_identifiers(data: Dataset, exclude: str) -> tuple[str, ...]:
    """Return the columns of a site's table that look like identifiers of persons."""
    found = [column for column, why in data.excluded.items() if why == LIKE_A_NAME]
    numbers = (c for c in data.numeric if c != exclude and c not in data.keep and not base_of(c)[1])
    for column in numbers:
        cells = floats(data.frame[column])
        if identifier("number", cells, len(pd.unique(cells[cells == cells])), False):
            found.append(column)
    return tuple(sorted(found))


def majority_identifiers(sites: Sequence[Description]) -> tuple[str, ...]:
    """Return the columns that look like identifiers to more than half of the sites."""
    votes = Counter(column for one in sites for column in set(one.identifiers))
    return tuple(sorted(column for column, n in votes.items() if 2 * n > len(sites)))


def drop_columns(one: Description, columns: Sequence[str]) -> Description:
    """Return a description without some columns."""

    def remaining(of: dict[str, T]) -> dict[str, T]:
        return {c: about for c, about in of.items() if base_of(c)[0] not in columns}

    summary = one.summary
    if summary is not None:
        summary = Summary(remaining(summary.numbers), remaining(summary.categories))
    return replace(
        one,
        numbers=remaining(one.numbers),
        categories=remaining(one.categories),
        summary=summary,
        identifiers=tuple(c for c in one.identifiers if c not in columns),
    )
