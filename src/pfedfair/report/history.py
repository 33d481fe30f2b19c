"""The learning curve of a run, as CSV and as a figure."""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from pfedfair._util.files import atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write(history: pd.DataFrame, folder: str | Path) -> list[Path]:
    """Write `Run.history` to ``history.csv`` and ``history.png``."""
    paths = [Path(folder) / f"history.{kind}" for kind in ("csv", "png")]
    with atomic(paths[0]) as file:
        history.to_csv(file, index=False)
    with atomic(paths[1]) as file:
        draw(history).savefig(file, dpi=150)
    return paths


def draw(history: pd.DataFrame) -> "Figure":
    """Draw loss, accuracy and gap against the round; and a mark for the clients' final models."""
    from matplotlib.figure import Figure  # matplotlib takes a second to load
    from matplotlib.ticker import MaxNLocator

    from pfedfair.report.figures import COLOURS, legend, tidy

    rounds = history[history["model"] == "global"]
    end = history[history["model"] != "global"]
    measures = [name for name in map(str, history) if name not in ("round", "model")]
    figure = Figure(figsize=(3.4 * len(measures), 3.2), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(measures)), measures, strict=True):
        (line,) = axes.plot(rounds["round"], rounds[name], color=COLOURS[0], marker="o", ms=3)
        (mark,) = axes.plot(end["round"], end[name], color=COLOURS[5], marker="D", ls="")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))  # no half rounds
        line.set_label("the global model")
        mark.set_label("the clients' own models and rules")
        tidy(axes, "round", name.upper() if name not in ("loss", "accuracy") else name)
    figure.suptitle("On training rows, mean over clients", fontsize=11)
    legend(figure, [line, mark], 2)
    return figure
