"""The figure of each method's page in the documentation: its curve among all the others.

The points are those of ``docs/results/points.csv``: one row per data set, number of clients, method
and level, in the order of the curve. Accuracies and DDPs are fractions, and ``_half`` is half the
width of their 95 % interval.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pfedfair._util.files import atomic
from pfedfair.report import figures

FRONTIER, CONSTANT = "frontier", "constant"
OTHERS = "#c8c8c8"


def highlight(points: pd.DataFrame, methods: Sequence[str]) -> Figure:
    """Draw the worst client's error against its DDP: the given methods in colour, others grey.

    A panel for each data set and number of clients; lower left is better.
    """
    panels = list(points.groupby(["dataset", "clients"], sort=False))
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(5 * columns, 4 * rows + 0.6), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, ((dataset, clients), part) in zip(grid, panels, strict=False):
        _panel(axes, part, methods)
        axes.set_title(f"{dataset}, {clients} clients", fontsize=11)
    for axes in grid[len(panels) :]:
        axes.remove()
    there = set(points["method"])
    shown = [m for m in methods if m in there and m not in (FRONTIER, CONSTANT)]
    more = []
    if there - {*shown, FRONTIER, CONSTANT}:
        more.append(Line2D([], [], color=OTHERS, linewidth=1.2, label="other methods"))
    if FRONTIER in there:
        more.append(Line2D([], [], color="black", linestyle="--", label=FRONTIER))
    if CONSTANT in there:
        more.append(figures.method_line(CONSTANT))
    handles = [*map(figures.method_line, shown), *more]
    figures.legend(figure, handles, len(handles))
    return figure


def _panel(axes: Axes, points: pd.DataFrame, methods: Sequence[str]) -> None:
    widest, drawn = 0.0, 0
    for name, rows in points.groupby("method", sort=False):
        method, x = str(name), rows["worst_ddp"].to_numpy(float)
        y = 100 * (1 - rows["worst_accuracy"].to_numpy(float))
        widest = np.nanmax([widest, *x])
        if method == FRONTIER:
            axes.plot(x, y, color="black", linestyle="--", linewidth=1.2, zorder=2)
        elif method == CONSTANT:
            colour, marker = figures.style(CONSTANT)
            axes.plot(x, y, color=colour, marker=marker, markersize=8, linestyle="", zorder=4)
        elif method in methods:
            colour, marker = figures.style(method)
            axes.errorbar(
                x,
                y,
                xerr=rows["worst_ddp_half"].fillna(0),
                yerr=100 * rows["worst_accuracy_half"].fillna(0),
                color=colour,
                marker=marker,
                markersize=7,
                linewidth=1.6,
                elinewidth=0.8,
                capsize=2,
                zorder=3,
            )
            _name_ends(axes, x, y, list(rows["level"]), below=drawn % 2 == 1)
            drawn += 1
        else:
            axes.plot(x, y, color=OTHERS, linewidth=0.9, zorder=1)
    figures.tidy(axes, "worst client's DDP ↓", "worst client's error % ↓")
    axes.set_xlim(-0.005, 1.1 * widest + 0.01)  # an interval of few seeds may reach far out


def _name_ends(
    axes: Axes, x: np.ndarray, y: np.ndarray, levels: Sequence[object], below: bool
) -> None:
    """Write the level beside a curve's first and last point; the constant's mark says enough."""
    named = [i for i, level in enumerate(levels) if isinstance(level, str) and level != CONSTANT]
    for i in {named[0], named[-1]} if named else ():
        axes.annotate(
            str(levels[i]), (x[i], y[i]), xytext=(7, -13 if below else 6),
            textcoords="offset points", fontsize=8, color="#333333", zorder=5,
        )  # fmt: skip


def placeholder(text: str) -> Figure:
    """A picture that only says why there is none."""
    figure = Figure(figsize=(5, 1.2), layout="constrained")
    figure.text(0.5, 0.5, text, ha="center", va="center", color="#777777", fontsize=12)
    return figure


def write(csv: Path, out: Path, pages: Mapping[str, Sequence[str]]) -> None:
    """Draw a picture into `out` for each page, whose methods are given.

    Without the file of points, or for a method that is not in it, the picture says so. Nothing is
    done if points, pages and code are the same as last time.
    """
    points = pd.read_csv(csv, dtype={"level": "str"}) if csv.exists() else None
    sources = [path for path in (csv, Path(__file__), Path(figures.__file__)) if path.exists()]
    parts = [str(pages).encode(), *(path.read_bytes() for path in sources)]
    digest = hashlib.sha256(b"".join(parts)).hexdigest()
    stamp = out / "drawn-from.txt"
    if stamp.exists() and stamp.read_text() == digest:
        return
    out.mkdir(parents=True, exist_ok=True)
    for page, methods in pages.items():
        if points is None:
            figure = placeholder("no results yet")
        elif not set(methods) & set(points["method"]):
            figure = placeholder(f"no results yet for {' and '.join(methods)}")
        else:
            figure = highlight(points, methods)
        figures.save(figure, out / page)
    with atomic(stamp) as beside:
        beside.write_text(digest)
