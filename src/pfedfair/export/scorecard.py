"""An additive model as a scorecard: points for each value of each column, and the points needed.

A row's points are the sum of the base and one line of every column. Twenty points double the odds.
A number's shape is approximated by a step function of a few bands, and points are rounded: so a
card approximates the model, and states its error.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from pfedfair._util.errors import InputError, option
from pfedfair._util.files import atomic
from pfedfair._util.text import escape_formulas
from pfedfair.runs import PersonalModel
from pfedfair.theory.cuts import FAR

DOUBLE = 20  # points that double the odds
FACTOR = float(DOUBLE / np.log(2))
BANDS = 6  # of a number, at the most
CLOSE = 1.0  # points: the root mean square error from which no more bands are needed
COLUMNS = ("part", "column", "from", "to", "level", "points", "people")


def write_scorecard(model: PersonalModel, path: Path, shapes: pd.DataFrame | None) -> list[Path]:
    """Write the card as CSV."""
    card = scorecard(model, shapes)
    with atomic(path) as temporary:
        escape_formulas(card).to_csv(temporary, index=False)
    return [path]


def scorecard(model: PersonalModel, shapes: pd.DataFrame | None) -> pd.DataFrame:
    """Return the card: a line for each band or category, with its points.

    Parameters
    ----------
    shapes
        The run's shapes, with the values of rows and how many have each; see `Run.shapes`.
    """
    network = model.predictor.network
    if not network.linear or shapes is None:
        raise InputError(
            f"A scorecard adds up points of columns, and this model does not ({network.words}): "
            f"take {option('model', 'additive')} or linear."
        )
    if model.task.classes != 2:
        raise InputError("A scorecard is for two labels.")
    rows: list[dict[str, Any]] = []
    base, squares = _logit(model, _base(shapes), np.zeros(1, dtype=np.int64))[0], 0.0
    for (name, kind), cells in shapes.groupby(["column", "kind"], sort=False):
        z = _contributions(model, shapes, str(name), str(kind), cells)
        counts = cells["people"].to_numpy(np.float64)
        mean = float(np.average(z, weights=counts))
        z, base = FACTOR * (z - mean), base + mean
        lines = list(_lines(str(kind), cells, z, counts))
        for line in lines:
            at = line.pop("at")
            squares += float((counts[at] * (z[at] - line["points"]) ** 2).sum() / counts.sum())
        rows += [{"column": name} | line for line in lines]
    first = {"part": "base", "points": round(FACTOR * base)}
    error = {"part": "error", "points": round(float(np.sqrt(squares)), 1)}
    card = pd.DataFrame([first, *rows, *_needed(model), error], columns=list(COLUMNS))
    return card.astype({"people": "Int64"})


def _base(shapes: pd.DataFrame) -> pd.DataFrame:
    """Return a row with the first value of every column."""
    first = shapes[shapes["kind"] != "group"].drop_duplicates("column")
    cells = zip(first["column"], first["kind"], first["value"], first["level"], strict=True)
    return pd.DataFrame({name: [_cell(kind, value, word)] for name, kind, value, word in cells})


def _cell(kind: str, value: float, category: str) -> Any:
    return value if kind == "number" else category or None


def _logit(model: PersonalModel, rows: pd.DataFrame, s: np.ndarray) -> np.ndarray:
    x = torch.from_numpy(model.encoder.pack(rows))
    z = model.predictor.logits(x, torch.from_numpy(s), model.encoder)
    logit: np.ndarray = z[:, 0].double().numpy()
    return logit


def _contributions(
    model: PersonalModel, shapes: pd.DataFrame, name: str, kind: str, cells: pd.DataFrame
) -> np.ndarray:
    """Return what each value of a column adds to the score of the row of `_base`."""
    base = _base(shapes)
    rows = base.loc[np.zeros(len(cells), dtype=np.int64)].reset_index(drop=True)
    s = np.zeros(len(cells), dtype=np.int64)
    if kind == "group":
        s = np.array([model.group_names.index(name) for name in cells["level"]])
    else:
        pairs = zip(cells["value"], cells["level"], strict=True)
        rows[name] = pd.Series([_cell(kind, value, category) for value, category in pairs])
    return np.asarray(_logit(model, rows, s) - _logit(model, base, np.zeros(1, dtype=np.int64)))


def _lines(kind: str, cells: pd.DataFrame, z: np.ndarray, counts: np.ndarray
           ) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Yield bands of a number, or categories with the same points; `at` are their positions."""
    if kind != "number":
        points = np.rint(z).astype(int)
        words = np.where(cells["level"] == "", "(empty)", cells["level"])
        for value in sorted(set(points.tolist()), reverse=True):
            at = np.flatnonzero(points == value)
            line = {"part": kind, "level": "; ".join(words[at]), "points": value}
            yield line | {"people": int(counts[at].sum()), "at": at}
        return
    value = cells["value"].to_numpy(np.float64)
    present = np.flatnonzero(~np.isnan(value))
    present = present[np.argsort(value[present])]
    cuts = bands(z[present], counts[present])
    middle = (value[present][1:] + value[present][:-1]) / 2
    for begin, end in pairwise(cuts):
        at = present[begin:end]
        low = None if begin == 0 else float(middle[begin - 1])
        high = None if end == len(present) else float(middle[end - 1])
        line = {"part": kind, "from": low, "to": high, "points": _mean(z, counts, at)}
        yield line | {"people": int(counts[at].sum()), "at": at}
    missing = np.flatnonzero(np.isnan(value))
    if len(missing):
        line = {"part": kind, "level": "(empty)", "points": _mean(z, counts, missing)}
        yield line | {"people": int(counts[missing].sum()), "at": missing}


def _mean(z: np.ndarray, counts: np.ndarray, at: np.ndarray) -> int:
    return round(float(np.average(z[at], weights=np.maximum(counts[at], 1e-9))))


def bands(z: np.ndarray, counts: np.ndarray, most: int = BANDS, close: float = CLOSE) -> list[int]:
    """Return the bands of the best step function of ordered values: their beginnings, and the end.

    By dynamic programming, with the fewest bands whose root mean square error is at most `close`.

    >>> bands(np.array([0.0, 0.0, 9.0, 9.0]), np.ones(4))
    [0, 2, 4]
    """
    n, w = len(z), np.maximum(counts, 1e-9)
    sums = [np.concatenate([[0.0], np.cumsum(part)]) for part in (w, w * z, w * z * z)]

    def cost(begin: np.ndarray, end: int) -> np.ndarray:
        weight, first, second = (part[end] - part[begin] for part in sums)
        return np.asarray(np.maximum(second - first**2 / weight, 0.0))

    best = np.array([np.inf] + [float(cost(np.array(0), end)) for end in range(1, n + 1)])
    last_cut: list[np.ndarray] = [np.zeros(n + 1, dtype=np.int64)]
    while best[n] > close**2 * w.sum() and len(last_cut) < min(most, n):
        with_one_more, back = np.full(n + 1, np.inf), np.zeros(n + 1, dtype=np.int64)
        for end in range(len(last_cut) + 1, n + 1):
            begins = np.arange(len(last_cut), end)
            costs = best[begins] + cost(begins, end)
            back[end] = begins[costs.argmin()]
            with_one_more[end] = costs.min()
        best = with_one_more
        last_cut.append(back)
    cuts = [n]
    for back in reversed(last_cut):
        cuts.append(int(back[cuts[-1]]))
    return cuts[::-1]


def _needed(model: PersonalModel) -> Iterator[dict[str, Any]]:
    """Yield the points from which the decision is the second label, in each group."""
    table, label = model.predictor.rule.table(), model.label_names[1]
    if not table and model.predictor.rule.numbers.numel():
        raise InputError("The rule of this model is a table of chances, not points that decide.")
    for z, group in enumerate(model.group_names if table else [""]):
        numbers = model.predictor.rule.numbers[z].tolist() if table else (0.0, 0.0, 0.0, 0.0)
        yield from ({"column": group} | line for line in _ranges(label, *numbers))


def _ranges(
    label: str, low: float, high: float, chance: float, below: float
) -> Iterator[dict[str, Any]]:
    """Yield a line for each range of points with a chance of the label, the certain one first.

    >>> [line["level"] for line in _ranges("hired", -FAR, -FAR, 0.0, 0.0)]
    ['hired always']
    >>> [line["level"] for line in _ranges("hired", FAR, FAR, 0.0, 0.0)]
    ['hired never']
    >>> list(_ranges("hired", 0.0, 0.0, 0.0, 0.0))
    [{'part': 'rule', 'level': 'hired from these points on', 'points': 0.0}]
    """
    starts, chances = (-FAR, low, high), (below, chance, 1.0)
    parts = [
        (start, end, p)
        for (start, end), p in zip(pairwise((*starts, FAR)), chances, strict=True)
        if start < end and end > -FAR and start < FAR and p > 0
    ]
    certain = next((start for start, _, p in parts if p == 1), None)
    if certain is not None and certain <= -FAR:
        yield {"part": "rule", "level": f"{label} always"}
    elif certain is not None:
        line = {"part": "rule", "level": f"{label} from these points on"}
        yield line | {"points": _points(certain)}
    elif not parts:
        yield {"part": "rule", "level": f"{label} never"}
    for start, end, p in parts:
        if p < 1:
            level = f"{label} by random draw, {100 * p:.0f} % of them"
            yield {"part": "lot", "from": _points(start), "to": _points(end), "level": level}


def _points(logit: float) -> float | None:
    return round(FACTOR * logit, 1) if abs(logit) < FAR else None
