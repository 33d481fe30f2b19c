"""A table that is written part by part, and appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError, option
from pfedfair._util.files import atomic
from pfedfair._util.text import inert
from pfedfair.data.tables.lines import FORM, lines

KINDS = (".csv", ".parquet")


def check_output(path: Path, overwrite: bool, *inputs: Path) -> None:
    """Refuse a file that cannot be written, or that is somebody's."""
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
    """Yield a function that writes some more rows; all parts have the same columns.

    In CSV, numbers have six digits.
    """
    with atomic(path) as beside:
        if path.suffix.lower() == ".parquet":
            with _parquet(beside) as write:
                yield write
            return
        with beside.open("wb") as file:
            first = True

            def write_csv(frame: pd.DataFrame) -> None:
                nonlocal first
                text = lines(frame)
                some = frame if text is None else frame.iloc[:0]
                file.write(_written(inert(some), first).encode())
                if text is not None:
                    file.write(text)
                first = False

            yield write_csv


def _written(frame: pd.DataFrame, header: bool) -> str:
    """Any table as CSV."""
    frame = frame.copy(deep=False)
    for name, kind in frame.dtypes.items():
        if isinstance(kind, np.dtype) and kind.kind == "f":  # pandas takes longer for them
            cells = ["" if value != value else FORM % value for value in frame[name].tolist()]
            frame[name] = pd.Series(cells, index=frame.index, dtype=object)
    return frame.to_csv(index=False, header=header, float_format=FORM, lineterminator=os.linesep)


def _arrow(column: pd.Series[Any], kind: Any) -> Any:
    """A column of Arrow's; of a category the words, as of any text."""
    import pyarrow as pa

    if not isinstance(column.dtype, pd.CategoricalDtype):
        return pa.array(column, type=kind, from_pandas=True)
    codes = pa.array(column.cat.codes.to_numpy(np.int32), mask=column.isna().to_numpy())
    words = pa.array(column.cat.categories, type=kind)
    return pa.DictionaryArray.from_arrays(codes, words).cast(kind)


@contextmanager
def _parquet(path: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writers: list[pq.ParquetWriter] = []

    def write(frame: pd.DataFrame) -> None:
        """Texts are texts, also in a part that has none."""
        if not writers:
            types = {"f": pa.float64(), "i": pa.int64()}
            fields = [(str(c), types.get(frame[c].dtype.kind, pa.string())) for c in frame]
            often: list[Any] = [  # the others hardly repeat: a list of what they have is in the way
                str(c) for c in frame if isinstance(frame[c].dtype, pd.CategoricalDtype)
            ]
            writer = pq.ParquetWriter(
                path, pa.schema(fields), compression="zstd", use_dictionary=often
            )
            writers.append(writer)
        schema = writers[0].schema
        columns = [_arrow(frame[c], schema.field(str(c)).type) for c in frame]
        writers[0].write_table(pa.table(columns, schema=schema))

    try:
        yield write
    finally:
        for writer in writers:
            writer.close()
