"""Figure 7: the mean client's trade-off over eta."""

from __future__ import annotations

import pandas as pd

from pfedfair.studies import curves, parts, summary
from pfedfair.studies.rows import Cell, Study
from pfedfair.studies.view import View

CLAIMS = (
    ("pfedfair", "kde-local", "mean_accuracy"),
    ("pfedfair", "fedavg-kde", "mean_accuracy"),
    ("pfedfair", "pfedme-kde", "mean_accuracy"),
)


def cells(dataset: str) -> list[Cell]:
    return curves.cells(curves.METHODS)


def view(results: pd.DataFrame) -> View:
    rows = summary.summary(results)
    tables = curves.tables(results, rows, CLAIMS)
    picture = parts.trade_off("figure7", results, rows, ("mean",))
    return parts.view(STUDY.title, results, tables, [picture], rows=rows)


STUDY = Study(title="Figure 7: mean trade-off over eta", cells=cells, view=view)
