"""Write a table in parts; the file appears only when it is complete."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pfedfair._util.errors import InputError, option
from pfedfair._util.files import atomic
from pfedfair._util.text import escape_formula

KINDS = (".csv", ".parquet")
FORM = "%.6g"  # of decimal numbers in CSV
SPECIAL = '[",\r\n]|^[=@\t\r+-]'  # cells in quotes, and those that may be a formula


def check_output(path: Path, overwrite: bool, *inputs: Path) -> None:
    """Refuse a file that cannot be written, or that already exists."""
    if path.suffix.lower() not in KINDS:
        raise InputError(f"The output must end in {' or '.join(KINDS)}, got {path}.")
    if any(path.exists() and path.samefile(one) for one in inputs if one.exists()):
        raise InputError(f"{path} is the input: choose another {option('output')}.")
    if path.is_dir() or (path.exists() and not overwrite):
        raise InputError(
            f"{path} exists: choose another {option('output')}, or say {option('overwrite', True)}."
        )


@contextmanager
def sink(path: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    """Yield a function that writes more rows; all parts have the same columns.

    In CSV, numbers have six digits, and no text is a formula.
    """
    write_parts = _parquet if path.suffix.lower() == ".parquet" else _csv
    with atomic(path) as temporary, write_parts(temporary) as write:
        yield write


@contextmanager
def _csv(path: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    # pyarrow.csv puts quotes around every text, or refuses those that need them.
    with path.open("wb") as file:

        def write(frame: pd.DataFrame) -> None:
            if not file.tell():
                file.write((",".join(_quoted(map(str, frame)).to_pylist()) + os.linesep).encode())
            columns = [csv_cells(frame[name]) for name in frame]
            columns[-1] = pc.binary_join_element_wise(columns[-1], os.linesep, "")
            lines = pc.binary_join_element_wise(*columns, ",")
            if len(lines):
                _, ends, text = lines.buffers()
                file.write(text.slice(0, int(np.frombuffer(ends, np.int32)[len(lines)])))

        yield write


def csv_cells(column: pd.Series[Any]) -> pa.Array:
    """Return a column's cells as text for a CSV file; missing values are empty."""
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        words = csv_cells(pd.Series(kind.categories))
        return pc.fill_null(words.take(_codes(column)), "")
    if pd.api.types.is_integer_dtype(kind):
        return pc.fill_null(pa.array(column, from_pandas=True).cast(pa.string()), "")
    if pd.api.types.is_float_dtype(kind):
        numbers = column.to_numpy(np.float64, na_value=np.nan)
        words = pa.array(list(map(FORM.__mod__, numbers.tolist())), pa.string())
        return pc.if_else(pa.array(np.isnan(numbers)), "", words)
    try:
        cells = pa.array(column, pa.string(), from_pandas=True)
    except (pa.ArrowException, TypeError):  # not all of them are texts
        cells = pa.array(column.map(str, na_action="ignore"), pa.string(), from_pandas=True)
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    cells = pc.fill_null(cells, "")
    special = pc.match_substring_regex(cells, SPECIAL)
    if not pc.any(special).as_py():
        return cells
    return pc.replace_with_mask(cells, special, _quoted(cells.filter(special).to_pylist()))


def _quoted(words: Iterable[str]) -> pa.Array:
    """Return cells of text that are no formulas, in quotes where Python's writer puts them."""
    line = StringIO()
    write = csv.writer(line, lineterminator=os.linesep)
    found = []
    for word in words:
        # With a second cell, as a single empty one gets quotes.
        write.writerow((escape_formula(word), ""))
        found.append(line.getvalue()[: -len(os.linesep) - 1])
        line.seek(line.truncate(0))
    return pa.array(found, pa.string())


def _codes(column: pd.Series[Any]) -> pa.Array:
    return pa.array(column.cat.codes.to_numpy(np.int32), mask=column.isna().to_numpy())


def _arrow(column: pd.Series[Any], kind: pa.DataType) -> pa.Array:
    """Return a column as an Arrow array; categories become words."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return pa.array(column, type=kind, from_pandas=True)
    return pa.array(column.cat.categories, type=kind).take(_codes(column))


@contextmanager
def _parquet(path: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    writers: list[pq.ParquetWriter] = []

    def write(frame: pd.DataFrame) -> None:
        """Write a part; a text column has type string even if the part has no text."""
        if not writers:
            types = {"f": pa.float64(), "i": pa.int64()}
            fields = [(str(c), types.get(frame[c].dtype.kind, pa.string())) for c in frame]
            repeated: Any = [  # a dictionary of mostly distinct texts would cost time
                str(c) for c in frame if isinstance(frame[c].dtype, pd.CategoricalDtype)
            ]
            schema = pa.schema(fields)
            writers.append(
                pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=repeated)
            )
        schema = writers[0].schema
        columns = [_arrow(frame[c], schema.field(str(c)).type) for c in frame]
        writers[0].write_table(pa.table(columns, schema=schema))

    try:
        yield write
    finally:
        for writer in writers:
            writer.close()
