"""Pictures of the shapes that a model has learnt: one for each column, with people underneath."""

from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pfedfair.report.figures import COLOURS, GREY, save, tidy

LEVELS = 25  # bars of a column, at the most: the most frequent levels


def draw(shapes: pd.DataFrame, column: str) -> Figure:
    """Draw what `Run.shapes` has of a column: contributions above, people below."""
    rows = shapes[shapes["column"] == column]
    number = rows["kind"].iloc[0] == "number"
    figure = Figure(figsize=(5, 4.2), layout="constrained")
    grid = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    above, below = (cast(Axes, axes) for axes in grid)
    several = rows["label"].nunique() > 1
    for k, (label, here) in enumerate(rows.groupby("label", sort=False)):
        name, colour = str(label) if several else None, COLOURS[k % len(COLOURS)]
        here = here if number else here.head(LEVELS)
        empty = number & here["value"].isna()
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
        if empty.any():
            at = float(here.loc[empty, "contribution"].iloc[0])
            above.axhline(at, color=colour, linestyle=":", linewidth=1)
            above.annotate("empty", (0.99, at), xycoords=("axes fraction", "data"), ha="right")
    above.axhline(0, color=GREY, linewidth=0.8)
    _people(below, rows[rows["label"] == rows["label"].iloc[0]], number)
    tidy(above, "", f"added to the score of {rows['label'].iloc[0]}" if not several else "added")
    tidy(below, column, "people")
    if several:
        above.legend(frameon=False)
    return figure


def _people(axes: Axes, rows: pd.DataFrame, number: bool) -> None:
    if number:
        there = rows.dropna(subset="value")
        weights = there["people"].to_numpy(float)
        axes.hist(there["value"], bins=40, weights=weights, color=GREY)
        return
    rows = rows.head(LEVELS)
    axes.bar(np.arange(len(rows)), rows["people"], color=GREY)
    words = rows["level"].replace("", "empty")
    axes.set_xticks(np.arange(len(rows)), words, rotation=45 if len(rows) < 8 else 90, ha="right")


def write(shapes: pd.DataFrame, folder: str | Path) -> list[Path]:
    """Write a figure for each column, as PNG, SVG and PDF; files are numbered as columns are."""
    paths = []
    for k, column in enumerate(dict.fromkeys(shapes["column"]), 1):
        word = "".join(c if c.isalnum() else "-" for c in str(column))
        paths += save(draw(shapes, column), Path(folder) / f"{k:02d}-{word}")
    return paths
