"""Tables and figures, all made from ``results.parquet``."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from pfedfair.files import atomic
from pfedfair.report import figures, tables

__all__ = ["figures", "tables", "write"]


def write(results: pd.DataFrame, out: Path, printed: dict[str, pd.DataFrame]) -> list[Path]:
    """Write the summary as Markdown and CSV, and the trade-off figure as PNG and SVG.

    `printed` has the paper's figures by data set, where there are any.
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
    figure = figures.trade_off(results, printed)
    return paths + figures.save(figure, out / "tradeoff")
