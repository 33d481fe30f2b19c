"""The shapes of an additive model, with no more points than a curve needs."""

from typing import Any

import numpy as np
import pandas as pd

from pfedfair.studies.page.document import column, counts

STRAIGHT = 0.004  # of a curve's height: how far an omitted point may be from the line
MOST_CATEGORIES = 25  # of a column: the most frequent ones
SHAPES = 60  # columns: those with the largest effect on scores


def shapes(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return each column's curve or points, in the order of their effect on scores."""
    shapes_of = []
    for (name, label), rows in frame.groupby(["column", "label"], sort=False):
        number = rows["kind"].iloc[0] == "number"
        empty = rows[rows["value"].isna()] if number else rows[rows["level"] == ""]
        missing = float(empty["contribution"].iloc[0]) if number and len(empty) else None
        rows = rows[rows["value"].notna()] if number else rows.head(MOST_CATEGORIES)
        if not len(rows):
            continue
        added = rows["contribution"].to_numpy(float)
        spread = float(np.ptp(added))
        if number:
            keep = needed(rows["value"].to_numpy(float), added, STRAIGHT * max(spread, 1e-9))
            merged = np.add.reduceat(rows["people"].to_numpy(), keep)
            rows = rows.iloc[keep].assign(people=merged)
        values = column(rows["value"]) if number else rows["level"].replace("", "missing").to_list()
        shapes_of.append((spread, {
            "column": name, "label": label, "kind": "number" if number else "category",
            "values": values, "added": column(rows["contribution"]),
            "rows": counts(rows["people"]), "missing": missing,
        }))  # fmt: skip
    shapes_of.sort(key=lambda pair: -pair[0])
    return [shape for _, shape in shapes_of[:SHAPES]]


def needed(x: np.ndarray, y: np.ndarray, off: float) -> list[int]:
    """Return the points that a piecewise-linear curve needs (Douglas and Peucker).

    >>> needed(np.arange(5.0), np.array([0.0, 1.0, 2.0, 1.0, 0.0]), 0.01)
    [0, 2, 4]
    """
    kept, open_ends = {0, len(x) - 1}, [(0, len(x) - 1)]
    while open_ends:
        first, last = open_ends.pop()
        if last - first < 2:
            continue
        line = np.interp(x[first + 1 : last], x[[first, last]], y[[first, last]])
        apart = np.abs(y[first + 1 : last] - line)
        worst = int(apart.argmax())
        if apart[worst] > off:
            middle = first + 1 + worst
            kept.add(middle)
            open_ends += [(first, middle), (middle, last)]
    return sorted(kept)
