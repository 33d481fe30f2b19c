"""A table of people: raw columns, a label Y, a sensitive attribute S, and their encoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
MOST_CLASSES = 20
MOST_GROUPS = 20
FEWEST = 30  # rows of a group, where there are more than two


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
    """Numbers standardised, categories one-hot.

    Means and scales come from training rows only; so do a column's categories, unless the data set
    declares them. A category that is not among them encodes as zeros.
    """

    mean: dict[str, float]
    scale: dict[str, float]
    categories: dict[str, tuple[str, ...]]

    @classmethod
    def fit(cls, data: Dataset, rows: np.ndarray, exclude: str | None = None) -> Encoder:
        """Fit on the given rows of `data`; the column `exclude` is not an input."""
        train = data.frame.iloc[rows]
        numeric = [c for c in data.numeric if c != exclude]
        mean = {c: float(train[c].mean()) for c in numeric}
        # A constant's standard deviation is a rounding error, not a scale.
        varies = {c: train[c].nunique() > 1 for c in numeric}
        scale = {c: float(train[c].std(ddof=0)) if varies[c] else 1.0 for c in numeric}
        categorical = {c: levels for c, levels in data.categorical.items() if c != exclude}
        seen = {c: levels or _levels(train[c]) for c, levels in categorical.items()}
        return cls(mean, scale, seen)

    @property
    def width(self) -> int:
        return len(self.mean) + sum(len(levels) for levels in self.categories.values())

    def transform(self, frame: pd.DataFrame) -> np.ndarray:
        """Return the inputs of the network, float32 of shape ``(len(frame), width)``."""
        absent = [c for c in (*self.mean, *self.categories) if c not in frame]
        if absent:
            raise InputError(f"The rows lack the column '{absent[0]}', an input of the model.")
        parts = [(_numbers(frame[c], c) - self.mean[c])[:, None] / self.scale[c] for c in self.mean]
        for column, levels in self.categories.items():
            values = _text(frame[column])
            parts.append(values[:, None] == np.asarray(levels, dtype=object)[None, :])
        none = np.zeros((len(frame), 0), dtype=np.float32)
        return np.concatenate([none, *(p.astype(np.float32) for p in parts)], axis=1)


@dataclass(frozen=True)
class Dataset:
    """Raw rows and the roles of their columns.

    `y` and `s` are codes from 0; `label_names` and `group_names` say what they stand for.
    An empty tuple in `categorical` means: take the levels from the training rows.
    """

    name: str
    frame: pd.DataFrame = field(repr=False)
    y: np.ndarray = field(repr=False)
    s: np.ndarray = field(repr=False)
    numeric: tuple[str, ...]
    categorical: dict[str, tuple[str, ...]]
    label_names: tuple[str, ...]
    group_names: tuple[str, ...]
    label_column: str
    sensitive_column: str  # or several, with commas between
    hidden: tuple[int, ...] = (64, 64)
    paper_plan: PaperPlan | None = None

    def __len__(self) -> int:
        return len(self.y)

    def by(self, attributes: Sequence[str], merge_groups: bool = False) -> Dataset:
        """Return the same rows with other columns as the sensitive attribute; see `from_frame`."""
        before = self.sensitive_column.split(",")
        for column in attributes:
            if column not in (*self.numeric, *self.categorical, *before):
                able = ", ".join((*before, *self.categorical, *self.numeric))
                raise InputError(f"'{self.name}' has no column '{column}' for S: it has {able}.")
        s, names = cross(self.frame, attributes, merge_groups)
        inputs = self.categorical | dict.fromkeys(before, ())
        return replace(
            self,
            s=s,
            group_names=names,
            sensitive_column=",".join(attributes),
            numeric=tuple(c for c in self.numeric if c not in attributes),
            categorical={c: v for c, v in inputs.items() if c not in attributes},
            paper_plan=None,
        )

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
    merge_groups: bool = False,
    part: bool = False,
) -> Dataset:
    """Make a data set of your own table: columns of numbers are numeric, others categorical.

    Labels and groups are coded from 0 in the order of the numbers or of the alphabet, so of two
    labels the larger is coded as 1.

    Parameters
    ----------
    sensitive
        A column, or several with commas between: then every combination of their values that
        occurs is a group.
    drop
        Columns that are not inputs.
    categorical
        Columns of numbers that are codes, such as a postal code.
    merge_groups
        Put groups of fewer than `FEWEST` rows together, as "a + b"; without it they are refused.
    part
        The rows are a part of a larger table, such as one site's: they may lack labels and groups.
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
    attributes = sensitive.split(",")
    if label in attributes:
        raise InputError(f"Column '{label}' cannot be both the label and the sensitive attribute.")
    for role, column in (("label", label), *(("sensitive", name) for name in attributes)):
        if column not in frame:
            raise InputError(
                f"There is no column '{column}' for the {role}: "
                f"the table has {', '.join(map(str, frame.columns))}."
            )
    least = 1 if part else 2
    y, label_names = codes(frame[label], f"The label column '{label}'", MOST_CLASSES, least)
    s, group_names = cross(frame, attributes, merge_groups, part)
    inputs = [c for c in frame.columns if c not in {label, *attributes, *drop}]
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
    merge_groups: bool = False,
) -> Dataset:
    """Read a CSV or Parquet file as a data set; see `from_frame`."""
    frame = read_table(path)
    return from_frame(frame, label, sensitive, path.stem, drop, categorical, merge_groups)


def read_table(path: Path) -> pd.DataFrame:
    """Read a CSV or Parquet file."""
    if not path.exists():
        raise InputError(f"There is no file {path}.")
    try:
        return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    except Exception as error:
        raise InputError(f"{path} is not a readable table ({first_line(error)}).") from error


def codes(
    column: pd.Series[Any], what: str, most: int, least: int = 2
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Number a column's values from 0; return the numbers, and the values as text."""
    if column.isna().any():
        raise InputError(f"{what} has {int(column.isna().sum())} empty cells: fill or drop them.")
    levels = sorted(column.unique(), key=lambda v: (str(type(v)), v))
    if not least <= len(levels) <= most:
        raise InputError(
            f"{what} must have {least} to {most} different values, it has {len(levels)}."
        )
    code = {level: number for number, level in enumerate(levels)}
    return column.map(code).to_numpy(np.int64, copy=True), tuple(map(str, levels))


def cross(
    frame: pd.DataFrame,
    attributes: Sequence[str],
    merge_groups: bool = False,
    part: bool = False,
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Number the groups that one or several columns make; see `from_frame`."""
    name = " x ".join(attributes)
    what = f"The sensitive column '{name}'"
    least = 1 if part else 2
    each = [codes(frame[c], f"The sensitive column '{c}'", MOST_LEVELS, least) for c in attributes]
    if len(each) == 1:
        s, names = each[0]
    else:
        values = [np.asarray(names, dtype=object)[s] for s, names in each]
        joined = pd.Series([" x ".join(parts) for parts in zip(*values, strict=True)])
        s, names = codes(joined, what, MOST_LEVELS, least)
    size = np.bincount(s)
    few = size < (FEWEST if len(size) > 2 and not part else 0)
    small = np.flatnonzero(few)
    if len(small) and not merge_groups:
        raise InputError(
            f"{what} has {len(small)} groups with fewer than {FEWEST} rows, '{names[small[0]]}' "
            f"with {size[small[0]]} the first: say --merge-groups to make one group of them, or "
            "leave their rows out."
        )
    if len(small):
        kept = [z for z in range(len(size)) if z not in set(small.tolist())]
        rest = sum(size[z] for z in small)
        if rest < FEWEST and kept:  # too few even so: they join the smallest group
            smallest = min(kept, key=lambda z: size[z])
            small = np.append(small, smallest)
            kept.remove(smallest)
        merged = {z: len(kept) for z in small.tolist()} | {z: i for i, z in enumerate(kept)}
        s = np.array([merged[z] for z in range(len(size))])[s]
        names = (*(names[z] for z in kept), " + ".join(names[z] for z in sorted(small)))
    if not least <= len(names) <= MOST_GROUPS:
        raise InputError(
            f"{what} makes {len(names)} group{'s' * (len(names) > 1)}: 2 to {MOST_GROUPS} can be "
            "compared."
        )
    return s, names


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
