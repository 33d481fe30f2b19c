"""Read a table: text, compressed text, Parquet or Excel, whole or in parts.

All files are read to the same cells: those of text as they are written, those of other formats with
their types. What the text of a cell means is decided by `formats`, never by the file.
"""

from __future__ import annotations

import re
import warnings
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

import pandas as pd

from pfedfair._util.errors import InputError
from pfedfair._util.limits import check_expansion, check_parquet, check_zip, regular
from pfedfair.data.tables import delimited, ragged
from pfedfair.data.tables.cells import MISSING
from pfedfair.data.tables.formats import typed

ROWS = 65_536  # in a part
TEXT = (".csv", ".tsv", ".txt")
PARQUET, EXCEL = ".parquet", ".xlsx"
PACKED = (".gz", ".bz2", ".xz")
OLD = (".xls", ".xlsb", ".ods", ".sav", ".dta", ".sas7bdat")  # formats of other programs
ENDINGS = (*TEXT, PARQUET, EXCEL)
MAGIC = {b"PAR1": PARQUET, b"PK\x03\x04": EXCEL}
AS_CSV = "save it as .csv"  # instead of a file that unpacks to too much
INDEX = re.compile(r"__index_level_\d+__")  # of a pandas frame, without a name
# Until pandas 3.1 the usual way of reading a number was not always right in its last digit.
EXACT: dict[str, Any] = {}
if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
    EXACT = {"float_precision": "round_trip"}
Parts = Iterator[tuple[pd.DataFrame, float]]  # and the fraction of the file that has been read


class ReadingWarning(UserWarning):
    """The format of a file was inferred, perhaps wrongly."""


@dataclass(frozen=True)
class TableFile(ABC):
    """A file with a table; `separator` is that of its cells, if it is text."""

    path: Path
    columns: tuple[str, ...]
    notes: tuple[str, ...] = ()
    separator: str = ","

    def read(self) -> pd.DataFrame:
        """Return the whole table."""
        with _readable(self.path):
            frame = self._whole()
        frame.attrs["separator"] = self.separator
        return frame

    def parts(
        self,
        columns: Sequence[str],
        numbers: Collection[str] = (),
        on_part: Callable[[float], None] = lambda done: None,
    ) -> Iterator[pd.DataFrame]:
        """Yield rows in order, with these columns.

        `numbers` are columns that may come as numbers even from text, as nothing is lost: they are
        written as most programs write them. `on_part` is called with the fraction that is read.
        """
        parts = self._parts(list(dict.fromkeys(columns)), set(numbers))
        while True:
            with _readable(self.path):
                part = next(parts, None)
            if part is None:
                return
            yield part[0]
            on_part(part[1])

    @abstractmethod
    def _whole(self) -> pd.DataFrame: ...

    @abstractmethod
    def _parts(self, columns: list[str], numbers: set[str]) -> Parts: ...


@dataclass(frozen=True)
class TextFile(TableFile):
    """Delimited text. Its cells are text as it is written; empty ones are missing."""

    layout: Any = None

    def _whole(self) -> pd.DataFrame:
        empty = {name: [""] for name in self.columns}
        with self.path.open("rb") as file, _no_lost_cells(self.layout):
            content, options = delimited.unpacked(self.path, file), self.layout.options()
            frame: pd.DataFrame = pd.read_csv(content, dtype="str", na_values=empty, **options)
        return frame

    def _parts(self, columns: list[str], numbers: set[str]) -> Parts:
        """All columns are read, so that a line with more cells than names is detected."""
        numbers = {c for c in columns if c in numbers}
        empty = {c: list(MISSING) if c in numbers else [""] for c in columns}
        kinds = {c: object for c in columns if c not in numbers}
        options = self.layout.options() | {"dtype": kinds, "na_values": empty, "chunksize": ROWS}
        size = max(self.path.stat().st_size, 1)
        with self.path.open("rb") as file, _no_lost_cells(self.layout):
            reader = pd.read_csv(delimited.unpacked(self.path, file), **options, **EXACT)
            while True:
                with _no_lost_cells(self.layout):
                    frame = next(reader, None)
                if frame is None:
                    return
                for name in numbers:  # pandas makes Booleans of words
                    if pd.api.types.is_bool_dtype(frame[name]):
                        frame[name] = frame[name].astype(str)
                yield frame[columns], file.tell() / size


@dataclass(frozen=True)
class ParquetFile(TableFile):
    """Parquet: typed cells."""

    def _whole(self) -> pd.DataFrame:
        import pyarrow as pa

        with _parquet(self.path) as file:
            table = file.read(columns=list(self.columns))
        return _to_pandas(pa.table(table))

    def _parts(self, columns: list[str], numbers: set[str]) -> Parts:
        import pyarrow as pa

        schema = _schema(self.path)
        repeated = [c for c in columns if c not in numbers and _is_text(schema.field(c).type)]
        done = 0
        with _parquet(self.path, repeated) as file:
            for batch in file.iter_batches(batch_size=ROWS, columns=columns):
                done += len(batch)
                table = pa.Table.from_batches([batch]).select(columns)
                yield _to_pandas(table), done / max(file.metadata.num_rows, 1)


@dataclass(frozen=True)
class ExcelFile(TableFile):
    """A sheet of Excel: cells of Python's types, among which are missing values."""

    frame: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False)

    def _whole(self) -> pd.DataFrame:
        return self.frame

    def _parts(self, columns: list[str], numbers: set[str]) -> Parts:
        for start in range(0, len(self.frame), ROWS):
            part = self.frame[columns].iloc[start : start + ROWS].reset_index(drop=True)
            yield part, (start + len(part)) / len(self.frame)


def ending(path: Path) -> str:
    """Return the ending of a file's name that says its format, or ""."""
    endings = [end.lower() for end in path.suffixes]
    if endings and endings[-1] in PACKED:
        return next((end for end in endings[-2:-1] if end in TEXT), "")
    return next((end for end in endings[-1:] if end in (*ENDINGS, *OLD)), "")


def stem(path: Path) -> str:
    """Return a file's name without its format.

    >>> stem(Path("loans.csv.gz")), stem(Path("loans.2024.csv"))
    ('loans', 'loans.2024')
    """
    return Path(path.stem).stem if path.suffix.lower() in PACKED else path.stem


def read_table(path: Path) -> pd.DataFrame:
    """Read a table; issue notes on how it was read as `ReadingWarning`.

    Cells of text files are text: `from_frame` infers what they mean, and models read them as they
    read their training rows.
    """
    frame, notes = read(path)
    for note in notes:
        warnings.warn(note, ReadingWarning, stacklevel=2)
    return frame


def read_typed(path: Path, codes: Collection[str] = ()) -> pd.DataFrame:
    """Read a table with numbers and dates as its own cells show them; issue notes, too.

    For `codes` see `formats.typed`.
    """
    frame, notes = read(path)
    frame, more = typed(frame, codes)
    for note in (*notes, *more):
        warnings.warn(note, ReadingWarning, stacklevel=2)
    return frame


def read(path: Path) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Read a table; return it and notes on how it was read."""
    table = open_table(path)
    return table.read(), table.notes


def open_table(path: Path) -> TableFile:
    """Return a file whose format is that of its content; refuse columns without a unique name."""
    if not regular(path).is_file():
        raise InputError(f"There is no file {path}.")
    if ending(path) in OLD:
        raise InputError(f"{path} cannot be read: save it as .csv, .xlsx or .parquet.")
    with path.open("rb") as file:
        begin = file.read(4)
    kind = MAGIC.get(begin, "")
    with _readable(path):
        if kind == PARQUET:
            with _parquet(path) as table:
                check_parquet(path, table.metadata)
                found = table.schema_arrow.names
            names = [name for name in found if not INDEX.fullmatch(name)]
            return ParquetFile(path, _unique(path, names))
        if kind == EXCEL:
            check_zip(path, AS_CSV)
            _check_sheets(path)
            return _excel(path)
        if begin and ending(path) in (PARQUET, EXCEL):
            raise ValueError(f"it is no {ending(path)} file")
        layout = delimited.look(path)
        return TextFile(path, layout.names, layout.notes, layout.separator, layout)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Raise errors in reading a file as one sentence."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:  # pandas and pyarrow raise many kinds
        raise InputError(f"{path} is not a readable table ({ragged.describe(error)}).") from error


@contextmanager
def _no_lost_cells(layout: delimited.Layout) -> Iterator[None]:
    """Raise an error where pandas warns that it leaves out cells."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            yield
        except pd.errors.ParserWarning as warning:
            raise ValueError(ragged.find_longer(layout)) from warning


def _schema(path: Path) -> Any:
    import pyarrow.parquet as pq

    return pq.read_schema(path)


def _parquet(path: Path, categories: Sequence[str] = ()) -> Any:
    """Open a file; read the text columns in `categories` as categories."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, read_dictionary=list(categories))


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _to_pandas(table: Any) -> pd.DataFrame:
    """Return a table in pandas; a missing value makes no floats of integers."""
    import pyarrow as pa

    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_integer(column.type) and column.null_count:
            name_of_type = str(column.type).replace("uint", "UInt").replace("int", "Int")
            nullable = {column.type: pd.api.types.pandas_dtype(name_of_type)}
            frame[name] = column.to_pandas(types_mapper=nullable.get)
    return frame


def _check_sheets(path: Path) -> None:
    """Refuse a file with cells so far apart that the table between them does not fit in memory."""
    with zipfile.ZipFile(path) as packed:
        for one in packed.infolist():  # a sheet may have any name
            with packed.open(one) as sheet:
                rows, columns = _extent(sheet)
            check_expansion(path, 8 * rows * columns, AS_CSV)


def _extent(sheet: IO[bytes]) -> tuple[int, int]:
    """Return the numbers of the last row and column with a cell; cells may have no names."""
    rows = columns = row = column = 0

    def start(name: str, about: dict[str, str]) -> None:
        nonlocal rows, columns, row, column
        tag, at = name.rpartition(":")[2], about.get("r", "")
        if tag == "row":
            row, column = int(at or row + 1), 0
        elif tag == "c":
            letters = at.rstrip("0123456789")
            column = _number(letters[:4]) if letters else column + 1
            rows, columns = max(rows, row), max(columns, column)

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    with suppress(expat.ExpatError):  # an image, such as a logo
        parser.ParseFile(sheet)
    return rows, columns


@cache
def _number(letters: str) -> int:
    """Return the number of a column of Excel.

    >>> _number("A"), _number("Z"), _number("AA"), _number("XFD")
    (1, 26, 27, 16384)
    """
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number


def _excel(path: Path) -> ExcelFile:
    if find_spec("openpyxl") is None:
        raise InputError(
            f"{path} is of Excel: install pfedfair[excel] to read it, or save it as .csv."
        )
    with warnings.catch_warnings(), pd.ExcelFile(path, engine="openpyxl") as book:
        warnings.simplefilter("ignore")  # of formats and styles that are not read
        first, *others = map(str, book.sheet_names)
        names = book.parse(first, header=None, nrows=1).dropna(axis=1)
        if names.empty:
            raise InputError(f"{path} is empty: it should have a line of names, one for each row.")
        _unique(path, [str(name).strip() for name in names.iloc[0]])
        frame = book.parse(first, dtype=object, keep_default_na=False, na_values=[""])
        frame = frame.rename(columns=lambda name: str(name).strip())
    note = f"{path.name} has several sheets: '{first}' was read, not {', '.join(others)}."
    return ExcelFile(path, tuple(map(str, frame)), (note,) if others else (), frame=frame)


def _unique(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Refuse a table with two columns of one name."""
    twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if twice is not None:
        raise InputError(f"{path} has more than one column '{twice}': rename or delete one.")
    return tuple(names)
