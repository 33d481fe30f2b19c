"""A table of your own as a data set."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from pfedfair.data.dataset import Dataset
from pfedfair.data.encoder import numbers
from pfedfair.data.groups import MOST_LEVELS, codes, cross
from pfedfair.errors import InputError, has_column
from pfedfair.files import first_line

MOST_CLASSES = 20


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
    for column in (*drop, *categorical):
        has_column(column, frame, "to drop or to take as categories")
    attributes = sensitive.split(",")
    if label in attributes:
        raise InputError(f"Column '{label}' cannot be both the label and the sensitive attribute.")
    has_column(label, frame, "for the label")
    for column in attributes:
        has_column(column, frame, "for the sensitive attribute")
    least = 1 if part else 2
    y, label_names = codes(frame[label], f"The label column '{label}'", MOST_CLASSES, least)
    s, group_names = cross(frame, attributes, merge_groups, part)
    inputs = [c for c in frame.columns if c not in {label, *attributes, *drop}]
    numeric = [c for c in inputs if pd.api.types.is_numeric_dtype(frame[c])]
    numeric = [c for c in numeric if c not in categorical]
    for column in inputs:
        if column in numeric:
            numbers(frame[column], column)
        elif frame[column].nunique() > MOST_LEVELS:
            raise InputError(
                f"Column '{column}' has {frame[column].nunique()} different values, more than "
                f"{MOST_LEVELS}: drop it, or make numbers or fewer categories of it."
            )
    levels: dict[str, tuple[str, ...]] = {c: () for c in inputs if c not in numeric}
    return Dataset(
        name, frame, y, s, tuple(numeric), levels, label_names, group_names, label, sensitive
    )


def read_table(path: Path) -> pd.DataFrame:
    """Read a CSV or Parquet file."""
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    except Exception as error:
        raise InputError(f"{path} is not a readable table ({first_line(error)}).") from error
