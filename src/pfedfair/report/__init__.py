"""Tables and figures, all made from ``results.parquet``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from pfedfair.files import atomic
from pfedfair.report import figures, tables

__all__ = ["figures", "tables", "write"]


def write(
    results: pd.DataFrame, out: Path, draw: dict[str, Callable[[pd.DataFrame], Figure]]
) -> list[Path]:
    """Write the summary as Markdown and CSV, and the figures as PNG and SVG.

    `draw` has a function from results to picture for each file name.
    """
    summary = tables.summary(results)
    clients = tables.by_client(results)
    text = ["# Results", "", *tables.LEGEND, "", tables.markdown(summary)]
    for name, part in clients.groupby("dataset", sort=False):
        text += ["", f"## {name}, client by client", "", tables.markdown(part)]
    paths = [out / "report.md", out / "summary.csv", out / "clients.csv"]
    for path, content in zip(
        paths, ("\n".join(text) + "\n", summary.to_csv(index=False), clients.to_csv(index=False)),
        strict=True,
    ):  # fmt: skip
        with atomic(path) as beside:
            beside.write_text(content)
    for name, picture in draw.items():
        paths += figures.save(picture(results), out / name)
    return paths
