"""Figure 7: the mean client's trade-off over eta."""

from __future__ import annotations

from functools import partial

from pfedfair.studies import curves, parts
from pfedfair.studies.study import Study

CLAIMS = (
    ("pfedfair", "kde-local", "mean_accuracy"),
    ("pfedfair", "fedavg-kde", "mean_accuracy"),
    ("pfedfair", "pfedme-kde", "mean_accuracy"),
)
STUDY = Study(
    title="Figure 7: mean trade-off over eta",
    cells=lambda dataset: curves.cells(curves.METHODS),
    table=partial(parts.summary_table, claims=CLAIMS),
    pictures=lambda results, rows: [parts.trade_off("figure7", results, rows, ("mean",))],
)
