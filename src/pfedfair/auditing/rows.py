"""The rows of an audit: labels, decisions and groups as codes, and which rows are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError, has_column, known
from pfedfair.data.tables.cells import canonical, factor, floats, order
from pfedfair.data.tables.reading import read_typed

MOST_CLASSES = 20
MOST_GROUPS = 100


@dataclass(frozen=True, eq=False)
class Rows:
    """Labels, decisions, groups and clients of rows, as codes from 0.

    The last of `labels` is the positive one. `score` is NaN where it is missing. `numbers` are the
    positions of the rows in the table.
    """

    y: np.ndarray
    decided: np.ndarray
    second: np.ndarray | None
    s: np.ndarray
    client: np.ndarray
    score: np.ndarray | None
    labels: tuple[str, ...]
    groups: tuple[str, ...]
    clients: tuple[str, ...]
    numbers: np.ndarray
    notes: tuple[str, ...]

    @property
    def has_clients(self) -> bool:
        return self.clients != ("",)


def read(
    table: pd.DataFrame | str | Path, columns: Mapping[str, Any], positive: Any = None
) -> tuple[pd.DataFrame, Rows]:
    """Read a table, and encode the columns of an audit by their roles."""
    attributes, score = columns["sensitive"], columns["score"]
    if isinstance(table, str | Path):
        named = {*attributes, *(columns[role] for role in columns if role != "sensitive")}
        frame = read_typed(Path(table), named - {score, None})
    else:
        frame = table
    frame = frame.rename(columns=str).reset_index(drop=True)
    roles = {"the label": columns["label"], "the prediction": columns["prediction"],
             "the second prediction": columns["against"], "the client": columns["client"],
             "the score": score}  # fmt: skip
    given = {what: column for what, column in roles.items() if column is not None}
    given |= {f"the group ({column})": column for column in attributes}
    for what, column in given.items():
        has_column(column, frame.columns, f"for {what.partition(' (')[0]}")
        if frame.columns.tolist().count(column) > 1:
            raise InputError(f"The table has more than one column '{column}': rename one.")
    every = [*(c for c in roles.values() if c is not None), *attributes]
    twice = [column for column in every if every.count(column) > 1]
    if twice:
        raise InputError(f"Column '{twice[0]}' is named twice: every role has its own column.")
    if not len(frame):
        raise InputError("The table has no rows.")
    coded = {what: factor(frame[c]) for what, c in given.items() if what != "the score"}
    complete = np.all([codes >= 0 for codes, _ in coded.values()], axis=0)
    notes = [*_left_out(coded, given, complete)]
    chosen = np.flatnonzero(complete)
    if not len(chosen):
        raise InputError("Every row has a missing value: there is nothing to audit.")
    coded = {what: _recode(codes[chosen], words) for what, (codes, words) in coded.items()}
    decisions = ["the prediction", *(["the second prediction"] if columns["against"] else [])]
    for what in decisions:
        codes, words = coded[what]
        coded[what] = codes, _as_labels(words, coded["the label"][1])
    labels, label_notes = _labels(coded, decisions, given, positive)
    notes += label_notes
    encoded = {what: _recoded(*coded[what], labels) for what in ("the label", *decisions)}
    s, groups = _cross([coded[f"the group ({column})"] for column in attributes], attributes)
    if len(groups) == 1:
        notes.append(f"all rows are of one group, {groups[0]}: there is no gap to measure.")
    codes, words = coded.get("the client", (np.zeros(len(chosen), dtype=np.int64), [""]))
    clients = tuple(sorted(words, key=order))
    numbers = None
    if score is not None:
        numbers = floats(frame[score])[chosen]
        absent = int(np.isnan(numbers).sum())
        if absent == len(chosen):
            raise InputError(f"Column '{score}' has no numbers: the score must be one.")
        if absent:
            notes.append(f"{absent} rows have no number as their score: AUC and calibration leave "
                         "them out.")  # fmt: skip
    return frame, Rows(
        encoded["the label"],
        encoded["the prediction"],
        encoded.get("the second prediction"),
        s,
        _recoded(codes, words, clients),
        numbers,
        labels,
        groups,
        clients,
        chosen,
        tuple(notes),
    )


def columns_of(sensitive: str | Sequence[str]) -> list[str]:
    """Return the columns that make groups, from a list or a text with commas."""
    named = sensitive.split(",") if isinstance(sensitive, str) else sensitive
    attributes = [str(column).strip() for column in named]
    if not any(attributes):
        raise InputError("Name the columns with the groups to compare.")
    return attributes


def _as_labels(words: list[str], labels: list[str]) -> list[str]:
    """Return decisions in the spelling of labels if one is true or false and the other 1 or 0."""
    for one, other in (("False", "True"), ("0", "1")), (("0", "1"), ("False", "True")):
        if set(words) <= set(one) and set(labels) <= set(other):
            return [other[one.index(word)] for word in words]
    return words


def _left_out(
    coded: dict[str, tuple[np.ndarray, list[str]]], given: dict[str, str], complete: np.ndarray
) -> list[str]:
    if complete.all():
        return []
    missing = {given[what]: int((codes < 0).sum()) for what, (codes, _) in coded.items()}
    which = ", ".join(f"{column} {n}" for column, n in missing.items() if n)
    number = int((~complete).sum())
    return [f"{number} of {len(complete)} rows are left out, as a value is missing ({which})."]


def _recode(codes: np.ndarray, words: list[str]) -> tuple[np.ndarray, list[str]]:
    """Return codes without the values that only rows left out have."""
    seen, new = np.unique(codes, return_inverse=True)
    return new, [words[k] for k in seen]


def _recoded(codes: np.ndarray, words: list[str], names: Sequence[str]) -> np.ndarray:
    """Return codes of `words` as codes of `names`."""
    number = {name: k for k, name in enumerate(names)}
    new: np.ndarray = np.array([number[word] for word in words], dtype=np.int64)[codes]
    return new


def _labels(
    coded: dict[str, tuple[np.ndarray, list[str]]],
    decisions: list[str],
    given: dict[str, str],
    positive: Any,
) -> tuple[tuple[str, ...], list[str]]:
    """Return all labels and decisions, the positive one last; and notes on unexpected ones."""
    real = coded["the label"][1]
    notes = [f"all rows have the label {real[0]}."] if len(real) == 1 else []
    for what in decisions:
        codes, words = coded[what]
        if len(words) > MOST_CLASSES:
            raise InputError(
                f"Column '{given[what]}' has {len(words)} different values, at most {MOST_CLASSES} "
                "are possible: a column of probabilities is a score, decisions are labels."
            )
        strange = [word for word in words if word not in real]
        if len(strange) == len(words):
            raise InputError(
                f"Predictions and labels have no value in common: '{given[what]}' has "
                f"{', '.join(words[:5])}, '{given['the label']}' has {', '.join(real[:5])}."
            )
        for word in strange if len(real) > 1 else ():
            n = int((codes == words.index(word)).sum())
            notes.append(f"{n} predictions in '{given[what]}' are {word}, which no label is: "
                         "they count as wrong.")  # fmt: skip
    if len(real) > MOST_CLASSES:
        raise InputError(f"Column '{given['the label']}' has {len(real)} different values, "
                         f"at most {MOST_CLASSES} are possible.")  # fmt: skip
    names = sorted({*real, *(w for what in decisions for w in coded[what][1])}, key=order)
    if positive is not None:
        chosen = known("label", str(canonical(positive)), names)
        names = [*(name for name in names if name != chosen), chosen]
    if len(names) == 1:
        notes.append(f"labels and predictions have one value only, {names[0]}.")
        other = {"0": "1", "1": "0", "False": "True", "True": "False"}.get(names[0], "another")
        negative = positive is None and names[0] in ("0", "False")
        names = [names[0], other] if negative else [other, names[0]]
    return tuple(names), notes


def _cross(
    columns: list[tuple[np.ndarray, list[str]]], attributes: Sequence[str]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return codes and names of the groups by one or several columns, of those that occur."""
    values = [sorted(words, key=order) for _, words in columns]
    codes = [_recoded(*column, names) for column, names in zip(columns, values, strict=True)]
    cells, s = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
    if len(cells) > MOST_GROUPS:
        raise InputError(
            f"'{' x '.join(attributes)}' makes {len(cells)} groups, and at most {MOST_GROUPS} can "
            "be compared: make bands of a column of numbers first."
        )
    names = [" x ".join(values[k][v] for k, v in enumerate(cell)) for cell in cells]
    return s.ravel(), tuple(names)
