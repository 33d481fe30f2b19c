"""Small multiples: a panel for each method, its curve in colour, all others grey behind it.

Panel positions are computed here: for hundreds of them matplotlib's layout takes minutes.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pfedfair.report import figures
from pfedfair.studies.view import Picture

ACROSS = 6
OTHERS = "#c8c8c8"
WIDTH, HEIGHT = 1.75, 1.15  # of a panel, in inches
RIGHT, ABOVE = 0.18, 0.42  # space to the right of a panel, and above it
LEFT, HEAD, FOOT, END = 0.75, 0.55, 0.55, 0.6  # of a block, and of the figure


def draw(picture: Picture) -> Figure:
    """Draw a block of small panels for each panel of a picture of curves, stacked vertically."""
    frames = picture.frames
    names = list(dict.fromkeys(frames["curves"]["panel"]))
    parts = [{k: f[f["panel"] == name] for k, f in frames.items()} for name in names]
    down = [-(-len(_methods(part["curves"])) // ACROSS) for part in parts]
    heights = [HEAD + FOOT + rows * (HEIGHT + ABOVE) for rows in down]
    title = 0.4 if "title" in picture.words else 0.0
    size = LEFT + ACROSS * (WIDTH + RIGHT), title + sum(heights) + END
    figure, left_out, y = Figure(figsize=size), False, size[1] - title
    if title:
        figure.text(0.5, 1 - 0.2 / size[1], picture.words["title"], fontsize=12, ha="center")
    for name, part, height in zip(names, parts, heights, strict=True):
        head = "; ".join([name, *part["notes"]["text"]]).replace("\n", ", ")
        figure.text(0.5, (y - 0.2) / size[1], head, fontsize=11, ha="center", va="center")
        left_out |= _block(figure, part, y - HEAD, picture.words)
        y -= height
    handles = [Line2D([], [], color=OTHERS, linewidth=1.5, label="the other methods")]
    best = frames["curves"].loc[frames["curves"]["mark"]].drop_duplicates("method")
    handles += [Line2D([], [], color="black", linestyle="--", label=text) for text in best["label"]]
    note = figures.TOO_WIDE if left_out else ""
    figure.legend(
        handles=handles, loc="lower center", ncols=len(handles), frameon=False,
        title=note or None, title_fontsize=9,
    )  # fmt: skip
    return figure


def _methods(curves: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(curves.loc[~curves["mark"], "method"]))


def _block(
    figure: Figure, part: Mapping[str, pd.DataFrame], top: float, words: Mapping[str, str]
) -> bool:
    """Draw every method's panel; return whether intervals were too wide to be drawn."""
    width, height = figure.get_size_inches()
    curves, marks, methods = part["curves"], part["marks"], _methods(part["curves"])
    left_out = False
    for k, method in enumerate(methods):
        down, across = divmod(k, ACROSS)
        x, y = LEFT + across * (WIDTH + RIGHT), top - (down + 1) * (HEIGHT + ABOVE) + 0.2
        axes = figure.add_axes((x / width, y / height, WIDTH / width, HEIGHT / height))
        figures.limits(axes, curves, marks)
        own = curves["method"] == method
        axes.plot(*_one_line(curves[~own & ~curves["mark"]]), color=OTHERS, linewidth=0.7, zorder=1)
        axes.plot(*_one_line(curves[curves["mark"]]), color="black", linestyle="--", linewidth=0.8)
        left_out |= _method(axes, curves[own], marks[marks["method"] == method], method)
        figures.tidy(axes, "", "")
        axes.locator_params(nbins=4)
        axes.set_title(method, fontsize=9, pad=3)
        axes.tick_params(labelsize=7, labelleft=across == 0, labelbottom=k + ACROSS >= len(methods))
    middle = top - 0.5 * -(-len(methods) // ACROSS) * (HEIGHT + ABOVE)
    low = top - -(-len(methods) // ACROSS) * (HEIGHT + ABOVE) - 0.2
    figure.text(0.5, low / height, words["x"], fontsize=9, ha="center")
    figure.text(0.15 / width, middle / height, words["y"], fontsize=9, va="center", rotation=90)
    return left_out


def _one_line(curves: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return all curves as one line, with a break after each."""
    parts = [rows[["x", "y"]].to_numpy(float) for _, rows in curves.groupby("method", sort=False)]
    gap = np.full((1, 2), np.nan)
    points = np.concatenate([part for rows in parts for part in (rows, gap)] or [gap])
    return points[:, 0], points[:, 1]


def _method(axes: Axes, rows: pd.DataFrame, marks: pd.DataFrame, method: str) -> bool:
    """Draw a method's curve and marks; return whether intervals were too wide to be drawn."""
    colour, marker = figures.style(method)
    y_half, x_half = figures.fitting(axes, rows)
    axes.errorbar(
        rows["x"], rows["y"], y_half, x_half, color=colour, marker=marker, markersize=5,
        linewidth=1.4, elinewidth=0.7, capsize=1.5, zorder=3,
    )  # fmt: skip
    axes.plot(
        marks["x"], marks["y"], color=colour, marker=marker, linestyle="", markerfacecolor="none"
    )
    return bool(y_half.isna().any() or x_half.isna().any())
