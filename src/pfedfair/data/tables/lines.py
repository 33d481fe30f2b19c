"""Rows of a table as lines of CSV: the same bytes as pandas writes, in a fifth of the time.

Columns are put together as Arrow's texts: a category's words are looked at once, and decimal
numbers get six digits without a Python object for each.
"""

from __future__ import annotations

import csv
import os
from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pfedfair._util.text import safe

FORM = "%.6g"  # of decimal numbers
QUOTE = '[",\r\n]'  # what a cell is put in quotes for
FORMULA = "^[=@\t\r+-]"  # what may be a formula
ODD = tuple(letter.encode() for letter in '",\r\n=@\t+-')  # without these both have nothing to do
LEAST = 1e-4  # smaller numbers are written with an exponent
TIE = 1e-6  # so near to a half nobody can say how a number is rounded


def lines(frame: pd.DataFrame) -> pa.Buffer | None:
    """The lines, without those of names; None if there is a column of another kind."""
    if frame.shape[1] < 2 or not len(frame):
        return None
    found = [_cells(frame.iloc[:, k]) for k in range(frame.shape[1])]
    if any(cells is None for cells in found):
        return None
    found[-1] = pc.binary_join_element_wise(found[-1], os.linesep, "")
    whole = pc.binary_join_element_wise(*found, ",")
    whole = whole.cast(pa.large_string())
    _, ends, text = whole.buffers()
    first, last = (int(whole.offset) + k for k in (0, len(whole)))
    at = np.frombuffer(ends, dtype=np.int64)
    return text.slice(int(at[first]), int(at[last] - at[first]))


def _cells(column: pd.Series[Any]) -> pa.Array | None:
    """A column's cells as they stand in a file."""
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        if not all(isinstance(word, str) for word in kind.categories) or column.hasnans:
            return None
        words = [_quoted(word) for word in kind.categories]
        codes = pa.array(column.cat.codes.to_numpy(np.int32))
        return pa.DictionaryArray.from_arrays(codes, pa.array(words, pa.string())).cast(pa.string())
    if isinstance(kind, np.dtype) and kind.kind == "i":
        return pa.array(column.to_numpy()).cast(pa.string())
    if kind == np.float64:
        return decimals(column.to_numpy())
    try:
        cells = pa.array(column, type=pa.string(), from_pandas=True)
    except (pa.ArrowException, TypeError):
        return None
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    if cells.null_count:
        return None
    letters = cells.buffers()[2]
    letters = b"" if letters is None else letters.to_pybytes()
    if not any(letter in letters for letter in ODD):
        return cells
    odd = pc.match_substring_regex(cells, f"{FORMULA}|{QUOTE}")
    if pc.any(odd).as_py():
        better = [_quoted(word) for word in cells.filter(odd).to_pylist()]
        cells = pc.replace_with_mask(cells, odd, pa.array(better, pa.string()))
    return cells


def _quoted(word: str) -> str:
    """A cell of text: no formula, and in quotes if Python finds that it needs them."""
    line = StringIO()
    csv.writer(line, lineterminator=os.linesep).writerow((safe(word), ""))
    return line.getvalue()[: -len(os.linesep) - 1]


def decimals(values: np.ndarray) -> pa.Array:
    """Numbers with six digits, as `FORM` has them; nothing for NaN.

    Of six digits a float has the shortest text, if it is the nearest one to them; it is, as the
    quotient of two whole numbers. Where a product cannot say how to round, and beyond 1, Python
    does it, once for each number.
    """
    some = (values >= LEAST) & (values < 1)
    with np.errstate(invalid="ignore", over="ignore"):
        power = np.select([values >= 0.1, values >= 0.01, values >= 0.001], [1e6, 1e7, 1e8], 1e9)
        large = np.where(some, values, 0.0) * power
        whole = np.rint(large)
        some &= np.abs(np.abs(large - whole) - 0.5) > TIE
    found = pa.array(whole / power).cast(pa.string())
    if some.all():
        return found
    bits, place = np.unique(values[~some].view(np.int64), return_inverse=True)  # -0.0 is not 0.0
    each = bits.view(np.float64).tolist()
    words = pa.array(["" if value != value else FORM % value for value in each])
    return pc.replace_with_mask(found, pa.array(~some), words.take(pa.array(place)))
