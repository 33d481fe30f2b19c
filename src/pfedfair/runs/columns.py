"""Columns from users: frames of any library, arrays, names of columns; random draws by row."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError, has_column
from pfedfair._util.notebook import some
from pfedfair.data import Dataset, from_frame

FEW = 20  # rows of a client


def to_pandas(values: Any) -> Any:
    """Make pandas' of the data frames and series of other libraries; all else stays as it is.

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
    values: Any, frame: pd.DataFrame, what: str, otherwise: Sequence[str] = ()
) -> pd.DataFrame | None:
    """Return values for all rows of `frame`, as columns.

    `values` has a value (or several) for each row, or it names columns of `frame`; if it is None,
    it is the columns `otherwise`, or nothing.
    """
    if values is None:
        return frame[[*otherwise]] if otherwise else None
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
    found: pd.DataFrame = values.rename(columns=str).reset_index(drop=True)
    return found


def _names(values: Any, frame: pd.DataFrame) -> bool:
    texts = isinstance(values, list) and all(isinstance(v, str) for v in values)
    return texts and len(values) != len(frame) and set(values) <= set(frame)


def within(frame: pd.DataFrame, given: pd.DataFrame | None) -> list[str]:
    """The columns of `frame` that say the same as those of `given` under the same name."""
    if given is None:
        return []
    return [c for c in map(str, given) if c in frame and _texts(frame[c]) == _texts(given[c])]


def _texts(column: pd.Series[Any]) -> list[str]:
    return list(map(str, column))


def beside(frame: pd.DataFrame, given: pd.DataFrame | None) -> tuple[pd.DataFrame, list[str]]:
    """Put columns beside those of a frame, under names that are free; return these, too."""
    names = []
    for name in given if given is not None else ():
        names.append(free(str(name).replace(",", " "), frame))
        frame = frame.assign(**{names[-1]: given[name].to_numpy()})  # type: ignore[index]
    return frame, names


def free(name: str, frame: pd.DataFrame) -> str:
    """Return a name that no column has.

    >>> free("y", pd.DataFrame(columns=["y", "y 2"]))
    'y 3'
    """
    tried = (f"{name} {k}" if k > 1 else name for k in range(1, len(frame.columns) + 2))
    return next(one for one in tried if one not in frame)


def dataset(
    frame: pd.DataFrame,
    codes: np.ndarray,
    labels: tuple[str, ...],
    groups: pd.DataFrame | None,
    owners: pd.DataFrame | None,
    categorical: Sequence[str],
    keep: Sequence[str],
    merge_groups: bool,
) -> tuple[Dataset, str | None]:
    """Return inputs, codes of labels, groups and owners as a data set; and its column of owners.

    Without groups everybody is in the first of two, and nobody in the second.
    """
    given = set(map(str, frame))
    label = free("y", frame)
    frame = frame.assign(**{label: codes})
    frame, sensitive = beside(frame, groups)
    frame, client = beside(frame, owners)
    if groups is None:
        sensitive = [free("S", frame)]
        last = np.arange(len(frame)) == len(frame) - 1  # a table has two groups
        frame = frame.assign(**{sensitive[0]: last.astype(int)})
    data = from_frame(
        frame,
        label,
        sensitive,
        "X",
        drop=client,
        categorical=[c for c in categorical if c in given],
        merge_groups=merge_groups,
        keep=[c for c in keep if c in given],
    )
    for note in data.notes:
        if note.startswith("Left out"):
            warnings.warn(note, UserWarning, stacklevel=3)
    data = replace(data, label_names=labels)
    if groups is None:
        data = replace(data, s=np.zeros_like(data.s), group_names=("everybody", "nobody"))
    return data, client[0] if client else None


def warn_few_rows(names: Sequence[str], sizes: np.ndarray) -> None:
    """Warn of clients with few rows, where there are several."""
    few = [f"{name} ({n})" for name, n in zip(names, sizes, strict=True) if n < FEW]
    if few and len(names) > 1:
        text = f"Clients with fewer than {FEW} rows to learn from: {some(few, 3)}."
        warnings.warn(text, UserWarning, stacklevel=3)


class RowDraws:
    """Stands for a generator of random numbers: each row's draw follows from the row and a seed.

    Of rows that are all alike, the first, second, ... have different ones.
    """

    def __init__(self, rows: np.ndarray, seed: int) -> None:
        cells = np.ascontiguousarray(rows, np.float64).reshape(len(rows), -1) + 0.0  # -0 is 0
        mixed = _mix(np.full(len(rows), seed, np.uint64))
        for column in cells.T:
            mixed = _mix(mixed ^ np.ascontiguousarray(column).view(np.uint64))
        again = pd.Series(mixed).groupby(mixed).cumcount().to_numpy(np.uint64)
        self.draws = (_mix(mixed + again) >> np.uint64(11)) / 2.0**53

    def random(self, n: int) -> np.ndarray:
        assert n == len(self.draws)
        return self.draws


def _mix(numbers: np.ndarray) -> np.ndarray:
    """Vigna's splitmix64: every bit of the outcome depends on every bit."""
    z = numbers + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))
