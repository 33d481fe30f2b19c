"""Groups that are bands of a number: under 25, 25 to under 45, 45 and over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError, option
from pfedfair.data.tables.cells import canonical, factor, floats

Bands = dict[str, tuple[float, ...]]  # by column: where its bands begin, but for the first
QUARTERS = (0.25, 0.5, 0.75)


def typed(texts: Iterable[str]) -> Bands:
    """What a user typed.

    >>> typed(["age:25,45,65"])
    {'age': (25.0, 45.0, 65.0)}
    """
    found: dict[str, Any] = {}
    for text in texts:
        column, colon, edges = text.rpartition(":")
        if not colon or not column:
            raise InputError(f"Bands are COLUMN:NUMBERS, as in age:25,45,65; got '{text}'.")
        if column in found:
            raise InputError(f"Bands are given twice for '{column}'.")
        found[column] = [edge.strip() for edge in edges.split(",")]
    return checked(found)


def checked(bands: Mapping[str, Sequence[Any]] | None) -> Bands:
    """Refuse bands that do not follow each other."""
    found: Bands = {}
    for column, edges in (bands or {}).items():
        try:
            numbers = tuple(float(edge) for edge in edges)
        except (TypeError, ValueError):
            raise InputError(f"The bands of '{column}' begin at numbers, got {edges}.") from None
        rising = all(low < high for low, high in pairwise(numbers))
        if not numbers or not rising or not np.isfinite(numbers).all():
            shown = ", ".join(f"{number:g}" for number in numbers) or "none"
            raise InputError(f"The bands of '{column}' begin at rising numbers, got {shown}.")
        found[str(column)] = numbers
    return found


def names(edges: Sequence[float]) -> list[str]:
    """How bands are called.

    >>> names((25, 45))
    ['under 25', '25 to under 45', '45 and over']
    """
    text = [canonical(float(edge)) or "" for edge in edges]
    between = [f"{low} to under {high}" for low, high in pairwise(text)]
    return [f"under {text[0]}", *between, f"{text[-1]} and over"]


def cut(column: pd.Series[Any], edges: Sequence[float], what: str) -> pd.Series[Any]:
    """The bands of a column's numbers, in order; cells that name a band already stay as they are.

    `what` the column is, for a cell that is neither.
    """
    place, odd = places(column, edges)
    if odd.any():
        word = column.iloc[int(np.flatnonzero(odd)[0])]
        raise InputError(f"{what} has '{word}', which is in no band: bands are of numbers.")
    made = pd.Categorical.from_codes(place, categories=pd.Index(names(edges)), ordered=True)
    return pd.Series(made, index=column.index, name=column.name)


def places(column: pd.Series[Any], edges: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """The number of each cell's band, -1 if it has none; and which cells are there, but in none."""
    called = names(edges)
    codes, words = factor(column)
    values = floats(column)
    place = np.searchsorted(np.asarray(edges), values, side="right")
    named = np.array([called.index(w) if w in called else -1 for w in [*words, ""]])[codes]
    odd = (codes >= 0) & (named < 0) & np.isnan(values)
    place = np.where(named >= 0, named, place)
    return np.where((codes < 0) | odd, -1, place), odd


def in_order(bands: Mapping[str, Sequence[float]], columns: str) -> tuple[tuple[float, ...], ...]:
    """Where the bands of each of several columns begin; nothing for one without bands."""
    return tuple(tuple(bands.get(column, ())) for column in columns.split(","))


def offer(column: pd.Series[Any]) -> str:
    """Say how a column of numbers could be cut; nothing if it is not one of numbers."""
    values = floats(column)
    there = values[~np.isnan(values)]
    if len(there) < len(values) or len(np.unique(there)) < len(QUARTERS) + 1:
        return ""
    at = np.quantile(there, QUARTERS, method="higher")
    texts = dict.fromkeys(f"{float(f'{edge:.2g}'):g}" for edge in at)
    edges = ",".join(texts)
    python = f"bands={{{str(column.name)!r}: [{edges}]}}"
    how = option("bands", f"{column.name}:{edges}", python)
    return f" It has numbers: make bands of them, such as {how}."
