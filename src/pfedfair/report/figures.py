"""Figures, as PNG and SVG."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pfedfair import metrics
from pfedfair.files import atomic
from pfedfair.report import tables

# One colour and marker per method, the same in every figure; readable without colour vision.
STYLE = {
    "constant": ("#000000", "x"),
    "erm-local": ("#999999", "v"),
    "fedavg": ("#999999", "o"),
    "pfedme": ("#999999", "s"),
    "ditto": ("#999999", "D"),
    "kde-local": ("#E69F00", "v"),
    "fedavg-kde": ("#56B4E9", "o"),
    "pfedme-kde": ("#009E73", "s"),
    "ditto-kde": ("#CC79A7", "D"),
    "pfedfair": ("#D55E00", "*"),
}
ROLES = ("underrepresented", "overrepresented")


def trade_off(results: pd.DataFrame, printed: dict[str, pd.DataFrame] | None = None) -> Figure:
    """Draw error against DDP, a panel for each data set and kind of client; lower left is better.

    A method is a curve over its eta values, with intervals over seeds; hollow marks are the
    paper's printed figures.
    """
    printed = printed or {}
    datasets = list(dict.fromkeys(results["dataset"]))
    roles = [role for role in ROLES if role in set(results["role"])]
    figure = Figure(figsize=(5 * len(roles), 4 * len(datasets) + 0.6), layout="constrained")
    axes = figure.subplots(len(datasets), len(roles), squeeze=False)
    for line, name in zip(axes, datasets, strict=True):
        part = results[results["dataset"] == name]
        for panel, role in zip(line, roles, strict=True):
            _panel(panel, part, role, printed.get(name))
            panel.set_title(f"{name}: {role} clients", fontsize=11)
    methods = list(dict.fromkeys(results["method"]))
    handles = [
        Line2D([], [], color=_style(m)[0], marker=_style(m)[1], linestyle="", label=m, markersize=8)
        for m in methods
    ]
    if printed:
        hollow = {"color": "#555555", "marker": "o", "linestyle": "", "markerfacecolor": "none"}
        handles.append(Line2D([], [], label="hollow: the paper's figure", **hollow))  # type: ignore[arg-type]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=2 + 3 * (len(roles) > 1), frameon=False
    )
    figure.suptitle("Error and unfairness of every method (lower left is better)", fontsize=12)
    return figure


def _panel(axes: Axes, results: pd.DataFrame, role: str, printed: pd.DataFrame | None) -> None:
    x, y = f"{role}_ddp", f"{role}_accuracy"
    summary = tables.over_seeds(metrics.over_clients(results), metrics.RUN, [x, y]).sort_values(
        "eta"
    )
    for method, rows in summary.groupby("method", sort=False):
        colour, marker = _style(str(method))
        axes.errorbar(
            rows[x],
            100 * (1 - rows[y]),
            xerr=rows[f"{x}_half"].fillna(0),
            yerr=100 * rows[f"{y}_half"].fillna(0),
            color=colour,
            marker=marker,
            markersize=11 if marker == "*" else 7,
            linewidth=1.2,
            elinewidth=0.8,
            capsize=2,
        )
    if printed is not None:
        clients = results.loc[results["role"] == role, "client"].unique()
        theirs = printed[printed["client"].isin(clients)].groupby("method")
        for name, row in theirs[["accuracy", "ddp"]].mean().iterrows():
            colour, marker = _style(str(name))
            axes.plot(
                row["ddp"], 100 * (1 - row["accuracy"]),
                color=colour, marker=marker, markersize=8, markerfacecolor="none", linestyle="",
            )  # fmt: skip
    axes.set_xlabel("DDP ↓")
    axes.set_ylabel("error % ↓")
    widest = np.nanmax([0, *summary[x], *([] if printed is None else printed["ddp"])])
    axes.set_xlim(-0.005, 1.15 * widest + 0.01)  # with few seeds an interval may reach far out
    axes.grid(alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _style(method: str) -> tuple[str, str]:
    return STYLE.get(method, ("#0072B2", "P"))


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write PNG and SVG, the same bytes for the same figure."""
    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    with matplotlib.rc_context({"svg.hashsalt": "pfedfair"}):
        for path in paths:
            meta = {"Date": None} if path.suffix == ".svg" else None
            with atomic(path) as beside:
                figure.savefig(beside, dpi=150, metadata=meta)
    return paths
