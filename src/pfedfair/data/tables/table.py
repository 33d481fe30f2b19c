"""Create a data set from a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError, has_column, known
from pfedfair.data.dataset import Dataset
from pfedfair.data.tables import missing_groups
from pfedfair.data.tables.bands import Bands
from pfedfair.data.tables.cells import factor, floats
from pfedfair.data.tables.dates import PARTS, name_of
from pfedfair.data.tables.duplicates import Protected
from pfedfair.data.tables.encoder import ENCODINGS
from pfedfair.data.tables.formats import NumberFormat, infer, refuse, with_missing_words
from pfedfair.data.tables.groups import codes, cross, put_positive_last
from pfedfair.data.tables.missing_groups import EXCLUDE, GROUP, Missing, known_rows
from pfedfair.data.tables.options import TableOptions
from pfedfair.data.tables.persons import person_notes
from pfedfair.data.tables.reading import read_table as read_table
from pfedfair.data.tables.roles import sort_out

MOST_CLASSES = 20
LARGEST_CODE = 2.0**53


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
    positive: Any = None,
    bands: Mapping[str, Sequence[float]] | None = None,
    test: pd.DataFrame | None = None,
    weight: str | None = None,
    person: str | None = None,
    missing_sensitive: str = "exclude",
    unknown: str | Sequence[str] = (),
) -> Dataset:
    """Create a data set from your table; its `notes` report how the cells were interpreted.

    Columns of numbers are numeric, dates are split into parts, all others are categorical.
    Identifiers and copies of the label or of S are left out. Labels and groups are coded from 0 in
    numerical or alphabetical order (or that of an ordered ``pandas.Categorical``), so of two labels
    the larger is coded as 1, unless `positive` says otherwise.

    Parameters
    ----------
    sensitive
        A column, or several (a list, or with commas between): then every combination of their
        values that occurs is a group.
    drop
        Columns that are not inputs. With S among them, models do not get S.
    categorical
        Columns of numbers that are codes, such as a postal code.
    merge_groups
        Merge groups of fewer than `FEWEST` rows, as "a + b"; by default they are refused.
    part
        The rows are a part of a larger table, such as one site's: labels and groups may be missing.
    keep
        Columns that are inputs even if they look like identifiers or copies.
    encoding
        How columns become inputs: "piecewise" (a piecewise-linear basis with knots at
        quantiles) or "standard" (numbers standardised).
    positive
        The label that counts as positive: the last one, coded 1 if there are two.
    bands
        Sensitive columns of numbers that are cut into groups: ``{"age": [25, 45, 65]}`` makes
        "under 25", "25 to under 45", "45 to under 65" and "65 and over".
    test
        Test rows, with the same columns; then all of `frame` is for training.
    weight
        The column that says how many persons a row represents, such as the weights of a survey. It
        weights training and metrics, and is not an input.
    person
        The column that says whose a row is, such as a patient's number. All rows of a person are on
        one side of every split: training or test, validation, held-out rows, folds. It is not an
        input.
    missing_sensitive
        What becomes of rows whose S is missing: "exclude" leaves them out of training and of every
        measurement, "group" makes a group "missing" of them, "refuse" raises an error.
    unknown
        Further words for a missing S, such as "Unknown"; case does not matter.
    """
    options = TableOptions.parse(
        name=name, label=label, sensitive=sensitive, drop=drop, categorical=categorical,
        merge_groups=merge_groups, keep=keep, positive=positive, bands=bands, test=test,
        weight=weight, person=person, missing_sensitive=missing_sensitive, unknown=unknown,
    )  # fmt: skip
    encoding = known("encoding", encoding, ENCODINGS)
    return replace(to_dataset(frame, options, part), encoding=encoding)


def to_dataset(frame: pd.DataFrame, options: TableOptions, part: bool = False) -> Dataset:
    """Return the data set that a table is by its options, for an additive model."""
    frame = _name_columns(frame)
    options.check(frame)
    attributes, cuts, roles = options.attributes(frame), options.edges, options.roles(frame)
    inputs = [c for c in frame.columns if c not in {*roles, *options.drop}]
    read = [*inputs, *(c for c in frame.columns if c in cuts or c == options.weight)]
    separator = frame.attrs.get("separator", ",")
    formats, format_notes = infer(frame, read, options.categorical, separator)
    raw = frame
    frame, odd = formats.convert(raw)
    formats = with_missing_words(formats, raw, odd)
    written = [c for c, one in formats.columns.items()
               if one != NumberFormat() or _loses_digits(frame[c])]  # fmt: skip
    held, notes = None, [*format_notes]
    if options.test is not None:
        raw_test = _name_columns(options.test)
        test, test_odd = formats.convert(raw_test)
        refuse(test_odd, len(test), "The table for the test")
        frame, held, test_notes = _append_test(frame, test, roles)
        raw = _append_test(raw[written], raw_test, ())[0]
        notes += test_notes
    as_written = {c: raw[c] for c in written}
    label, least, missing = str(options.label), 1 if part else 2, options.missing
    rows, columns, missing_notes = _exclude(frame, attributes, missing, part)
    excluded = len(frame) - len(rows)
    if excluded:
        held = None if held is None else held[rows]
        frame, columns = (table.iloc[rows].reset_index(drop=True) for table in (frame, columns))
        as_written = {c: cells.iloc[rows].reset_index(drop=True) for c, cells in as_written.items()}
    y, label_names = codes(frame[label], f"The label column '{label}'", MOST_CLASSES, least)
    if options.positive is not None:
        y, label_names = put_positive_last(y, label_names, options.positive)
    s, group_names = cross(
        columns, attributes, options.merge_groups, part, cuts, missing.way == GROUP
    )
    if held is not None:
        notes += _check_test(held, {"label": (y, label_names), "group": (s, group_names)})
    notes += person_notes(frame, options, y, held)
    if cuts:
        notes.append(_bands_words(cuts, s, group_names))
    fit = slice(None) if held is None else ~held
    protected = _protected(frame[fit], y[fit], s[fit], attributes, cuts, missing.way == GROUP)
    counts = {c: int(cells.rows[rows[rows < len(cells.rows)]].sum()) for c, cells in odd.items()}
    found = sort_out(frame[fit], inputs, options.categorical, options.keep, protected, part, counts)
    _refuse_parts(frame, found.dates)
    aware = not set(attributes) & set(options.drop)
    if not aware:
        notes.append(
            f"S ('{options.sensitive}') is no input of the model, as it is to be dropped; decision "
            "rules by group still ask for it."
        )
    return Dataset(
        options.name, frame, y, s, tuple(found.numeric), dict.fromkeys(found.categorical, ()),
        label_names, group_names, label, ",".join(attributes), hidden=(), encoding="piecewise",
        held=held, aware=aware, notes=(*missing_notes, *notes, *found.notes()), bands=cuts,
        weight=None if options.weight is None else weights(frame[options.weight]),
        excluded=found.excluded | _excluded(options), keep=options.keep,
        person=options.person, formats=formats.of((*found.numeric, *found.dates, *cuts)),
        as_written=as_written, rows=rows if excluded else None,
        without_sensitive=excluded, table_rows=len(rows) + excluded if excluded else 0,
    )  # fmt: skip


def _protected(
    frame: pd.DataFrame,
    y: np.ndarray,
    s: np.ndarray,
    attributes: Sequence[str],
    cuts: Bands,
    has_missing: bool,
) -> list[Protected]:
    """Return what no input may be a copy of: the label, each sensitive column, and S."""
    found = [Protected.of("the label", y)]
    for c in attributes:
        numbers = floats(frame[c]) if c in cuts else None
        found.append(Protected.of(f"'{c}'", factor(frame[c])[0], numbers))
    if cuts or len(attributes) > 1 or has_missing:
        found.append(Protected.of("S", s))
    return found


def _refuse_parts(frame: pd.DataFrame, dates: Iterable[str]) -> None:
    """Refuse columns that are called like a part of a date, which is an input."""
    for date in dates:
        for part in PARTS:
            if (name := name_of(date, part)) in frame:
                raise InputError(
                    f"Column '{name}' is called like the {part} of the date '{date}': rename it."
                )


def _excluded(options: TableOptions) -> dict[str, str]:
    persons = {} if options.person is None else {options.person: "says whose a row is"}
    return dict.fromkeys(options.drop, "is dropped") | persons


def _exclude(
    frame: pd.DataFrame, attributes: Sequence[str], missing: Missing, part: bool
) -> tuple[np.ndarray, pd.DataFrame, list[str]]:
    """Return the numbers of the rows to use, the sensitive columns of all rows, and notes."""
    columns = missing.mask(frame, attributes)
    rows, notes = np.arange(len(frame)), []
    if missing.way == EXCLUDE:
        rows = np.flatnonzero(known_rows(columns))
    if excluded := len(frame) - len(rows):
        notes.append(missing_groups.note(excluded, len(frame), ",".join(attributes)))
    if not part and (never := missing.never_found(frame, attributes)):
        notes.append(f"No row has the unknown S {_quoted(never)}: check how it is written.")
    return rows, columns, notes


def weights(column: pd.Series[Any]) -> np.ndarray:
    """Return the weights of rows, 1 on average."""
    found = floats(column)
    if not (found > 0).all():
        bad = int((~(found > 0)).sum())
        raise InputError(
            f"The weights in '{column.name}' must be numbers above 0, {bad:,} are not: fill or "
            "drop these rows."
        )
    return np.asarray(found / found.mean())


def _name_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with column names as text; refuse repeated ones."""
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise InputError(f"The table has more than one column '{twice[0]}': rename one.")
    return frame


def _append_test(
    frame: pd.DataFrame, test: pd.DataFrame, needed: Iterable[str]
) -> tuple[pd.DataFrame, np.ndarray, list[str]]:
    """Append the test rows; return all rows, which are for the test, and notes."""
    if len(test) == 0:
        raise InputError("The table for the test has no rows.")
    for column in needed:
        has_column(column, test, "in the table for the test")
    absent = [column for column in frame.columns if column not in test]
    extra = [column for column in test.columns if column not in frame]
    notes = []
    if absent:
        notes.append(f"The rows for the test lack {_quoted(absent)}: their cells count as empty.")
    if extra:
        notes.append(f"Only the rows for the test have {_quoted(extra)}: no input.")
    both = [frame, test.reindex(columns=frame.columns)]
    joined = {c: _concatenate([part[c] for part in both]) for c in frame}
    held = np.arange(len(frame) + len(test)) >= len(frame)
    return pd.DataFrame(joined), held, notes


def _concatenate(parts: list[pd.Series[Any]]) -> pd.Series[Any]:
    """Concatenate columns, as objects if they are of different kinds."""
    if len({str(part.dtype) for part in parts}) > 1 and not all(
        pd.api.types.is_numeric_dtype(part) and not pd.api.types.is_bool_dtype(part)
        for part in parts
    ):
        parts = [part.astype(object) for part in parts]
    return pd.concat(parts, ignore_index=True)


def _check_test(held: np.ndarray, task: dict[str, tuple[np.ndarray, tuple[str, ...]]]) -> list[str]:
    """Refuse labels and groups without training rows; note those without test rows."""
    notes = []
    for what, (found, names) in task.items():
        train, test = (set(found[side].tolist()) for side in (~held, held))
        unseen = [names[z] for z in sorted(test - train)]
        if unseen:
            raise InputError(
                f"The rows for the test have the {what} {_quoted(unseen)}, the training rows do "
                "not: call them alike, or leave those rows out."
            )
        if absent := [names[z] for z in sorted(train - test)]:
            notes.append(f"No row for the test has the {what} {_quoted(absent)}.")
    return notes


def _loses_digits(column: pd.Series[Any]) -> bool:
    """Whether whole numbers are too large for floating point, as some codes are."""
    return bool(pd.api.types.is_float_dtype(column) and (column.abs() >= LARGEST_CODE).any())


def _bands_words(bands: Mapping[str, Any], s: np.ndarray, groups: Sequence[str]) -> str:
    size = np.bincount(s, minlength=len(groups))
    each = ", ".join(f"{name} ({n:,} rows)" for name, n in zip(groups, size, strict=True))
    return f"S is made of bands of {_quoted(list(bands))}, whose number is no input: {each}."


def _quoted(names: Sequence[str]) -> str:
    rest = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(f"'{name}'" for name in names[:4]) + rest
