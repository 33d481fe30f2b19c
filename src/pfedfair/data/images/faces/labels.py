"""The labels of each image: official ones, else from the columns of an embeddings file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError, near, option
from pfedfair.data.images.faces.layout import Source, count, first
from pfedfair.data.tables.groups import codes, cross
from pfedfair.data.tables.table import MOST_CLASSES

NOT_ATTRIBUTES = ("file", "sha256", "split")
Words = dict[str, tuple[str, ...]]  # of 0 and 1, or of all values in their order


def no_columns(columns: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(index=columns.index)


@dataclass(frozen=True)
class Labels:
    """The labels of a data set.

    Attributes
    ----------
    of
        Returns the attributes of files by name, one row each, missing if unknown.
    file
        The file with the labels, for messages; None if it does not exist.
    listed
        The images that it lists, if it does.
    from_columns
        Returns attributes with the official names from the columns of an embeddings file.
    words
        The meaning of 0 and 1 of a column, or the order of its values.
    aliases
        Other names of columns, in small letters.
    needs
        The message if the file does not exist.
    layout
        Where images should be.
    """

    of: Callable[[Sequence[str]], pd.DataFrame]
    file: str | None
    listed: frozenset[str] | None = None
    from_columns: Callable[[pd.DataFrame], pd.DataFrame] = no_columns
    words: Words = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    needs: str = ""
    layout: str = "images"

    @property
    def in_names(self) -> bool:
        """Whether the names of the files are the labels."""
        return self.file is not None and self.listed is None


def describe(
    labels: Labels, files: Sequence[str], columns: pd.DataFrame | None
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the attributes of these files, a row for each, and notes.

    `columns` are those of their embeddings file, in the same order.
    """
    table = labels.of(files).reset_index(drop=True)
    notes = []
    if columns is not None:
        columns = columns.reset_index(drop=True)
        for name, values in labels.from_columns(columns).items():
            if name not in table:
                table[name] = values
                continue
            official = table[name]
            differ = int((official.notna() & values.notna() & (official != values)).sum())
            if differ:
                notes.append(
                    f"{count(differ, 'row')} of the embeddings file and of {labels.file} disagree "
                    f"in '{name}': the latter holds."
                )
            table[name] = official.where(official.notna(), values)
        used = {str(name).lower() for name in table} | {"file", "embedding", *labels.aliases}
        rest = [c for c in columns if str(c).lower() not in used]
        table = table.join(columns[rest])
    table.insert(0, "file", list(files))
    return table, tuple(notes)


def flags(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of 1 and 0, or of 1 and -1, as 1 and 0; missing values stay missing.

    >>> flags(pd.Series([1, -1, None])).tolist()
    [1.0, 0.0, nan]
    """
    values = column.astype(object).where(column.notna())
    numbers = pd.to_numeric(values, errors="coerce").astype(float)
    odd = values[numbers.isna() & values.notna() & values.ne("")]
    if len(odd):
        raise InputError(
            f"The column '{column.name}' of the embeddings file has '{odd.iloc[0]}', which cannot "
            "be read: write 1 or 0 in it."
        )
    return numbers.gt(0).astype(float).where(numbers.notna())


def texts(column: pd.Series[Any], example: str) -> pd.Series[Any]:
    """Return a column of words; refuse numbers, whose meaning is unknown."""
    values = column.astype(object).where(column.notna())
    given = values.dropna()
    odd = given[~given.map(lambda v: isinstance(v, str) and pd.isna(_number(v)))]
    if len(odd):
        raise InputError(
            f"The column '{column.name}' of the embeddings file has '{odd.iloc[0]}', which may "
            f"mean anything: write {example} in it, or leave the column out."
        )
    return values


def _number(text: str) -> float:
    return float(pd.to_numeric(text, errors="coerce"))


def whole_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Convert columns that have no more missing values back to integers."""
    table = table.copy(deep=False)
    for name, column in table.items():
        if column.dtype.kind == "f" and column.notna().all() and (column == column.round()).all():
            table[name] = column.astype(np.int8 if column.between(0, 1).all() else np.int64)
    return table


def resolve(name: str, table: pd.DataFrame, labels: Labels, source: Source) -> str:
    """Return the column of this name, ignoring case."""
    able = [str(c) for c in table.columns if c not in NOT_ATTRIBUTES]
    names = {column.lower(): column for column in able}
    low = labels.aliases.get(name.strip().lower(), name.strip().lower())
    if low in names:
        return names[low]
    if labels.file is None and labels.needs:
        have = f"there is only {', '.join(able)}" if able else "put it there"
        raise InputError(f"{source.folder} {labels.needs} to read '{name}' from: {have}.")
    if not able:
        raise InputError(
            f"{source.folder} has no column to read '{name}' from: put labels beside the "
            "embeddings, or give the folder of the images with a manifest.csv."
        )
    close = get_close_matches(low, names, n=1, cutoff=0.7)
    listed = near(names[close[0]] if close else name, able) + ", ".join(able)
    raise InputError(f"There is no column '{name}' of {source.name}: {listed}.")


def missing_labels(
    table: pd.DataFrame, columns: Sequence[str], source: Source, labels: Labels, skip: bool
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return which rows have all needed labels, and notes on the others."""
    known = table[list(columns)].notna().all(axis=1).to_numpy()
    if known.all():
        return known, ()
    files = table["file"].to_numpy(str)[~known]
    empty = [c for c in columns if table[c].isna().any()]
    is_one = len(files) == 1
    if not known.any():
        where = f"in {labels.file} or beside an embedding" if labels.file else "there"
        raise InputError(
            f"No image of {source.name} has its {' and '.join(empty)} {where}: see that files have "
            f"the names that labels have ({first(files)})."
        )
    if labels.in_names:
        return known, (
            f"{count(len(files), 'file')} of {source.name} {'has' if is_one else 'have'} no good "
            f"name ({labels.file}) and {'is' if is_one else 'are'} left out: {first(files)}.",
        )
    what = f"{count(len(files), 'image')} of {source.name} {'has' if is_one else 'have'}"
    if not skip:
        where = f" in {labels.file} or beside the embeddings" if labels.file else ""
        raise InputError(
            f"{what} no value of {' or '.join(empty)}{where}: say "
            f"{option('skip_missing', True)} to leave {'it' if is_one else 'them'} out "
            f"({first(files)})."
        )
    message = f"{what} no value of {' or '.join(empty)} and {'is' if is_one else 'are'} left out"
    return known, (f"{message}: {first(files)}.",)


def absent(source: Source, labels: Labels, skip: bool) -> tuple[str, ...]:
    """Refuse listed images that do not exist, or return a note."""
    gone = (labels.listed or frozenset()) - set(source.files)
    if not gone:
        return ()
    is_one = len(gone) == 1
    what = f"{count(len(gone), 'image')} that {labels.file} lists {'is' if is_one else 'are'} not"
    if not skip:
        raise InputError(
            f"{what} in {source.images}: say {option('skip_missing', True)} to leave "
            f"{'it' if is_one else 'them'} out ({first(gone)})."
        )
    return (f"{what} there and left out: {first(gone)}.",)


def label_codes(
    table: pd.DataFrame, column: str, words: Words
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the labels' codes from 0, and their names."""
    y, names = codes(table[column], f"The label column '{column}'", MOST_CLASSES)
    return name_codes(y, names, words.get(column))


def group_codes(
    table: pd.DataFrame, columns: Sequence[str], words: Words, merge: bool
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the groups' codes from 0, and their names."""
    if len(columns) == 1:
        s, names = cross(table, columns, merge)
        return name_codes(s, names, words.get(columns[0]))
    flags = [c for c in columns if c in words and table[c].dtype.kind in "iub"]
    texts = {c: table[c].map(dict(enumerate(words[c]))) for c in flags}
    return cross(table.assign(**texts), columns, merge)


def name_codes(
    code: np.ndarray, names: tuple[str, ...], words: Sequence[str] | None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Name 0 and 1 by their words; sort other names by the words.

    >>> name_codes(np.array([0, 1]), ("10-19", "3-9"), ("0-2", "3-9", "10-19"))
    (array([1, 0]), ('3-9', '10-19'))
    """
    if words and names == ("0", "1"):
        return code, tuple(words)
    if words and set(names) <= set(words):
        order = sorted(range(len(names)), key=lambda i: words.index(names[i]))
        return np.argsort(order)[code], tuple(names[i] for i in order)
    return code, names
