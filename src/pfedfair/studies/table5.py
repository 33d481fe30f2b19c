"""Table 5: fair methods for images in one place, all with a linear layer on the same embeddings."""

from functools import partial

from pfedfair.studies import central, parts, words
from pfedfair.studies.rows import CONSTANT
from pfedfair.studies.study import Study, cells_of

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

STUDY = Study(
    title="Table 5: fair methods in one place",
    cells=lambda dataset: cells_of(METHODS, central.PLAN),
    table=partial(central.table, what="table5"),
    pictures=lambda results, rows: [parts.trade_off("table5", results, rows, ("mean",))],
    legend=lambda gap: (*ROWS, words.ACCURACY, *parts.measures(gap)[:1], words.SURE),
    datasets=(),
    faces=central.FACES,
)
