"""Read a table: text, compressed text, Parquet or Excel."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from pfedfair._util.errors import InputError
from pfedfair.data.tables import delimited, ragged

TEXT = (".csv", ".tsv", ".txt")
PARQUET, EXCEL = ".parquet", ".xlsx"
PACKED = (".gz", ".bz2", ".xz")
OLD = (".xls", ".xlsb", ".ods", ".sav", ".dta", ".sas7bdat")  # formats of other programs
ENDINGS = (*TEXT, PARQUET, EXCEL)
MAGIC = {b"PAR1": PARQUET, b"PK\x03\x04": EXCEL}


class ReadingWarning(UserWarning):
    """The format of a file was inferred, perhaps wrongly."""


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
    """Read a table; issue notes on how it was read as `ReadingWarning`."""
    frame, notes = read(path)
    for note in notes:
        warnings.warn(note, ReadingWarning, stacklevel=2)
    return frame


def read(path: Path) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Read a table; return it and notes on how it was read."""
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    if ending(path) in OLD:
        raise InputError(f"{path} cannot be read: save it as .csv, .xlsx or .parquet.")
    with path.open("rb") as file:
        begin = file.read(4)
    kind = MAGIC.get(begin, "")
    notes: tuple[str, ...] = ()
    try:
        if kind == PARQUET:
            frame = pd.read_parquet(path)
        elif kind == EXCEL:
            frame, notes = _excel(path)
        elif begin and ending(path) in (PARQUET, EXCEL):
            raise ValueError(f"it is no {ending(path)} file")
        else:
            frame, notes = delimited.read(delimited.look(path))
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise InputError(f"{path} is not a readable table ({ragged.describe(error)}).") from error
    return frame, notes


def _excel(path: Path) -> tuple[pd.DataFrame, tuple[str, ...]]:
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
        named = [str(name).strip() for name in names.iloc[0]]
        twice = next((name for k, name in enumerate(named) if name in named[:k]), None)
        if twice is not None:
            raise InputError(f"{path} has more than one column '{twice}': rename or delete one.")
        frame = book.parse(first).rename(columns=lambda name: str(name).strip())
    note = f"{path.name} has several sheets: '{first}' was read, not {', '.join(others)}."
    return frame, (note,) if others else ()
