"""Read tables that are larger than memory, in parts.

UTF-8 CSV and Parquet files are read in parts; all other formats of `read_table` are read whole. The
type that is inferred for a part must not change the value of a cell: columns of words and codes are
read as text, and copied cells are unchanged.
"""

from __future__ import annotations

import codecs
import csv
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError, shorten
from pfedfair._util.files import first_line
from pfedfair.data.tables import ragged
from pfedfair.data.tables.table import read_table

ROWS = 65_536  # in a part
# Words that pandas takes for missing values, unless it is given others.
EMPTY = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
Part = tuple[pd.DataFrame, pd.DataFrame]  # columns to be parsed, and columns to be copied


@dataclass(frozen=True)
class Rows:
    """A table to be read in parts.

    `columns` are its names. `frame` is the table if it cannot be read in parts.
    """

    path: Path
    columns: tuple[str, ...]
    frame: pd.DataFrame | None = field(default=None, repr=False)

    @classmethod
    def open(cls, path: Path, needed: Collection[str] = ()) -> Rows:
        """Read a table's columns.

        A CSV file without the `needed` ones may have other separators: `read_table` infers them.
        """
        if not path.is_file():
            raise InputError(f"There is no file {path}.")
        kind = path.suffix.lower()
        if kind == ".parquet":
            return cls(path, _check_unique(path, _parquet(path).schema_arrow.names))
        if kind == ".csv" and _is_utf8(path):
            names = _header(path)
            if set(needed) <= set(names):
                return cls(path, _check_unique(path, names))
        frame = read_table(path).rename(columns=str)
        return cls(path, _check_unique(path, list(map(str, frame))), frame)

    def parts(
        self,
        columns: Sequence[str],
        words: Collection[str],
        copied: Sequence[str] = (),
        on_part: Callable[[float], None] = lambda done: None,
    ) -> Iterator[Part]:
        """Yield rows in order: `columns`, those among `words` as text; and `copied` ones as text.

        `on_part` is called with the fraction of the file that has been read.
        """
        if self.frame is not None:
            found = _in_memory(self.frame, columns, copied)
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
        except pd.errors.ParserWarning as warning:
            why = ragged.find_longer(self.path, len(self.columns))
            raise InputError(f"{self.path} is not a readable table ({why}).") from warning
        except (ValueError, OSError, pd.errors.ParserError) as error:
            raise InputError(
                f"{self.path} is not a readable table ({ragged.describe(error)})."
            ) from error


Found = Iterator[tuple[Part, float]]


def _of_csv(path: Path, columns: Sequence[str], words: Collection[str], copied: Sequence[str]
            ) -> Found:  # fmt: skip
    """Yield numbers as `read_table` reads them, and copied cells unchanged.

    All columns are read, so that a line with more cells than the header is detected. Words are
    Python objects, of which pandas has each once; categories would turn codes into numbers. Columns
    that are both parsed and copied are read twice.
    """
    size = max(path.stat().st_size, 1)
    kinds: dict[str, Any] = {name: object for name in columns if name in words}
    options: dict[str, Any] = {"chunksize": ROWS, "low_memory": False, "index_col": False}
    twice = bool(set(copied) & set(columns))
    parse_options = dict(options)
    if copied and not twice:
        kinds |= dict.fromkeys(copied, str)
        empty = {name: list(EMPTY) for name in _header(path) if name not in copied}
        parse_options |= {"keep_default_na": False, "na_values": empty}
    with path.open("rb") as first, path.open("rb") as second:
        parsed = _strict(lambda: pd.read_csv(first, dtype=kinds, **parse_options))
        copies = _strict(lambda: pd.read_csv(
            second, usecols=list(copied), dtype=str, na_filter=False, **options
        )) if twice else None  # fmt: skip
        while (frame := _strict(lambda: next(parsed, None))) is not None:
            copy = frame if copies is None else next(copies)
            yield (frame[list(columns)], copy[list(copied)]), first.tell() / size


def _strict(read: Callable[[], Any]) -> Any:
    """Call `read`; raise a `ParserWarning` if it loses cells."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return read()


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


def _in_memory(frame: pd.DataFrame, columns: Sequence[str], copied: Sequence[str]) -> Found:
    for start in range(0, len(frame), ROWS):
        part = frame.iloc[start : start + ROWS].reset_index(drop=True)
        copy = part[list(copied)].astype(object)
        copy = copy.where(copy.notna(), "").map(_text)
        yield (part[list(columns)], copy), (start + len(part)) / len(frame)


def _text(cell: Any) -> str:
    """Return a cell as it was written, if a reader turned integers into floats."""
    is_whole = isinstance(cell, float | np.floating) and float(cell).is_integer()
    return str(int(cell)) if is_whole else str(cell)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _parquet(path: Path, categories: Sequence[str] = ()) -> Any:
    """Open a file; read the text columns in `categories` as categories."""
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, read_dictionary=list(categories))
    except Exception as error:  # pyarrow raises many kinds
        raise InputError(f"{path} is not a readable table ({first_line(error)}).") from error


def _header(path: Path) -> list[str]:
    with path.open(encoding="utf-8-sig", newline="") as file, suppress(csv.Error):  # too long
        return next((row for row in csv.reader(file) if row), [])
    return []


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        try:
            while block := file.read(2**20):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def _check_unique(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Refuse a table with two columns of one name."""
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise InputError(f"{path} has more than one column '{shorten(twice[0])}': rename one.")
    return tuple(names)
