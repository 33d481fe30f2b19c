"""Tables that are larger than memory, some rows at a time.

Plain CSV and Parquet files are read in parts; whatever else `read_table` can read is read whole.
How a part happens to be typed must not change what a cell says: columns of words and codes are read
as text, whatever is in them, and cells that are only copied stay as they were written.
"""

from __future__ import annotations

import codecs
import csv
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError
from pfedfair._util.files import first_line
from pfedfair.data.tables.table import read_table

ROWS = 65_536  # in a part
# Words that pandas takes for missing values, unless it is given others.
EMPTY = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
Part = tuple[pd.DataFrame, pd.DataFrame]  # columns to be understood, and columns to be copied


@dataclass(frozen=True)
class Rows:
    """A table to be read in parts.

    `columns` are its names. `whole` has the table if it cannot be read in parts.
    """

    path: Path
    columns: tuple[str, ...]
    whole: pd.DataFrame | None = field(default=None, repr=False)

    @classmethod
    def open(cls, path: Path, needed: Collection[str] = ()) -> Rows:
        """Look at a table's columns.

        A CSV file that lacks `needed` ones may have other separators: `read_table` finds out.
        """
        if not path.is_file():
            raise InputError(f"There is no file {path}.")
        kind = path.suffix.lower()
        if kind == ".parquet":
            return cls(path, _once(path, _parquet(path).schema_arrow.names))
        if kind == ".csv" and _is_utf8(path):
            names = _header(path)
            if set(needed) <= set(names):
                return cls(path, _once(path, names))
        whole = read_table(path)
        return cls(path, _once(path, [str(name) for name in whole]), whole.rename(columns=str))

    def parts(
        self,
        columns: Sequence[str],
        words: Collection[str],
        copied: Sequence[str] = (),
        on_part: Callable[[float], None] = lambda done: None,
    ) -> Iterator[Part]:
        """Yield rows in order: `columns`, those among `words` as text; and `copied` ones as text.

        `on_part` is called with what part of the file has been read.
        """
        if self.whole is not None:
            found = _in_memory(self.whole, columns, copied)
        elif self.path.suffix.lower() == ".parquet":
            found = _of_parquet(self.path, columns, words, copied)
        else:
            found = _of_csv(self.path, columns, words, copied)
        try:
            for part, done in found:
                yield part
                on_part(done)
        except InputError:
            raise
        except (ValueError, OSError, pd.errors.ParserError) as error:
            raise InputError(
                f"{self.path} is not a readable table ({first_line(error)})."
            ) from error


Found = Iterator[tuple[Part, float]]


def _of_csv(path: Path, columns: Sequence[str], words: Collection[str], copied: Sequence[str]
            ) -> Found:  # fmt: skip
    """Numbers as they are read elsewhere; what is copied stays untouched.

    All columns are read: a line with more cells than the header has must not go unseen. Words are
    Python's, of which pandas has each once; categories would make numbers of codes. What is to be
    understood and copied is read twice.
    """
    size = max(path.stat().st_size, 1)
    kinds: dict[str, Any] = {name: object for name in columns if name in words}
    options: dict[str, Any] = {"chunksize": ROWS, "low_memory": False, "index_col": False}
    twice = bool(set(copied) & set(columns))
    own = dict(options)
    if copied and not twice:
        kinds |= dict.fromkeys(copied, str)
        empty = {name: list(EMPTY) for name in _header(path) if name not in copied}
        own |= {"keep_default_na": False, "na_values": empty}
    with path.open("rb") as first, path.open("rb") as second:
        understood = _strict(lambda: pd.read_csv(first, dtype=kinds, **own))
        same = _strict(lambda: pd.read_csv(
            second, usecols=list(copied), dtype=str, na_filter=False, **options
        )) if twice else None  # fmt: skip
        while (frame := _strict(lambda: next(understood, None))) is not None:
            copy = frame if same is None else next(same)
            yield (frame[list(columns)], copy[list(copied)]), first.tell() / size


def _strict(read: Callable[[], Any]) -> Any:
    """Read something; that cells are lost is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            return read()
        except pd.errors.ParserWarning as warning:
            raise ValueError("there are more cells in a line than names in the header") from warning


def _of_parquet(path: Path, columns: Sequence[str], words: Collection[str], copied: Sequence[str]
                ) -> Found:  # fmt: skip
    import pyarrow as pa
    import pyarrow.compute as pc

    schema, done = _parquet(path).schema_arrow, 0
    texts = [name for name in columns if name in words and _is_text(schema.field(name).type)]
    file = _parquet(path, texts)
    wanted = list(dict.fromkeys([*columns, *copied]))
    for batch in file.iter_batches(batch_size=ROWS, columns=wanted):
        table = pa.Table.from_batches([batch])
        copies = {}
        for name in copied:
            try:
                copies[name] = pc.cast(table[name], pa.string()).to_pandas().fillna("")
            except pa.ArrowException:
                raise InputError(
                    f"Column '{name}' holds lists or the like: it cannot be copied."
                ) from None
        for name in columns:
            if name in words and pa.types.is_integer(table.schema.field(name).type):
                at = table.schema.get_field_index(name)  # a missing value would make floats of them
                table = table.set_column(at, name, pc.cast(table[name], pa.string()))
        done += len(batch)
        frame = table.select(list(columns)).to_pandas(ignore_metadata=True)
        copy = pd.DataFrame(copies, index=range(len(frame)))
        yield (frame, copy), done / max(file.metadata.num_rows, 1)


def _in_memory(whole: pd.DataFrame, columns: Sequence[str], copied: Sequence[str]) -> Found:
    for start in range(0, len(whole), ROWS):
        part = whole.iloc[start : start + ROWS].reset_index(drop=True)
        copy = part[list(copied)].astype(object)
        copy = copy.where(copy.notna(), "").map(_text)
        yield (part[list(columns)], copy), (start + len(part)) / len(whole)


def _text(cell: Any) -> str:
    """A cell as it was written, of numbers that a reader made floats of."""
    whole = isinstance(cell, float | np.floating) and float(cell).is_integer()
    return str(int(cell)) if whole else str(cell)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _parquet(path: Path, categories: Sequence[str] = ()) -> Any:
    """A file; some of its columns of text are read as categories."""
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, read_dictionary=list(categories))
    except Exception as error:  # pyarrow raises many kinds
        raise InputError(f"{path} is not a readable table ({first_line(error)}).") from error


def _header(path: Path) -> list[str]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return next((row for row in csv.reader(file) if row), [])


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        try:
            while some := file.read(2**20):
                decoder.decode(some)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def _once(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Refuse a table with two columns of one name: nobody knows which is meant."""
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    if twice:
        raise InputError(f"{path} has more than one column '{twice[0]}': rename one.")
    return tuple(names)
