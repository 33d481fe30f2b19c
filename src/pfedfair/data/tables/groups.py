"""Encode labels and groups as integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError, known, option, shorten
from pfedfair.data.tables.bands import Bands, cut, suggest_bands
from pfedfair.data.tables.cells import canonical, factor, order
from pfedfair.data.tables.missing_groups import fill

MOST_VALUES = 100  # of a sensitive attribute, before they are merged
MOST_GROUPS = 20
FEWEST = 30  # rows of a group, where there are more than two
MANY = 5  # values of a sensitive number; of more, bands are offered


def columns_of(given: str | Sequence[str]) -> list[str]:
    """Return a list of column names, given as a list or as text with commas, as in a command.

    >>> columns_of("sex, race"), columns_of(["sex", "race"])
    (['sex', 'race'], ['sex', 'race'])
    """
    if isinstance(given, str):
        return list(dict.fromkeys(name for text in given.split(",") if (name := text.strip())))
    return list(map(str, given))


def join_names(columns: str | Sequence[str]) -> str:
    """Join the names of sensitive columns with commas, which no name may contain."""
    if isinstance(columns, str):
        return columns
    for name in map(str, columns):
        if "," in name:
            raise InputError(f"The name of the sensitive column '{name}' has a comma: rename it.")
    return ",".join(map(str, columns))


def codes(
    column: pd.Series[Any], what: str, most: int, least: int = 2
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Number a column's values from 0; return the numbers, and the values as text."""
    found, words = factor(column)
    if (empty := int((found == -1).sum())) > 0:
        raise InputError(f"{what} has {empty} missing values: fill or drop them.")
    if not least <= (n := len(words)) <= most:
        raise InputError(f"{what} must have {least} to {most} different values, it has {n}.")
    values = sorted(words, key=order)
    if isinstance(column.dtype, pd.CategoricalDtype) and column.dtype.ordered:
        rank = {canonical(value): k for k, value in enumerate(column.dtype.categories)}
        values = sorted(words, key=lambda word: rank[word])
    code = np.array([values.index(word) for word in words], dtype=np.int64)
    return np.asarray(code[found]), tuple(values)


def put_positive_last(
    y: np.ndarray, names: tuple[str, ...], positive: Any
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Number labels so that the `positive` one is the last: of two, the one coded 1."""
    word = known("label", canonical(positive) or str(positive), names)
    order = (*(name for name in names if name != word), word)
    code = np.array([order.index(name) for name in names], dtype=np.int64)
    return np.asarray(code[y]), order


def cross(
    frame: pd.DataFrame,
    attributes: Sequence[str],
    merge_groups: bool = False,
    part: bool = False,
    bands: Bands | None = None,
    group_missing: bool = False,
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Number the groups that one or several columns make; see `from_frame`."""
    bands = bands or {}
    for column in bands:
        if column not in attributes:
            raise InputError(f"Bands are for sensitive columns, '{column}' is none: leave it out.")
    numbers = [c for c in attributes if c not in bands and len(factor(frame[c])[1]) > MANY]
    try:
        return _cross(frame, attributes, merge_groups, part, bands, group_missing)
    except InputError as error:
        suggestion = next(filter(None, (suggest_bands(frame[c]) for c in numbers)), "")
        raise InputError(f"{error}{suggestion}") from None


def _cross(
    frame: pd.DataFrame,
    attributes: Sequence[str],
    merge_groups: bool,
    part: bool,
    bands: Bands,
    group_missing: bool,
) -> tuple[np.ndarray, tuple[str, ...]]:
    name = " x ".join(attributes)
    what = f"The sensitive column '{name}'"
    least = 1 if part else 2
    of = {c: f"The sensitive column '{c}'" for c in attributes}
    cells = {c: cut(frame[c], bands[c], of[c]) if c in bands else frame[c] for c in attributes}
    if group_missing:
        cells = {c: fill(cells[c]) for c in attributes}
    each = [codes(cells[c], of[c], MOST_VALUES, least) for c in attributes]
    if len(each) == 1:
        s, names = each[0]
    else:
        values = [np.asarray(names, dtype=object)[s] for s, names in each]
        joined = pd.Series([" x ".join(parts) for parts in zip(*values, strict=True)])
        s, names = codes(joined, what, MOST_VALUES, least)
    size = np.bincount(s)
    is_small = size < (FEWEST if len(size) > 2 and not part else 0)
    small = np.flatnonzero(is_small)
    if len(small) and not merge_groups:
        raise InputError(
            f"{what} has {len(small)} group{'s' * (len(small) > 1)} with fewer than {FEWEST} rows, "
            f"'{shorten(names[small[0]])}' with {size[small[0]]} the first: say "
            f"{option('merge_groups', True)} to make one group of them, or leave their rows out."
        )
    if len(small):
        large = [z for z in range(len(size)) if z not in set(small.tolist())]
        rest = sum(size[z] for z in small)
        if rest < FEWEST and large:  # still too small: they join the smallest large group
            smallest = min(large, key=lambda z: size[z])
            small = np.append(small, smallest)
            large.remove(smallest)
        merged = {z: len(large) for z in small.tolist()} | {z: i for i, z in enumerate(large)}
        s = np.array([merged[z] for z in range(len(size))])[s]
        names = (*(names[z] for z in large), " + ".join(names[z] for z in sorted(small)))
    if not least <= (n := len(names)) <= MOST_GROUPS:
        able = f"2 to {MOST_GROUPS} can be compared"
        raise InputError(f"{what} makes {n} group{'s' * (n > 1)}: {able}.")
    return s, names
