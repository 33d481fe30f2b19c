"""Figure 5: every client of every method, in one picture."""

from __future__ import annotations

from functools import partial

import pandas as pd

from pfedfair.partition import fixed_shares
from pfedfair.studies import curves, parts
from pfedfair.studies.rows import one_level
from pfedfair.studies.study import Cell, Study
from pfedfair.studies.view import Picture

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


def pictures(results: pd.DataFrame, rows: pd.DataFrame) -> list[Picture]:
    drawn = curves.panels(results)
    dots = drawn.assign(x=drawn["ddp"], y=100 * drawn["accuracy"])[["panel", "role", "x", "y"]]
    said, across = {"x": "DDP ↓", "y": "accuracy % ↑"}, drawn["method"].nunique()
    frames = {"clients": dots}
    return [Picture(name="figure5", kind="clients", frames=frames, words=said, across=across)]


STUDY = Study(
    title="Figure 5: every client of every method",
    cells=cells,
    table=partial(parts.summary_table, claims=CLAIMS),
    pictures=pictures,
)
