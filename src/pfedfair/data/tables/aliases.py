"""Find the sensitive columns of a new client's rows, which may have slightly other names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from pfedfair._util.errors import InputError

GENDER, MALE = "gender", "male"  # `male` is 1 or 0, `gender` a word
OF_MALE = dict.fromkeys(("1", "1.0", "True"), "male")
OF_MALE |= dict.fromkeys(("0", "0.0", "False"), "female")


def select_sensitive(rows: pd.DataFrame, columns: str, groups: Sequence[str]) -> pd.DataFrame:
    """Return the columns that a run calls sensitive, under the run's names.

    Case does not matter. A missing `gender` is read from `male`, which is 1 or 0. Numbers that are
    cut into bands remain numbers.
    """
    wanted = columns.split(",")
    values = [_words(groups, at, len(wanted)) for at in range(len(wanted))]
    found = {name: _column(rows, name, words) for name, words in zip(wanted, values, strict=True)}
    return pd.DataFrame(found, index=rows.index)


def has_sensitive(rows: pd.DataFrame, columns: str) -> bool:
    """Whether the rows have the columns that a run calls sensitive."""
    found = [_called(rows, name) is not None for name in columns.split(",")]
    return all(found) or (columns.lower() == GENDER and _called(rows, MALE) is not None)


def _column(rows: pd.DataFrame, name: str, words: set[str]) -> pd.Series[Any]:
    called = _called(rows, name)
    if called is None and name.lower() == GENDER and words <= {"female", "male"}:
        called = _called(rows, MALE)
        if called is not None:
            return _of_male(rows[called])
    if called is None:
        raise InputError(f"The rows lack the column '{name}', the sensitive attribute.")
    if isinstance(rows[called], pd.DataFrame):
        raise InputError(f"The rows have more than one column '{called}': rename one.")
    column: pd.Series[Any] = rows[called]
    if name.lower() == GENDER and not any(map(_is_code, words)):
        odd = column[column.notna() & column.map(str).map(_is_code)]
        if len(odd):
            raise InputError(
                f"The column '{called}' has '{odd.iloc[0]}', which may mean either: write "
                f"{' or '.join(sorted(words))} in it."
            )
    return column


def _called(rows: pd.DataFrame, name: str) -> Any:
    """Return the column of this name, ignoring case; None if there is none."""
    if name in rows:
        return name
    alike = [column for column in rows if str(column).lower() == name.lower()]
    if len(alike) > 1:
        raise InputError(
            f"The rows have the columns {' and '.join(map(str, alike))}: call the sensitive one "
            f"'{name}'."
        )
    return alike[0] if alike else None


def _of_male(column: pd.Series[Any]) -> pd.Series[Any]:
    texts = column.map(str)
    odd = column[~texts.isin(OF_MALE)]
    if len(odd):
        raise InputError(
            f"The column '{column.name}' has '{odd.iloc[0]}': write 1 for men and 0 for women."
        )
    return texts.map(OF_MALE)


def _words(groups: Sequence[str], at: int, number: int) -> set[str]:
    """Return the values of one of several sensitive attributes from the groups' names."""
    parts = (part.split(" x ") for name in groups for part in name.split(" + "))
    return {part[at] for part in parts if len(part) == number}


def _is_code(text: str) -> bool:
    return text in ("True", "False") or bool(pd.notna(pd.to_numeric(text, errors="coerce")))
