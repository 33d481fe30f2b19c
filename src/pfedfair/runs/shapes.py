"""What a model that is linear in its parameters makes of each column: its learnt shapes.

Such a model adds up a number for every column. It is read off made-up rows that differ in that
column alone, so it does not matter how the column is encoded.
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
from pfedfair._util.text import alive
from pfedfair.data.tables.cells import factor, floats
from pfedfair.data.tables.dates import needed
from pfedfair.data.task import outputs
from pfedfair.federation import Federation
from pfedfair.models import Network

SHAPES = "shapes.csv"  # in a run's folder
COLUMNS = ["column", "kind", "value", "level", "label", "contribution", "people"]
POINTS = 101  # of a column of numbers, at the most


class Cells(NamedTuple):
    """Different cells of a column: a row that has each, and how many rows do."""

    kind: str
    values: list[float]
    levels: list[str]
    rows: np.ndarray
    people: np.ndarray


def shapes(federation: Federation, network: Network, w: Tensor) -> pd.DataFrame:
    """Return a row for each column and each cell that training rows have of it.

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
        training rows with this cell; of numbers, those to which it is the nearest one given.
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
    found = []
    for column, cells, x, s in _made_up_rows(federation, rows):
        z = network.logits(w[None], x[None], s[None])[0, :, :width].double().numpy()
        z = z - np.average(z, axis=0, weights=cells.people)
        for k, label in enumerate(labels):
            about = {"column": column, "kind": cells.kind, "value": cells.values}
            about |= {"level": cells.levels, "label": label}
            found.append(pd.DataFrame(about | {"contribution": z[:, k], "people": cells.people}))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=COLUMNS)


def read_shapes(folder: Path) -> pd.DataFrame | None:
    """Return the shapes that a run kept in its folder; None if it has none."""
    path = folder / SHAPES
    if not path.exists():
        return None
    try:
        found = pd.read_csv(path, dtype=str, keep_default_na=False).apply(alive)
        value = found["value"].replace("", "nan").astype(float)
        return found.assign(value=value).astype({"contribution": float, "people": "int64"})
    except (ValueError, KeyError) as error:
        raise InputError(f"{path} cannot be read ({first_line(error)}).") from error


def _made_up_rows(
    federation: Federation, rows: np.ndarray
) -> Iterator[tuple[str, Cells, Tensor, Tensor]]:
    """Return rows that differ in one column: its name, their cells, inputs and groups."""
    data, encoder = federation.data, federation.encoder
    frame = data.frame.iloc[rows]
    for column in (*data.numeric, *data.categorical):
        own = needed(frame, column)  # which may be a part of a date
        cells = _numbers(own) if column in data.numeric else _levels(own)
        same = frame.iloc[np.zeros(len(cells.rows), dtype=np.int64)]
        made = same.assign(**{column: own.iloc[cells.rows].array})
        x = torch.from_numpy(encoder.transform(made))
        if torch.equal(x, x[:1].expand_as(x)) and len(x) > 1:  # not an input of the model
            continue
        yield column, cells, x, torch.zeros(len(x), dtype=torch.int64)
    if federation.table.task.aware:
        names, s = list(data.group_names), np.arange(len(data.group_names))
        people = np.bincount(data.s[rows], minlength=len(s))
        cells = Cells("group", [np.nan] * len(s), names, s, people)
        x = torch.from_numpy(encoder.transform(frame.iloc[np.zeros(len(s), dtype=np.int64)]))
        yield data.sensitive_column, cells, x, torch.from_numpy(s)


def _numbers(column: "pd.Series[Any]") -> Cells:
    values = floats(column)
    there = np.flatnonzero(~np.isnan(values))
    order = np.sort(values[there])
    points = order[np.flatnonzero(np.diff(order, prepend=np.nan))]
    if len(points) > POINTS:  # quantiles, as cells that rows have
        order = order[np.linspace(0, len(order) - 1, POINTS).round().astype(int)]
        points = order[np.flatnonzero(np.diff(order, prepend=np.nan))]
    nearest = np.searchsorted((points[1:] + points[:-1]) / 2, values[there], side="right")
    place = np.searchsorted(points, values[there]).clip(max=len(points) - 1)
    exact = np.flatnonzero(values[there] == points[place])[::-1]
    different = np.zeros(len(points), dtype=np.int64)
    different[place[exact]] = there[exact]  # a row that has the value: the first
    people = np.bincount(nearest, minlength=len(points))
    empty = np.setdiff1d(np.arange(len(values)), there)
    if len(empty):
        points, different = np.append(points, np.nan), np.append(different, empty[0])
        people = np.append(people, len(empty))
    return Cells("number", points.tolist(), [""] * len(points), different, people)


def _levels(column: "pd.Series[Any]") -> Cells:
    """Return the categories, the most frequent first."""
    codes, named = factor(column)
    words = np.array([*named, ""], dtype=object)[codes]
    levels, first, people = np.unique(words, return_index=True, return_counts=True)
    order = np.argsort(-people, kind="stable")
    none = [np.nan] * len(levels)
    return Cells("level", none, levels[order].tolist(), first[order], people[order])
