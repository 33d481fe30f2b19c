"""The shape functions of a model that is linear in its parameters: a curve for each column.

Such a model adds up a contribution of every column. It is computed on synthetic rows that differ
in that column only, so it does not depend on how the column is encoded.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pfedfair._util.errors import InputError, option
from pfedfair._util.files import first_line
from pfedfair._util.text import unescape_formulas
from pfedfair.data.tables.cells import factor, floats
from pfedfair.data.tables.dates import require_column
from pfedfair.data.task import outputs
from pfedfair.federation import Federation
from pfedfair.models import Network

SHAPES = "shapes.csv"  # in a run's folder
COLUMNS = ["column", "kind", "value", "level", "label", "contribution", "people"]
POINTS = 101  # of a column of numbers, at the most


class Cells(NamedTuple):
    """The distinct values of a column: a row that has each, and how many rows do."""

    kind: str
    values: list[float]
    categories: list[str]
    rows: np.ndarray
    counts: np.ndarray


def shapes(federation: Federation, network: Network, w: Tensor) -> pd.DataFrame:
    """Return a row for each column and each distinct value that training rows have of it.

    The columns of the table are

    column, kind
        the column's name, and its kind: "number", "level" (a category), or "group" for S;
    value, level
        the number, or the category in words; a missing value has neither;
    label
        whose score it adds to: with two labels the second's;
    contribution
        what it adds to the score, in log-odds; its mean over training rows is 0;
    people
        training rows with this value; of numbers, those to which it is the nearest in the table.
    """
    data = federation.data
    if data.array is not None:
        raise InputError(f"'{data.name}' has no columns whose shapes could be drawn.")
    if not network.linear:
        linear = option("model", "linear")
        raise InputError(f"{network.words} has no shapes: take {linear} or additive.")
    rows = np.concatenate(federation.partition.train)
    width = outputs(len(data.label_names))
    labels = data.label_names[-width:]
    frames = []
    for column, cells, x, s in _synthetic_rows(federation, rows):
        z = network.logits(w[None], x[None], s[None])[0, :, :width].double().numpy()
        z = z - np.average(z, axis=0, weights=cells.counts)
        for k, label in enumerate(labels):
            about = {"column": column, "kind": cells.kind, "value": cells.values}
            about |= {"level": cells.categories, "label": label}
            frames.append(pd.DataFrame(about | {"contribution": z[:, k], "people": cells.counts}))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=COLUMNS)


def read_shapes(folder: Path) -> pd.DataFrame | None:
    """Return the shapes in a run's folder; None if it has none."""
    path = folder / SHAPES
    if not path.exists():
        return None
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False).apply(unescape_formulas)
        value = frame["value"].replace("", "nan").astype(float)
        return frame.assign(value=value).astype({"contribution": float, "people": "int64"})
    except (ValueError, KeyError) as error:
        raise InputError(f"{path} cannot be read ({first_line(error)}).") from error


def _synthetic_rows(
    federation: Federation, rows: np.ndarray
) -> Iterator[tuple[str, Cells, Tensor, Tensor]]:
    """Yield rows that differ in one column: its name, their values, inputs and groups."""
    data, encoder = federation.data, federation.encoder
    frame = data.frame.iloc[rows]
    for column in (*data.numeric, *data.categorical):
        values = require_column(frame, column)  # which may be a part of a date
        cells = _numbers(values) if column in data.numeric else _categories(values)
        first = frame.iloc[np.zeros(len(cells.rows), dtype=np.int64)]
        varied = first.assign(**{column: values.iloc[cells.rows].array})
        x = torch.from_numpy(encoder.transform(varied))
        if torch.equal(x, x[:1].expand_as(x)) and len(x) > 1:  # not an input of the model
            continue
        yield column, cells, x, torch.zeros(len(x), dtype=torch.int64)
    if federation.table.task.aware:
        names, s = list(data.group_names), np.arange(len(data.group_names))
        counts = np.bincount(data.s[rows], minlength=len(s))
        cells = Cells("group", [np.nan] * len(s), names, s, counts)
        x = torch.from_numpy(encoder.transform(frame.iloc[np.zeros(len(s), dtype=np.int64)]))
        yield data.sensitive_column, cells, x, torch.from_numpy(s)


def _numbers(column: "pd.Series[Any]") -> Cells:
    values = floats(column)
    present = np.flatnonzero(~np.isnan(values))
    ordered = np.sort(values[present])
    points = ordered[np.flatnonzero(np.diff(ordered, prepend=np.nan))]
    if len(points) > POINTS:  # quantiles, as values that rows have
        ordered = ordered[np.linspace(0, len(ordered) - 1, POINTS).round().astype(int)]
        points = ordered[np.flatnonzero(np.diff(ordered, prepend=np.nan))]
    nearest = np.searchsorted((points[1:] + points[:-1]) / 2, values[present], side="right")
    place = np.searchsorted(points, values[present]).clip(max=len(points) - 1)
    exact = np.flatnonzero(values[present] == points[place])[::-1]
    rows = np.zeros(len(points), dtype=np.int64)
    rows[place[exact]] = present[exact]  # the first row that has the value
    counts = np.bincount(nearest, minlength=len(points))
    missing = np.setdiff1d(np.arange(len(values)), present)
    if len(missing):
        points, rows = np.append(points, np.nan), np.append(rows, missing[0])
        counts = np.append(counts, len(missing))
    return Cells("number", points.tolist(), [""] * len(points), rows, counts)


def _categories(column: "pd.Series[Any]") -> Cells:
    """Return the categories, the most frequent first."""
    codes, named = factor(column)
    words = np.array([*named, ""], dtype=object)[codes]
    categories, first, counts = np.unique(words, return_index=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    values = [np.nan] * len(categories)
    return Cells("level", values, categories[order].tolist(), first[order], counts[order])
