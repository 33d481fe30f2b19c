"""A table of your own as a data set."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from pfedfair.data.cells import factor
from pfedfair.data.dataset import Dataset
from pfedfair.data.encoder import ENCODINGS
from pfedfair.data.groups import codes, columns_of, cross, joined
from pfedfair.data.roles import sort_out
from pfedfair.errors import InputError, has_column, known
from pfedfair.files import first_line

MOST_CLASSES = 20


def from_frame(
    frame: pd.DataFrame,
    label: str,
    sensitive: str | Sequence[str],
    name: str = "table",
    drop: str | Sequence[str] = (),
    categorical: str | Sequence[str] = (),
    merge_groups: bool = False,
    part: bool = False,
    keep: str | Sequence[str] = (),
    encoding: str = "piecewise",
) -> Dataset:
    """Make a data set of your own table, whatever its cells are; `notes` says what became of them.

    Columns of numbers are numeric, dates are taken apart, all others are categorical. Identifiers
    and copies of the label or of S are left out. Labels and groups are coded from 0 in the order of
    the numbers or of the alphabet, so of two labels the larger is coded as 1.

    Parameters
    ----------
    sensitive
        A column, or several (a list, or with commas between): then every combination of their
        values that occurs is a group.
    drop
        Columns that are not inputs.
    categorical
        Columns of numbers that are codes, such as a postal code.
    merge_groups
        Put groups of fewer than `FEWEST` rows together, as "a + b"; without it they are refused.
    part
        The rows are a part of a larger table, such as one site's: they may lack labels and groups.
    keep
        Columns that are inputs even if they look like identifiers or copies.
    encoding
        How columns become inputs: "piecewise" (ramps between quantiles of a number) or "standard"
        (numbers standardised).
    """
    frame = frame.rename(columns=str)
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise InputError(f"The table has more than one column '{twice[0]}': rename one.")
    drop, categorical, keep = map(columns_of, (drop, categorical, keep))
    sensitive = joined(sensitive)
    for column in (*drop, *categorical, *keep):
        has_column(column, frame, "to drop, to keep or to take as categories")
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
    told = {"the label": y} | {f"'{c}'": factor(frame[c])[0] for c in attributes}
    roles = sort_out(frame, inputs, categorical, keep, told, part)
    return Dataset(
        name,
        frame,
        y,
        s,
        tuple(roles.numeric),
        dict.fromkeys(roles.categorical, ()),
        label_names,
        group_names,
        label,
        sensitive,
        hidden=(),
        encoding=known("encoding", encoding, ENCODINGS),
        notes=roles.notes(),
        left=roles.left | dict.fromkeys(drop, "is dropped"),
    )


def read_table(path: Path) -> pd.DataFrame:
    """Read a CSV or Parquet file."""
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    except Exception as error:
        raise InputError(f"{path} is not a readable table ({first_line(error)}).") from error
