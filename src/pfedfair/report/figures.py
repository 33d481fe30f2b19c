"""Figures of a view, drawn with matplotlib, as PNG, SVG and PDF.

A method has the same colour and marker in every figure: they follow from its number in the
registry.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from pfedfair._util.files import atomic
from pfedfair.studies.rows import place
from pfedfair.studies.view import Picture

# Okabe and Ito's colours, for colour-blind readers; without yellow, which is pale on white.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
ROLE = {"underrepresented": "#D55E00", "overrepresented": "#0072B2"}
GREY = "#555555"
NO_TIME: dict[str, dict[str, None] | None] = {
    "png": None, "svg": {"Date": None}, "pdf": {"CreationDate": None},
}  # fmt: skip
MANY = 14  # methods that can be distinguished in one panel
TOO_WIDE = "Not drawn: intervals wider than half the picture, as with few seeds."


def style(method: str) -> tuple[str, str]:
    """Return the colour and marker of a method; those of an unknown one are constant, too."""
    k = place(method)
    return COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)]


def draw(picture: Picture) -> Figure:
    """Draw a picture of any kind."""
    return KINDS[picture.kind](picture)


def curves(picture: Picture) -> Figure:
    """Draw a curve per method with error bars, reference curves dashed and reference marks hollow.

    With more than `MANY` methods each has its own small panel: see `multiples`.
    """
    frames = picture.frames
    if frames["curves"].loc[~frames["curves"]["mark"], "method"].nunique() > MANY:
        from pfedfair.report import multiples  # which imports this module

        return multiples.draw(picture)
    figure, panels = _panels(picture, 5, 4.2)
    left_out = False
    for axes, here in panels:
        limits(axes, here["curves"], here["marks"])
        for method, rows in here["curves"].groupby("method", sort=False):
            if rows["mark"].any():
                axes.plot(rows["x"], rows["y"], color="black", linestyle="--", linewidth=1)
                continue
            colour, marker = style(str(method))
            y_half, x_half = fitting(axes, rows)
            left_out |= bool(y_half.isna().any() or x_half.isna().any())
            axes.errorbar(
                rows["x"], rows["y"], y_half, x_half, color=colour, marker=marker,
                markersize=7, linewidth=1.2, elinewidth=0.8, capsize=2,
            )  # fmt: skip
        for _, row in here["marks"].iterrows():
            colour, marker = style(row["method"])
            axes.plot(row["x"], row["y"], color=colour, **_dot(marker, markerfacecolor="none"))
        for note in here["notes"]["text"]:
            axes.annotate(note, (0.98, 0.97), xycoords="axes fraction", ha="right", va="top")
    names = frames["curves"].drop_duplicates("method")
    handles = [method_line(m) for m in names.loc[~names["mark"], "method"]]
    for label in names.loc[names["mark"], "label"]:
        handles.append(Line2D([], [], color="black", linestyle="--", label=label))
    if len(frames["marks"]):
        label = "hollow: the paper's figure"
        handles.append(Line2D([], [], color=GREY, label=label, **_dot("o", markerfacecolor="none")))
    legend(figure, handles, 5 if len(panels) > 1 else 2, TOO_WIDE if left_out else "")
    return figure


def limits(axes: Axes, curves: pd.DataFrame, marks: pd.DataFrame) -> None:
    """Fit the axes to the measured values, not to their intervals, and to possible values.

    Points that decide like the constant classifier do not count, unless there are no others.
    """
    curves = curves if curves["apart"].all() else curves[~curves["apart"]]
    x = pd.concat([curves["x"], marks["x"].astype(float)]).dropna()
    y = pd.concat([curves["y"], marks["y"].astype(float)]).dropna()
    if len(x):
        axes.set_xlim(-0.005, 1.15 * max(x.max(), 0) + 0.01)
    if len(y):
        low, high = min(0.0, y.min()), max(100.0, y.max())  # percent
        space = max(0.12 * (y.max() - y.min()), 0.03 * y.abs().max(), 1e-3)
        axes.set_ylim(max(y.min() - space, low), min(y.max() + space, high))


def fitting(axes: Axes, rows: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return half-widths of intervals; NaN for those wider than half the picture."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    x_half, y_half = rows["x_half"].astype(float), rows["y_half"].astype(float)
    return y_half.where(4 * y_half < high - low), x_half.where(4 * x_half < right - left)


def rates(picture: Picture) -> Figure:
    """Draw negative prediction rates of two groups against eta, by kind of client."""
    dashes: dict[str, Literal["-", "--"]] = {"npr_s0": "-", "npr_s1": "--"}
    figure, panels = _panels(picture, 4.5, 3.6, sharey="row")
    for axes, here in panels:
        for role, rows in here["rates"].groupby("role", sort=False):
            for column, dash in dashes.items():
                axes.plot(rows["eta"], rows[column], dash, color=ROLE[str(role)], marker="o")
    handles = [Line2D([], [], color=c, label=f"{role} clients") for role, c in ROLE.items()]
    for column, dash in dashes.items():
        handles.append(Line2D([], [], color=GREY, linestyle=dash, label=f"S={column[-1]}"))
    legend(figure, handles, 4)
    return figure


def clients(picture: Picture) -> Figure:
    """Draw every client of every seed."""
    figure, panels = _panels(picture, 2.6, 2.9, sharex="row", sharey="row")
    for axes, here in panels:
        for role, rows in here["clients"].groupby("role", sort=False):
            axes.scatter(rows["x"], rows["y"], color=ROLE[str(role)], alpha=0.6, s=18)
    dots = [Line2D([], [], color=c, label=f"{r} clients", **_dot("o")) for r, c in ROLE.items()]
    legend(figure, dots, 2)
    return figure


def shares(picture: Picture) -> Figure:
    """Draw each client's shares of the two groups."""
    figure, panels = _panels(picture, 5.5, 3.2)
    groups = {"S=1": COLOURS[0], "S=0": COLOURS[1]}
    for axes, here in panels:
        x, share = here["shares"]["x"], here["shares"]["share_s1"].to_numpy()
        first, second = groups.values()
        axes.bar(x, share, color=first)
        axes.bar(x, 1 - share, bottom=share, color=second)
        axes.set_xlim(0.4, len(x) + 0.6)
        axes.set_ylim(0, 1)
        axes.grid(visible=False)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
    legend(figure, [Patch(color=colour, label=name) for name, colour in groups.items()], 2)
    return figure


def tiles(picture: Picture) -> Figure:
    """Draw a small panel with each method's gap for each client, at its position on a map."""
    frame = picture.frames["tiles"]
    down, across = frame["down"].max() + 1, frame["across"].max() + 1
    figure = Figure(figsize=(1.0 * across + 0.5, 1.05 * down + 1.0), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    for panel in panels.flat:
        panel.axis("off")
    methods = list(dict.fromkeys(frame["method"]))
    for client, rows in frame.groupby("client", sort=False):
        axes: Axes = panels[rows["down"].iloc[0], rows["across"].iloc[0]]
        axes.axis("on")
        axes.set_title(str(client), fontsize=8, pad=2)
        for _, row in rows.iterrows():
            colour, marker = style(row["method"])
            axes.plot(methods.index(row["method"]), row["ddp"], color=colour, marker=marker)
        axes.axhline(rows["target"].iloc[0], color=GREY, linewidth=0.8, linestyle="--")
        axes.set_ylim(0, 1.1 * frame["ddp"].max())
        axes.set_xlim(-0.7, len(methods) - 0.3)
        axes.set_xticks([])
        axes.tick_params(labelsize=6)
        axes.label_outer()
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.suptitle(picture.words["title"], fontsize=11)
    legend(figure, [method_line(method) for method in methods], len(methods))
    return figure


KINDS = {"curves": curves, "rates": rates, "clients": clients, "shares": shares, "tiles": tiles}


def _panels(
    picture: Picture, width: float, height: float, **shared: Any
) -> tuple[Figure, list[tuple[Axes, dict[str, pd.DataFrame]]]]:
    """Return a figure and its panels, each with its part of the picture's frames."""
    names = list(dict.fromkeys(picture.frames[picture.kind]["panel"]))
    across = min(len(names), picture.across)
    down = -(-len(names) // across)
    figure = Figure(figsize=(width * across, height * down + 0.6), layout="constrained")
    panels = list(figure.subplots(down, across, squeeze=False, **shared).flat)
    for axes in panels[len(names) :]:
        axes.remove()
    for axes, name in zip(panels, names, strict=False):
        axes.set_title(name, fontsize=11 if picture.kind == "curves" else 10)
        tidy(axes, picture.words["x"], picture.words["y"])
    if "title" in picture.words:
        figure.suptitle(picture.words["title"], fontsize=12)
    parts = [{k: f[f["panel"] == name] for k, f in picture.frames.items()} for name in names]
    return figure, list(zip(panels, parts, strict=False))


def _dot(marker: str, **options: Any) -> dict[str, Any]:
    return {"marker": marker, "linestyle": "", "markersize": 8, **options}


def tidy(axes: Axes, x: str, y: str) -> None:
    """Label the axes, add a grid, and remove the upper and right spines."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def method_line(method: str) -> Line2D:
    """Return a method's mark, for a legend."""
    colour, marker = style(method)
    return Line2D([], [], color=colour, label=method, **_dot(marker))


def legend(figure: Figure, handles: Sequence[Artist], columns: int, note: str = "") -> None:
    """Add one legend for all panels below them, with a note as its title."""
    figure.legend(
        handles=handles, loc="outside lower center", ncols=columns, frameon=False,
        title=note or None, title_fontsize=9,
    )  # fmt: skip


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write PNG, SVG and PDF, the same bytes for the same figure."""
    paths = [stem.with_suffix(f".{kind}") for kind in NO_TIME]
    with matplotlib.rc_context({"svg.hashsalt": "pfedfair", "pdf.fonttype": 42}):
        for path, meta in zip(paths, NO_TIME.values(), strict=True):
            with atomic(path) as file:
                figure.savefig(file, dpi=150, metadata=meta)
    return paths
