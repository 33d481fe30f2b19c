"""Figures of a model's shape functions: one for each column, with the distribution of rows."""

from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pfedfair.report.figures import COLOURS, GREY, save, tidy

MOST_CATEGORIES = 25  # of a column: the most frequent ones


def draw(shapes: pd.DataFrame, column: str) -> Figure:
    """Draw a column of `Run.shapes`: contributions above, numbers of rows below."""
    rows = shapes[shapes["column"] == column]
    number = rows["kind"].iloc[0] == "number"
    figure = Figure(figsize=(5, 4.2), layout="constrained")
    grid = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    above, below = (cast(Axes, axes) for axes in grid)
    several = rows["label"].nunique() > 1
    for k, (label, here) in enumerate(rows.groupby("label", sort=False)):
        name, colour = str(label) if several else None, COLOURS[k % len(COLOURS)]
        here = here if number else here.head(MOST_CATEGORIES)
        missing = number & here["value"].isna()
        x = here["value"] if number else pd.Series(np.arange(len(here)), index=here.index)
        line = "-" if number else "none"
        above.plot(
            x,
            here["contribution"],
            linestyle=line,
            marker="" if number else "o",
            color=colour,
            label=name,
        )
        if missing.any():
            at = float(here.loc[missing, "contribution"].iloc[0])
            above.axhline(at, color=colour, linestyle=":", linewidth=1)
            above.annotate("missing", (0.99, at), xycoords=("axes fraction", "data"), ha="right")
    above.axhline(0, color=GREY, linewidth=0.8)
    _counts(below, rows[rows["label"] == rows["label"].iloc[0]], number)
    tidy(above, "", f"added to the score of {rows['label'].iloc[0]}" if not several else "added")
    tidy(below, column, "rows")
    if several:
        above.legend(frameon=False)
    return figure


def _counts(axes: Axes, rows: pd.DataFrame, number: bool) -> None:
    if number:
        present = rows.dropna(subset="value")
        weights = present["people"].to_numpy(float)
        axes.hist(present["value"], bins=40, weights=weights, color=GREY)
        return
    rows = rows.head(MOST_CATEGORIES)
    axes.bar(np.arange(len(rows)), rows["people"], color=GREY)
    words = rows["level"].replace("", "missing")
    axes.set_xticks(np.arange(len(rows)), words, rotation=45 if len(rows) < 8 else 90, ha="right")


def write(shapes: pd.DataFrame, folder: str | Path) -> list[Path]:
    """Write a figure for each column, as PNG, SVG and PDF; files are numbered as columns are."""
    paths = []
    for k, column in enumerate(dict.fromkeys(shapes["column"]), 1):
        word = "".join(c if c.isalnum() else "-" for c in str(column))
        paths += save(draw(shapes, column), Path(folder) / f"{k:02d}-{word}")
    return paths
