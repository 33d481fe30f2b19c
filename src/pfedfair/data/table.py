"""A table of people: raw columns, a label Y, a sensitive attribute S, and their encoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pfedfair.errors import InputError
from pfedfair.files import first_line

if TYPE_CHECKING:
    from pfedfair.federation import Federation
    from pfedfair.partition import Plan

MISSING = "?"
MOST_LEVELS = 100  # a text column with more values is an identifier, not a category


@dataclass(frozen=True)
class PaperPlan:
    """How the paper splits a data set: rows of (S=0, S=1) at the two kinds of client."""

    under: tuple[int, int]
    over: tuple[int, int]
    n_under: int
    n_over: int
    test_fraction: float

    @property
    def rows(self) -> int:
        return self.n_under * sum(self.under) + self.n_over * sum(self.over)


@dataclass(frozen=True)
class Encoder:
    """Numbers standardised, categories one-hot, S (0 or 1) as the last input.

    Means and scales come from training rows only; so do a column's categories, unless the data set
    declares them. A category that is not among them encodes as zeros.
    """

    mean: dict[str, float]
    scale: dict[str, float]
    categories: dict[str, tuple[str, ...]]
    sensitive_as_input: bool = True

    @classmethod
    def fit(
        cls,
        data: Dataset,
        rows: np.ndarray,
        sensitive_as_input: bool = True,
        exclude: str | None = None,
    ) -> Encoder:
        """Fit on the given rows of `data`; the column `exclude` is not an input."""
        train = data.frame.iloc[rows]
        numeric = [c for c in data.numeric if c != exclude]
        mean = {c: float(train[c].mean()) for c in numeric}
        # A constant's standard deviation is a rounding error, not a scale.
        varies = {c: train[c].nunique() > 1 for c in numeric}
        scale = {c: float(train[c].std(ddof=0)) if varies[c] else 1.0 for c in numeric}
        categorical = {c: levels for c, levels in data.categorical.items() if c != exclude}
        seen = {c: levels or _levels(train[c]) for c, levels in categorical.items()}
        encoder = cls(mean, scale, seen, sensitive_as_input)
        if encoder.width == 0:
            raise InputError(f"'{data.name}' has no column left to predict from.")
        return encoder

    @property
    def width(self) -> int:
        hot = sum(len(levels) for levels in self.categories.values())
        return len(self.mean) + hot + self.sensitive_as_input

    def transform(self, frame: pd.DataFrame, s: np.ndarray | None) -> np.ndarray:
        """Return the inputs of the network, float32 of shape ``(len(frame), width)``."""
        absent = [c for c in (*self.mean, *self.categories) if c not in frame]
        if absent:
            raise InputError(f"The rows lack the column '{absent[0]}', an input of the model.")
        parts = [(_numbers(frame[c], c) - self.mean[c])[:, None] / self.scale[c] for c in self.mean]
        for column, levels in self.categories.items():
            values = _text(frame[column])
            parts.append(values[:, None] == np.asarray(levels, dtype=object)[None, :])
        if self.sensitive_as_input:
            if s is None:
                raise InputError(
                    "The model takes the sensitive attribute as an input: give sensitive_features."
                )
            parts.append(np.asarray(s)[:, None])
        return np.concatenate([p.astype(np.float32) for p in parts], axis=1)


@dataclass(frozen=True)
class Dataset:
    """Raw rows and the roles of their columns.

    `y` and `s` are 0/1 codes; `label_names` and `group_names` say what the codes stand for.
    An empty tuple in `categorical` means: take the levels from the training rows.
    """

    name: str
    frame: pd.DataFrame = field(repr=False)
    y: np.ndarray = field(repr=False)
    s: np.ndarray = field(repr=False)
    numeric: tuple[str, ...]
    categorical: dict[str, tuple[str, ...]]
    label_names: tuple[str, str]
    group_names: tuple[str, str]
    label_column: str
    sensitive_column: str
    hidden: tuple[int, ...] = (64, 64)
    paper_plan: PaperPlan | None = None

    def __len__(self) -> int:
        return len(self.y)

    def federate(self, plan: Plan, seed: int = 0, sensitive_as_input: bool = True) -> Federation:
        """Deal the rows to clients as `plan` says, and encode them."""
        from pfedfair.federation import federate

        return federate(self, plan, seed, sensitive_as_input)


def from_frame(
    frame: pd.DataFrame,
    label: str,
    sensitive: str,
    name: str = "table",
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
) -> Dataset:
    """Make a data set of your own table: columns of numbers are numeric, others categorical.

    The larger of two numbers, or the later of two words, is coded as 1.

    Parameters
    ----------
    drop
        Columns that are not inputs.
    categorical
        Columns of numbers that are codes, such as a postal code.
    """
    frame = frame.rename(columns=str)
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise InputError(f"The table has more than one column '{twice[0]}': rename one.")
    if isinstance(drop, str) or isinstance(categorical, str):
        raise InputError("drop and categorical are lists of columns, not one name.")
    unknown = [c for c in (*drop, *categorical) if c not in frame]
    if unknown:
        raise InputError(f"There is no column '{unknown[0]}' to drop or to take as categories.")
    if label == sensitive:
        raise InputError(f"Column '{label}' cannot be both the label and the sensitive attribute.")
    for role, column in (("label", label), ("sensitive", sensitive)):
        if column not in frame:
            raise InputError(
                f"There is no column '{column}' for the {role}: "
                f"the table has {', '.join(map(str, frame.columns))}."
            )
    y, label_names = _binary(frame[label], f"The label column '{label}'")
    s, group_names = _binary(frame[sensitive], f"The sensitive column '{sensitive}'")
    inputs = [c for c in frame.columns if c not in {label, sensitive, *drop}]
    numeric = [c for c in inputs if pd.api.types.is_numeric_dtype(frame[c])]
    numeric = [c for c in numeric if c not in categorical]
    for column in inputs:
        if column in numeric:
            _numbers(frame[column], column)
        elif frame[column].nunique() > MOST_LEVELS:
            raise InputError(
                f"Column '{column}' has {frame[column].nunique()} different values, more than "
                f"{MOST_LEVELS}: drop it, or make numbers or fewer categories of it."
            )
    levels: dict[str, tuple[str, ...]] = {c: () for c in inputs if c not in numeric}
    return Dataset(
        name, frame, y, s, tuple(numeric), levels, label_names, group_names, label, sensitive
    )


def from_file(
    path: Path,
    label: str,
    sensitive: str,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
) -> Dataset:
    """Read a CSV or Parquet file as a data set; see `from_frame`."""
    return from_frame(read_table(path), label, sensitive, path.stem, drop, categorical)


def read_table(path: Path) -> pd.DataFrame:
    """Read a CSV or Parquet file."""
    if not path.exists():
        raise InputError(f"There is no file {path}.")
    try:
        return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    except Exception as error:
        raise InputError(f"{path} is not a readable table ({first_line(error)}).") from error


def _binary(column: pd.Series[Any], what: str) -> tuple[np.ndarray, tuple[str, str]]:
    if column.isna().any():
        raise InputError(f"{what} has {int(column.isna().sum())} empty cells: fill or drop them.")
    levels = sorted(column.unique(), key=lambda v: (str(type(v)), v))
    if len(levels) != 2:
        raise InputError(f"{what} must have two values, it has {len(levels)}.")
    return (column == levels[1]).to_numpy(np.int64), (str(levels[0]), str(levels[1]))


def _numbers(column: pd.Series[Any], name: str) -> np.ndarray:
    values = column.to_numpy(np.float64, na_value=np.nan)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise InputError(
            f"Column '{name}' has {len(bad)} empty or infinite numbers, the first in row "
            f"{bad[0]}: fill or drop them."
        )
    return values


def _text(column: pd.Series[Any]) -> np.ndarray:
    return column.astype(object).where(column.notna(), MISSING).astype(str).to_numpy(object)


def _levels(column: pd.Series[Any]) -> tuple[str, ...]:
    return tuple(sorted(set(_text(column))))
