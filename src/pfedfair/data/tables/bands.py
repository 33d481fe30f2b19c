"""Groups that are bands of a number: under 25, 25 to under 45, 45 and over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError, option
from pfedfair.data.tables.cells import canonical, factor, floats
from pfedfair.data.tables.formats import Format, NumberFormat

Bands = dict[str, tuple[float, ...]]  # by column: where its bands begin, except the first
QUARTERS = (0.25, 0.5, 0.75)


def parse_bands(texts: Iterable[str]) -> Bands:
    """Parse bands as the user typed them.

    >>> parse_bands(["age:25,45,65"])
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
    return check_bands(found)


def check_bands(bands: Mapping[str, Sequence[Any]] | None) -> Bands:
    """Return the bands; refuse edges that are not increasing numbers."""
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
    """Return the names of bands.

    >>> names((25, 45))
    ['under 25', '25 to under 45', '45 and over']
    """
    text = [canonical(float(edge)) or "" for edge in edges]
    between = [f"{low} to under {high}" for low, high in pairwise(text)]
    return [f"under {text[0]}", *between, f"{text[-1]} and over"]


def cut(
    column: pd.Series[Any], edges: Sequence[float], what: str, format: Format | None = None
) -> pd.Series[Any]:
    """Return the ordered bands of a column's numbers; cells that name a band are unchanged.

    `what` names the column in the error for other cells.
    """
    band, odd = band_indices(column, edges, format)
    if odd.any():
        word = column.iloc[int(np.flatnonzero(odd)[0])]
        raise InputError(f"{what} has '{word}', which is in no band: bands are of numbers.")
    made = pd.Categorical.from_codes(band, categories=pd.Index(names(edges)), ordered=True)
    return pd.Series(made, index=column.index, name=column.name)


def band_indices(
    column: pd.Series[Any], edges: Sequence[float], format: Format | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return each cell's band, -1 if it has none, and which cells have a value but no band."""
    called = names(edges)
    codes, words = factor(column)
    values = (format or NumberFormat()).read(column).values
    band = np.searchsorted(np.asarray(edges), values, side="right")
    named = np.array([called.index(w) if w in called else -1 for w in [*words, ""]])[codes]
    odd = (codes >= 0) & (named < 0) & np.isnan(values)
    band = np.where(named >= 0, named, band)
    return np.where((codes < 0) | odd, -1, band), odd


def list_edges(bands: Mapping[str, Sequence[float]], columns: str) -> tuple[tuple[float, ...], ...]:
    """Return the edges of each of several columns' bands, empty for a column without bands."""
    return tuple(tuple(bands.get(column, ())) for column in columns.split(","))


def suggest_bands(column: pd.Series[Any]) -> str:
    """Suggest bands for a column of numbers; return "" for any other column."""
    values = floats(column)
    present = values[~np.isnan(values)]
    if len(present) < len(values) or len(np.unique(present)) < len(QUARTERS) + 1:
        return ""
    at = np.quantile(present, QUARTERS, method="higher")
    texts = dict.fromkeys(f"{float(f'{edge:.2g}'):g}" for edge in at)
    edges = ",".join(texts)
    python = f"bands={{{str(column.name)!r}: [{edges}]}}"
    how = option("bands", f"{column.name}:{edges}", python)
    return f" It has numbers: make bands of them, such as {how}."
