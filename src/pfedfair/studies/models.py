"""Models compared without fairness, on the same rows. Not in the paper.

The base model changes results more than the fairness method does.
"""

import pandas as pd

from pfedfair.partition import by_column, fixed_shares
from pfedfair.studies import parts, summary, words
from pfedfair.studies.rows import BASES, CONSTANT
from pfedfair.studies.states import CLIENTS
from pfedfair.studies.study import Cell, Study
from pfedfair.studies.view import Column, Table

ROWS = 1125  # of each state
REFERENCE = "additive"
TRAINING = {
    "perceptron": "by FedAvg, as in the paper",
    "linear": "by Newton's method, numbers standardised",
    "additive": "by Newton's method, numbers piecewise linear",
    "additive, own intercepts": "the same, and an intercept for each client",
    "boosting": "gradient boosting, centralised, no federated method",
}
LEGEND = (
    *(f"{row}: {how}." for row, how in TRAINING.items()),
    words.ACCURACY,
    f"lead of {REFERENCE}: its mean accuracy over clients less the row's, in percentage points, "
    "with its 95 % interval over seeds.",
    "All models are trained without fairness.",
    words.HALF_WIDTH,
)


def cells(dataset: str) -> list[Cell]:
    """Return every model, on the paper's clients or on natural ones."""
    natural = dataset in CLIENTS
    rows = ROWS if dataset == "acs" else None
    plan = by_column(CLIENTS[dataset], rows=rows) if natural else fixed_shares()
    redundant = "linear" if natural else "additive, own intercepts"
    shown = [row for row in BASES if row != redundant]
    return [Cell(plan, row, {}) for row in (CONSTANT, *shown)]


def model_table(part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    """Return models against accuracy, the best first, and the lead of the additive one."""
    runs = summary.over_clients(part)
    leads = {row: summary.paired(runs, REFERENCE, row, "mean_accuracy") for row in rows["method"]}

    def lead(row: pd.Series) -> str:
        mean, low, high = leads[row["method"]]
        return "" if row["method"] == REFERENCE else words.points(mean, low, high)

    return Table(
        frame=rows.sort_values("mean_accuracy", ascending=False, ignore_index=True),
        columns=(
            Column("model", "{method}"),
            parts.measured("mean\naccuracy ↑", "mean_accuracy"),
            parts.measured("worst\naccuracy ↑", "worst_accuracy"),
            Column(f"lead of {REFERENCE}", lead),
        ),
    )


STUDY = Study(
    title="Models: which one to make fair",
    cells=cells,
    table=model_table,
    legend=lambda gap: LEGEND,
    tidy=lambda results: results.assign(dataset=results["dataset"].str.removesuffix("-additive")),
    elsewhere=tuple(CLIENTS),
    in_paper=False,
)
