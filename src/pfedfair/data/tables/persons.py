"""Notes on persons: columns that may name them, and rows of theirs on both sides of a split."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError, option
from pfedfair.data.tables.cells import factor, floats
from pfedfair.data.tables.duplicates import COPY, MAX_VALUES
from pfedfair.data.tables.options import TableOptions

FEWEST = 30  # values of a column of persons
LARGEST = 0.1  # part of the rows that one person may have
CHANCE = 1e-9  # below which labels do not agree within all values by chance
SAMPLE = 5_000  # rows that a column is first looked at by
SCATTERED = 0.5  # of the changes of the label along the numbers of persons in random order


def person_notes(
    frame: pd.DataFrame, options: TableOptions, y: np.ndarray, held: np.ndarray | None
) -> list[str]:
    """Return notes on the persons of a table's rows; refuse rows without a person."""
    if options.person is None:
        roles = options.roles(frame)
        found = [c for c in frame if c not in roles and may_name_persons(frame[c], y)]
        return [_suspicion(frame[c]) for c in found[:1]]
    person = factor(frame[options.person])[0]
    if (missing := int((person == -1).sum())) > 0:
        raise InputError(
            f"The column of persons, '{options.person}', has {missing} missing values: fill or "
            "drop them."
        )
    crossing = 0 if held is None else int(np.isin(person[held], person[~held]).sum())
    if not crossing:
        return []
    return [
        f"{crossing:,} rows for the test are of persons who have training rows, too: they make "
        "accuracy look better than it is."
    ]


def may_name_persons(column: pd.Series[Any], y: np.ndarray) -> bool:
    """Whether a column's values repeat, and rows of equal values have equal labels.

    It has many values, none of them frequent, of which this cannot be chance. Numbers along which
    the label seldom changes, such as an income, are something else.
    """
    if pd.api.types.is_float_dtype(column):
        numbers = floats(column)
        if (numbers % 1 > 0).any():
            return False
    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_bool_dtype(column):
        return False
    if not all(isinstance(cell, Hashable) for cell in column[:1]):  # lists and the like
        return False
    step = max(1, len(column) // SAMPLE)
    try:
        if not _is_pure(_labels_by_value(column.iloc[::step], y[::step])):
            return False
        counts = _labels_by_value(column, y)
    except TypeError:  # its cells are lists or the like
        return False
    size = counts.sum(1)
    if len(size) < FEWEST or size.max() > LARGEST * len(column) or not _is_pure(counts):
        return False
    if len(size) <= MAX_VALUES and size.min() >= COPY:  # a category, which has a note of its own
        return False
    share = counts.sum(0) / counts.sum()
    chance = (share ** size[size > 1, None]).sum(1)  # that the rows of a value agree
    if np.log(chance).sum() > np.log(CHANCE):
        return False
    if not pd.api.types.is_numeric_dtype(column):
        return True
    label = counts.argmax(1)  # of the values in rising order
    expected = (1 - (np.bincount(label) ** 2).sum() / len(label) ** 2) * (len(label) - 1)
    return bool((np.diff(label) != 0).sum() >= SCATTERED * expected)


def _labels_by_value(column: pd.Series[Any], y: np.ndarray) -> np.ndarray:
    """Count rows by value, in rising order of numbers, and label, ``(values, labels)``."""
    is_number = pd.api.types.is_numeric_dtype(column)
    codes, values = pd.factorize(column, sort=is_number)
    labels = int(y.max(initial=0)) + 1
    present = codes >= 0
    pairs = codes[present] * labels + y[present]
    return np.bincount(pairs, minlength=len(values) * labels).reshape(-1, labels)


def _is_pure(counts: np.ndarray) -> bool:
    """Whether each value has one label."""
    return bool((np.count_nonzero(counts, axis=1) <= 1).all())


def _suspicion(column: pd.Series[Any]) -> str:
    present, values = int(column.notna().sum()), column.nunique()
    return (
        f"Values of column '{column.name}' repeat ({present:,} rows, {values:,} values) and "
        f"determine the label: if they are persons, say {option('person', column.name)}, as rows "
        "of a person on both sides of a split make accuracy look better than it is."
    )
