"""Table 5: fair methods for images in one place, all with a linear layer on the same embeddings."""

from dataclasses import replace

import pandas as pd

from pfedfair.studies import central, parts, summary, words
from pfedfair.studies.curves import ETAS
from pfedfair.studies.rows import CONSTANT
from pfedfair.studies.study import Cell, Study, cells_of
from pfedfair.studies.view import Table

VALIDATION = 0.2
METHODS = (
    CONSTANT, "erm", "irm", "fair-dummies", "reweigh", "dro", "dro-chi2", "gaussian-swap",
    "fair linear", "transport",
)  # fmt: skip
ROWS = (
    "erm: plain training. fair-dummies is the paper's RES; reweigh (weights that make label and S "
    "independent) stands beside it. gaussian-swap stands in for DiGA, which needs a generator of "
    "faces and cannot be run here: it moves embeddings from one group to the other. fair linear: "
    "the paper's, training with the KDE penalty.",
)
CHOSEN = (
    "eta or limit: how fair each method is asked to be, where the rows set aside from training "
    "have the largest accuracy less DDP."
)


def cells(dataset: str) -> list[Cell]:
    """Every method at every level, measured on rows set aside and on held-out rows."""
    plan = replace(central.PLAN, validation=VALIDATION)
    return central.linear(cells_of(METHODS, plan, etas=ETAS, validated=True))


def chosen(part: pd.DataFrame) -> "pd.Series[bool]":
    """Which results are of a method's level that the validation rows choose."""
    tried = part[part["protocol"] == "validation"]
    score = tried.assign(score=tried["accuracy"] - tried["ddp"].fillna(0))
    mean = score.groupby(["method", "config"])["score"].mean().reset_index()
    best = mean.loc[mean.groupby("method")["score"].idxmax()].set_index("method")["config"]
    return part["config"] == part["method"].map(best)


def method_table(part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    """Every method at the level that the validation rows choose."""
    best = part[chosen(part)]
    kept = rows[["method", "config"]].apply(tuple, axis=1)  # two methods may have equal settings
    shown = rows[kept.isin(best[["method", "config"]].apply(tuple, axis=1))]
    return central.table(summary.held_out(best), shown, "table5")


STUDY = Study(
    title="Table 5: fair methods in one place",
    cells=cells,
    table=method_table,
    pictures=lambda results, rows: [parts.trade_off("table5", results, rows, ("mean",))],
    legend=lambda gap: (*ROWS, CHOSEN, words.ACCURACY, *parts.measures(gap)[:1], words.SURE),
    datasets=(),
    faces=central.FACES,
)
