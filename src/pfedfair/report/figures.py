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
from pfedfair.experiment import FRONTIER
from pfedfair.files import atomic
from pfedfair.report import tables

# One colour and marker per method, the same in every figure; readable without colour vision.
STYLE = {
    FRONTIER: ("#000000", ""),
    "transport": ("#000000", "P"),
    "pfedfair-target": ("#8C3B00", "D"),
    "fedavg-target": ("#00537F", "D"),
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
    "fa": ("#0072B2", "^"),
    "mmpf": ("#F0E442", "<"),
    "fcfl": ("#0072B2", ">"),
    "fairfed": ("#F0E442", "p"),
    "logofair": ("#0072B2", "h"),
    "fedprox": ("#999999", "8"),
    "perfedavg": ("#999999", "d"),
    "fedprox-kde": ("#56B4E9", "8"),
    "perfedavg-kde": ("#56B4E9", "d"),
}
ROLES = ("underrepresented", "overrepresented")


def trade_off(results: pd.DataFrame, printed: dict[str, pd.DataFrame] | None = None) -> Figure:
    """Draw error against DDP, a panel for each data set and kind of client; lower left is better.

    A method is a curve over its eta values, with intervals over seeds; hollow marks are the
    paper's printed figures.
    """
    printed = printed or {}
    settings = split(results)
    roles = [role for role in ROLES if role in set(results["role"])]
    figure = Figure(figsize=(5 * len(roles), 4 * len(settings) + 0.6), layout="constrained")
    axes = figure.subplots(len(settings), len(roles), squeeze=False)
    for line, (name, part) in zip(axes, settings.items(), strict=True):
        for panel, role in zip(line, roles, strict=True):
            _panel(panel, part, role, printed.get(part["dataset"].iloc[0]))
            panel.set_title(f"{name}: {role}", fontsize=11)
    hollow = Line2D(
        [], [], color="#555555", marker="o", linestyle="", markerfacecolor="none",
        label="hollow: the paper's figure",
    )  # fmt: skip
    columns = 2 + 3 * (len(roles) > 1)
    legend(figure, list(dict.fromkeys(results["method"])), columns, [hollow] if printed else None)
    figure.suptitle("Error and unfairness of every method (lower left is better)", fontsize=12)
    return figure


def split(results: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The results of each data set and partition, by a title."""
    parts = [part for _, part in results.groupby(["dataset", "partition"], sort=False)]
    return {tables.setting(part): part for part in parts}


def _panel(axes: Axes, results: pd.DataFrame, role: str, printed: pd.DataFrame | None) -> None:
    widest = curves(axes, results, role)
    if printed is not None:
        clients = results.loc[results["role"] == role, "client"].unique()
        theirs = printed[printed["client"].isin(clients)].groupby("method")
        for name, row in theirs[["accuracy", "ddp"]].mean().iterrows():
            colour, marker = style(str(name))
            axes.plot(
                row["ddp"], 100 * (1 - row["accuracy"]),
                color=colour, marker=marker, markersize=8, markerfacecolor="none", linestyle="",
            )  # fmt: skip
            widest = max(widest, row["ddp"])
    axes.set_xlim(-0.005, 1.15 * widest + 0.01)  # with few seeds an interval may reach far out


def curves(axes: Axes, results: pd.DataFrame, who: str) -> float:
    """Draw error against DDP of `who` (a role, "worst" or "mean"), a curve over eta per method.

    Or against the gap that the runs' criterion asks for. The frontier is a dashed line. Returns the
    largest mean gap.
    """
    gap = metrics.gap_of(results)
    x, y = f"{who}_{gap}", f"{who}_accuracy"
    runs = metrics.over_clients(results)
    summary = tables.over_seeds(runs, metrics.RUN, [x, y])
    summary = summary.sort_values("eta", kind="stable")
    for method, rows in summary.groupby("method", sort=False):
        colour, marker = style(str(method))
        if method == FRONTIER:
            axes.plot(rows[x], 100 * (1 - rows[y]), color=colour, linestyle="--", linewidth=1)
            continue
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
    tidy(axes, f"{gap.upper()} ↓", "error % ↓")
    return float(np.nanmax([0, *summary[x]]))


def tidy(axes: Axes, x: str, y: str) -> None:
    """Label the axes, and leave out what carries no information."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def legend(
    figure: Figure, methods: list[str], columns: int, more: list[Line2D] | None = None
) -> None:
    """One legend for all panels, below them."""
    handles = [
        Line2D([], [], color=style(m)[0], marker=style(m)[1], linestyle="", label=m, markersize=8)
        for m in methods
        if m != FRONTIER
    ]
    if FRONTIER in methods:
        what = "thresholds on FedAvg's scores (Prop. 2)"
        handles.append(Line2D([], [], color="#000000", linestyle="--", label=what))
    figure.legend(
        handles=handles + (more or []), loc="outside lower center", ncols=columns, frameon=False
    )


def style(method: str) -> tuple[str, str]:
    """Colour and marker of a method."""
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
