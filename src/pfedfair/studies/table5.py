"""Table 5: centralised fair methods for images, with a linear layer on the same embeddings."""

from dataclasses import replace

import pandas as pd

from pfedfair.data import FACES
from pfedfair.studies import central, parts, summary, words
from pfedfair.studies.curves import ETAS
from pfedfair.studies.rows import CONSTANT
from pfedfair.studies.study import Cell, Study, cells_of
from pfedfair.studies.view import Table

VALIDATION = 0.2
UNFAIR = "erm"
METHODS = (
    CONSTANT, "erm", "irm", "fair-dummies", "reweigh", "dro", "dro-chi2", "gaussian-swap",
    "fair linear", "transport",
)  # fmt: skip
ROWS = (
    "erm: training without fairness. fair-dummies is the paper's RES; reweigh (weights that make "
    "label and S independent) is not in the paper. gaussian-swap replaces DiGA, which needs a "
    "generator of faces and cannot be run here: it moves embeddings from one group to the other, "
    "and the paper's line below it is DiGA's. fair linear: the paper's, training with the KDE "
    "penalty.",
)
COMPARABLE = 0.02
ALPHAS = (0.003, 0.0003)
ONE_ALPHA = ("gaussian-swap",)  # which is slow to start
CHOSEN = (
    "eta or limit: the fairness level of each method. It and the step size are those with the "
    "least DDP on validation rows, among those with an accuracy there of at most 2 points below "
    "erm's (the paper: comparable accuracy)."
)


def cells(dataset: str) -> list[Cell]:
    """Return every method at some levels and step sizes, measured on validation and held-out rows.

    Of a method's levels every second one, from the fairest on, without the first, which is training
    without fairness.
    """
    plan = replace(central.PLAN, validation=VALIDATION)
    cells = []
    for row in METHODS:
        levels = cells_of((row,), plan, etas=ETAS, validated=True)
        selected = levels[:0:-2][::-1] or levels
        for alpha in ALPHAS[:1] if row in (CONSTANT, *ONE_ALPHA) else ALPHAS:
            cells += central.linear(selected, alpha)
    return cells


def chosen(part: pd.DataFrame) -> "pd.Series[bool]":
    """Return which results are of the level that the validation rows choose for a method."""
    tried = part[part["protocol"] == "validation"].fillna({"ddp": 0.0})
    mean = tried.groupby(["method", "config"])[["accuracy", "ddp"]].mean().reset_index()
    highest = mean.loc[mean["method"] == UNFAIR, "accuracy"].max()
    short = (highest - COMPARABLE - mean["accuracy"]).clip(lower=0)  # of comparable accuracy
    unfair = mean["ddp"].where(mean["method"] != UNFAIR, -mean["accuracy"])
    order = mean.assign(short=short, unfair=unfair).sort_values(["short", "unfair"])
    best = order.drop_duplicates("method").set_index("method")["config"]
    return part["config"] == part["method"].map(best)


def method_table(part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    """Return every method at the level that the validation rows choose."""
    best = part[chosen(part)]
    keys = rows[["method", "config"]].apply(tuple, axis=1)  # two methods may have equal settings
    shown = rows[keys.isin(best[["method", "config"]].apply(tuple, axis=1))]
    return central.table(summary.held_out(best), shown, "table5")


STUDY = Study(
    title="Table 5: fair methods in one place",
    cells=cells,
    table=method_table,
    legend=lambda gap: (*ROWS, CHOSEN, words.ACCURACY, *parts.measures(gap)[:1], words.HALF_WIDTH),
    datasets=(),
    elsewhere=FACES,
)
