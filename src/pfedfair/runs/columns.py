"""Columns given by users: frames of any library, arrays, column names; random draws by row."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError, has_column
from pfedfair._util.notebook import abbreviate
from pfedfair.data import Dataset
from pfedfair.data.tables.missing_groups import REFUSE
from pfedfair.data.tables.options import TableOptions
from pfedfair.data.tables.table import to_dataset

MIN_ROWS = 20  # of a client, below which a warning names it


def to_pandas(values: Any) -> Any:
    """Convert data frames and series of other libraries to pandas; return all else unchanged.

    >>> to_pandas([1, 2])
    [1, 2]
    """
    if isinstance(values, pd.DataFrame | pd.Series | np.ndarray | list | tuple):
        return values
    try:
        import narwhals
    except ImportError:
        return values
    known = narwhals.from_native(values, allow_series=True, pass_through=True)
    return known.to_pandas() if hasattr(known, "to_pandas") else values


def per_row(
    values: Any, frame: pd.DataFrame, what: str, default: Sequence[str] = ()
) -> pd.DataFrame | None:
    """Return values for all rows of `frame`, as columns.

    `values` has one or several values for each row, or names columns of `frame`. If it is None,
    the columns `default` are returned, or None if there are none.
    """
    if values is None:
        return frame[[*default]] if default else None
    if isinstance(values, str) or _names(values, frame):
        names = [values] if isinstance(values, str) else list(values)
        for name in names:
            has_column(name, frame, f"of X for {what}")
        return frame[names]
    values = to_pandas(values)
    if isinstance(values, pd.Series):
        values = values.to_frame(what if values.name is None else values.name)
    elif not isinstance(values, pd.DataFrame):
        cells = np.asarray(values)
        if cells.ndim not in (1, 2):
            raise InputError(f"{what} must have a value for each row, or columns of them.")
        names = [what] if cells.ndim == 1 else [f"{what} {k}" for k in range(cells.shape[1])]
        values = pd.DataFrame(cells.reshape(len(cells), -1), columns=names)
    if len(values) != len(frame):
        raise InputError(f"X has {len(frame)} rows, {what} has {len(values)}.")
    columns: pd.DataFrame = values.rename(columns=str).reset_index(drop=True)
    return columns


def one_per_row(values: Any, frame: pd.DataFrame, what: str) -> pd.DataFrame | None:
    """Return values for all rows as one column, see `per_row`."""
    found = per_row(values, frame, what)
    if found is not None and found.shape[1] > 1:
        raise InputError(f"{what} has {found.shape[1]} columns: one says whose a row is.")
    return found


def _names(values: Any, frame: pd.DataFrame) -> bool:
    texts = isinstance(values, list) and all(isinstance(v, str) for v in values)
    return texts and len(values) != len(frame) and set(values) <= set(frame)


def within(frame: pd.DataFrame, given: pd.DataFrame | None) -> list[str]:
    """Return the columns of `frame` that equal the column of `given` with the same name."""
    if given is None:
        return []
    return [c for c in map(str, given) if c in frame and _texts(frame[c]) == _texts(given[c])]


def _texts(column: pd.Series[Any]) -> list[str]:
    return list(map(str, column))


def append_columns(
    frame: pd.DataFrame, extra: pd.DataFrame | None
) -> tuple[pd.DataFrame, list[str]]:
    """Append columns to a frame under unused names; return the frame and these names."""
    names = []
    for name in extra if extra is not None else ():
        names.append(unused_name(str(name).replace(",", " "), frame))
        frame = frame.assign(**{names[-1]: extra[name].to_numpy()})  # type: ignore[index]
    return frame, names


def unused_name(name: str, frame: pd.DataFrame) -> str:
    """Return a name that no column has.

    >>> unused_name("y", pd.DataFrame(columns=["y", "y 2"]))
    'y 3'
    """
    candidates = (f"{name} {k}" if k > 1 else name for k in range(1, len(frame.columns) + 2))
    return next(candidate for candidate in candidates if candidate not in frame)


def dataset(
    frame: pd.DataFrame,
    codes: np.ndarray,
    labels: tuple[str, ...],
    groups: pd.DataFrame | None,
    owners: pd.DataFrame | None,
    persons: pd.DataFrame | None,
    options: TableOptions,
) -> tuple[Dataset, str | None]:
    """Return inputs, labels, groups, owners and persons as a data set; and its column of owners.

    Without groups all rows are in the first of two groups, and the second is empty.
    """
    given = set(map(str, frame))
    label = unused_name("y", frame)
    frame = frame.assign(**{label: codes})
    frame, sensitive = append_columns(frame, groups)
    frame, client = append_columns(frame, owners)
    frame, person = append_columns(frame, persons)
    if groups is None:
        sensitive = [unused_name("S", frame)]
        last = np.arange(len(frame)) == len(frame) - 1  # a table has two groups
        frame = frame.assign(**{sensitive[0]: last.astype(int)})
    categorical, keep = (
        tuple(c for c in names if c in given) for names in (options.categorical, options.keep)
    )
    options = replace(
        options, label=label, sensitive=",".join(sensitive), drop=tuple(client),
        categorical=categorical, keep=keep, person=person[0] if person else None,
        missing_sensitive=REFUSE,
    )  # fmt: skip
    data = to_dataset(frame, options)
    for note in data.notes:
        if note.startswith("Left out"):
            warnings.warn(note, UserWarning, stacklevel=3)
    data = replace(data, label_names=labels)
    if groups is None:
        data = replace(data, s=np.zeros_like(data.s), group_names=("everybody", "nobody"))
    return data, client[0] if client else None


def warn_few_rows(names: Sequence[str], sizes: np.ndarray) -> None:
    """Warn of clients with few rows, where there are several."""
    small = [f"{name} ({n})" for name, n in zip(names, sizes, strict=True) if n < MIN_ROWS]
    if small and len(names) > 1:
        text = f"Clients with fewer than {MIN_ROWS} rows to learn from: {abbreviate(small, 3)}."
        warnings.warn(text, UserWarning, stacklevel=3)
