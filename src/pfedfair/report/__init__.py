"""Tables and figures, all made from ``results.parquet``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from pfedfair.experiment import FRONTIER
from pfedfair.files import atomic
from pfedfair.metrics import gap_of
from pfedfair.report import figures, tables

__all__ = ["figures", "tables", "write"]


def write(
    results: pd.DataFrame,
    out: Path,
    draw: dict[str, Callable[[pd.DataFrame], Figure]],
    texts: dict[str, Callable[[pd.DataFrame], str]] | None = None,
) -> list[Path]:
    """Write the summary as Markdown and CSV, and the figures as PNG and SVG.

    `draw` has a function from results to picture for each file name, `texts` one to text. Pictures
    and summary leave out what was measured on validation rows: that was for choosing.
    """
    everything, held = results, results[results["protocol"] != "validation"]
    results = held if len(held) else results  # tuning looks at nothing else
    summary = tables.summary(results)
    clients = tables.by_client(results[results["method"] != FRONTIER])
    text = ["# Results", "", *tables.legend(gap_of(results)), "", tables.markdown(summary)]
    for name, part in clients.groupby("dataset", sort=False):
        text += ["", f"## {name}, client by client", "", tables.markdown(part)]
    contents = {
        "report.md": "\n".join(text) + "\n",
        "summary.csv": summary.to_csv(index=False),
        "clients.csv": clients.to_csv(index=False),
    }
    contents |= {name: write_text(everything) for name, write_text in (texts or {}).items()}
    paths = [out / name for name in contents]
    for path in paths:
        with atomic(path) as beside:
            beside.write_text(contents[path.name])
    for name, picture in draw.items():
        paths += figures.save(picture(results), out / name)
    return paths
