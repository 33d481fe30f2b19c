"""The paper's figures, each from ``results.parquet`` alone."""

from __future__ import annotations

import json
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pfedfair import metrics
from pfedfair.report import tables
from pfedfair.report.figures import curves, legend, split, tidy

COLOUR = {"underrepresented": "#D55E00", "overrepresented": "#0072B2"}
DASH: dict[str, Literal["-", "--"]] = {"npr_s0": "-", "npr_s1": "--"}


def _names(results: pd.DataFrame, column: str) -> list[str]:
    return list(dict.fromkeys(results[column]))


def _methods(results: pd.DataFrame) -> list[str]:
    """The methods that get a panel: the constant classifier is in the tables only."""
    return [name for name in _names(results, "method") if name != "constant"]


def tuned_lambda(results: pd.DataFrame) -> pd.DataFrame:
    """Leave out the runs that vary lambda: keep the value that the runs at lower eta have."""
    usual = set(results.loc[results["eta"] < results["eta"].max(), "lam"].dropna())
    return results[results["lam"].isna() | results["lam"].isin(usual)]


def negative_rates(results: pd.DataFrame) -> Figure:
    """Figure 3: negative prediction rates of the two groups against eta, by kind of client."""
    datasets, methods = _names(results, "dataset"), _methods(results)
    figure = Figure(figsize=(4.5 * len(methods), 3.6 * len(datasets) + 0.6), layout="constrained")
    panels = figure.subplots(len(datasets), len(methods), squeeze=False, sharey="row")
    for line, name in zip(panels, datasets, strict=True):
        for axes, method in zip(line, methods, strict=True):
            part = results[(results["dataset"] == name) & (results["method"] == method)]
            for role, colour in COLOUR.items():
                means = part[part["role"] == role].groupby("eta")[list(DASH)].mean()
                for column, dash in DASH.items():
                    axes.plot(means.index, means[column], dash, color=colour, marker="o")
            axes.set_title(f"{name}: {method}", fontsize=11)
            tidy(axes, "eta", "negative prediction rate")
    lines = [Line2D([], [], color=c, label=f"{role} clients") for role, c in COLOUR.items()]
    lines += [
        Line2D([], [], color="#555555", linestyle=d, label=f"S={c[-1]}") for c, d in DASH.items()
    ]
    figure.legend(handles=lines, loc="outside lower center", ncols=4, frameon=False)
    return figure


def trade_off(results: pd.DataFrame, who: str) -> Figure:
    """Figures 4 (b) and 7: error against DDP of the worst client, or the mean, over eta."""
    usual = tuned_lambda(results)
    settings = split(usual)
    across = min(len(settings), 2)
    down = -(-len(settings) // across)
    figure = Figure(figsize=(5 * across, 4.2 * down + 0.6), layout="constrained")
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for axes, (name, part) in zip(panels, settings.items(), strict=False):
        constant = part["method"] == "constant"
        widest = curves(axes, part[~constant], who)
        axes.set_xlim(-0.005, 1.15 * widest + 0.01)
        if constant.any():  # far above the others: a note instead of a mark
            error = 100 * (1 - metrics.over_clients(part[constant])[f"{who}_accuracy"].mean())
            note = f"constant classifier: DDP 0, error {error:.1f} %"
            axes.annotate(note, (0.98, 0.97), xycoords="axes fraction", ha="right", va="top")
        axes.set_title(f"{name}: {who} of clients", fontsize=11)
    for axes in panels[len(settings) :]:
        axes.remove()
    legend(figure, _methods(usual), 2 * across)
    return figure


def effect_of_lambda(results: pd.DataFrame) -> Figure:
    """Figure 4 (c): worst client's error and DDP of pFedFair against lambda."""
    part = results[(results["method"] == "pfedfair") & (results["eta"] == results["eta"].max())]
    runs = metrics.over_clients(part)
    runs["lam"] = [json.loads(config)["lam"] for config in runs["config"]]
    measures = ["worst_accuracy", "worst_ddp"]
    summary = tables.over_seeds(runs, ["dataset", "lam"], measures).sort_values("lam")
    datasets = _names(summary, "dataset")
    figure = Figure(figsize=(5 * len(datasets), 3.8), layout="constrained")
    for axes, name in zip(
        figure.subplots(1, len(datasets), squeeze=False)[0], datasets, strict=True
    ):
        rows = summary[summary["dataset"] == name]
        error = 100 * (1 - rows["worst_accuracy"])
        half = 100 * rows["worst_accuracy_half"].fillna(0)
        axes.errorbar(rows["lam"], error, half, color="#D55E00", marker="*", capsize=2)
        tidy(axes, "lambda", "worst client's error % (red)")
        other = axes.twinx()
        other.errorbar(
            rows["lam"], rows["worst_ddp"], rows["worst_ddp_half"].fillna(0),
            color="#0072B2", marker="o", capsize=2,
        )  # fmt: skip
        other.set_ylabel("worst client's DDP (blue)")
        axes.set_title(name, fontsize=11)
    return figure


def client_scatter(results: pd.DataFrame) -> Figure:
    """Figure 5: every client of every seed, a panel per method."""
    datasets, methods = _names(results, "dataset"), _methods(results)
    figure = Figure(figsize=(2.6 * len(methods), 2.9 * len(datasets) + 0.5), layout="constrained")
    panels = figure.subplots(len(datasets), len(methods), squeeze=False, sharex="row", sharey="row")
    for line, name in zip(panels, datasets, strict=True):
        for axes, method in zip(line, methods, strict=True):
            part = results[(results["dataset"] == name) & (results["method"] == method)]
            for role, colour in COLOUR.items():
                rows = part[part["role"] == role]
                axes.scatter(rows["ddp"], 100 * rows["accuracy"], color=colour, alpha=0.6, s=18)
            axes.set_title(f"{name}: {method}", fontsize=10)
            tidy(axes, "DDP ↓", "accuracy % ↑")
    lines = [
        Line2D([], [], color=c, marker="o", linestyle="", label=f"{role} clients")
        for role, c in COLOUR.items()
    ]
    figure.legend(handles=lines, loc="outside lower center", ncols=2, frameon=False)
    return figure


def shares(results: pd.DataFrame) -> Figure:
    """Figure 6: each client's shares of the two groups, a panel per number of clients."""
    first = results[results["seed"] == results["seed"].min()]
    first = first[first["method"] == first["method"].iloc[0]]
    plans = _names(first, "partition")
    figure = Figure(figsize=(5.5 * len(plans), 3.2), layout="constrained")
    for axes, plan in zip(figure.subplots(1, len(plans), squeeze=False)[0], plans, strict=True):
        rows = first[first["partition"] == plan]
        place = np.arange(1, len(rows) + 1)
        share = rows["share_s1"].to_numpy()
        axes.bar(place, share, color="#0072B2", label="S=1")
        axes.bar(place, 1 - share, bottom=share, color="#E69F00", label="S=0")
        axes.set_title(f"{len(rows)} clients", fontsize=11)
        tidy(axes, "client", "share of S")
        axes.legend(loc="lower left", ncols=2)
    return figure
