"""Figure 5: every client of every method, in one picture."""

from __future__ import annotations

import pandas as pd

from pfedfair.partition import fixed_shares
from pfedfair.studies import curves, parts, summary
from pfedfair.studies.rows import Cell, Study, one_level
from pfedfair.studies.view import Picture, View

METHODS = (
    "constant", "fedavg-kde", "pfedme-kde", "fa", "mmpf", "fcfl", "pfedfair", "pfedfair-target",
    "transport",
)  # fmt: skip
ETA = 0.9
CLAIMS = tuple(
    ("pfedfair", rival, measure)
    for rival in ("fedavg-kde", "pfedme-kde", "fa", "mmpf", "fcfl")
    for measure in ("mean_accuracy", "mean_ddp")
)


def cells(dataset: str) -> list[Cell]:
    return [Cell(fixed_shares(), row, one_level(row, ETA)) for row in METHODS]


def view(results: pd.DataFrame) -> View:
    rows, drawn = summary.summary(results), curves.panels(results)
    dots = drawn.assign(x=drawn["ddp"], y=100 * drawn["accuracy"])[["panel", "role", "x", "y"]]
    picture = Picture(
        name="figure5",
        kind="clients",
        frames={"clients": dots},
        words={"x": "DDP ↓", "y": "accuracy % ↑"},
        across=drawn["method"].nunique(),
    )
    tables = curves.tables(results, rows, CLAIMS)
    return parts.view(STUDY.title, results, tables, [picture], rows=rows)


STUDY = Study(title="Figure 5: every client of every method", cells=cells, view=view)
