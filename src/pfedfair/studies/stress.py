"""Clients with different distributions: Adult by occupation and by education. Not in the paper.

P(X | S) differs between clients, and so do the shares of S. The paper's partitions share P(X | S);
a method that assumes this must notice when it does not hold.
"""

import pandas as pd

from pfedfair.experiments import RUN
from pfedfair.metrics.criteria import CRITERIA
from pfedfair.partition import by_column
from pfedfair.studies import parts, summary, words
from pfedfair.studies.rows import Level, at_target
from pfedfair.studies.study import Cell, Study
from pfedfair.studies.view import Column, Table

COLUMNS = ("occupation", "education")
TARGET = 0.05
OURS = "transport"
OWN, POOL = 0.0, 1e9  # kappa: a client's own rows only, or the pooled ones
SHORT = {OWN: "own rows", POOL: "all rows"}
RUNS: tuple[tuple[str, Level], ...] = (
    ("constant", {}),
    ("fedavg", {}),
    ("fedavg-kde", {}),
    ("logofair", {"delta_local": TARGET, "delta_global": 1.0}),
    (OURS, at_target(OURS, TARGET) | {"kappa": OWN}),
    (OURS, at_target(OURS, TARGET) | {"kappa": POOL}),
    (OURS, at_target(OURS, TARGET)),
    (OURS, {"target_ddp": TARGET, "confidence": 0.95}),
)
MEASURES = ["mean_accuracy", "mean_ddp", "worst_ddp", "within", "kept"]
LEGEND = (
    "mean, worst: over clients, of accuracy in percent (↑) and DDP (↓) on each client's own test "
    "rows.",
    f"within (↑): clients with both groups in the test whose DDP is within {TARGET:g} there; "
    "may be within: whose 95 % interval allows that (small clients' always do).",
    "own rows, all rows: the rule is set on the client's own rows only, or on all clients'; else "
    "on a mixture of both.",
    CRITERIA["dp"].words,
    words.HALF_WIDTH,
)


def cells(dataset: str) -> list[Cell]:
    """Return all runs for each partition."""
    plans = [by_column(column, min_rows=10) for column in COLUMNS]
    return [Cell(plan, row, level) for plan in plans for row, level in RUNS]


def by_run(results: pd.DataFrame) -> pd.DataFrame:
    """Return a row per run: a summary over clients, and the part of them within the target."""
    known = results["ddp"].notna()
    within = {"within": results["ddp"] <= TARGET, "kept": results["ddp_low"] <= TARGET}
    results = results.assign(**{k: v.astype(float).where(known) for k, v in within.items()})
    runs = summary.over_clients(results, [*within])
    return summary.with_settings(runs, "kappa", "confidence")


def stress_table(part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    """Return methods against accuracy, DDP and the part of clients within the target."""

    def name(row: pd.Series) -> str:
        short = SHORT.get(row["kappa"])
        return f"{row['method']}\n {short}" if short else str(row["method"])

    runs = by_run(part)
    return Table(
        frame=summary.over_seeds(runs, [*RUN, "kappa"], MEASURES),
        columns=(
            Column("method", name),
            parts.LEVEL,
            parts.measured("mean\naccuracy % ↑", "mean_accuracy"),
            parts.measured("mean\nDDP ↓", "mean_ddp"),
            parts.measured("worst\nDDP ↓", "worst_ddp"),
            Column("within ↑", "{within:.0%}"),
            Column("may be\nwithin ↑", "{kept:.0%}"),
        ),
        keys=2,
        lines_heading=parts.RESULTS,
        lines=(verdict(runs),),
    )


def verdict(runs: pd.DataFrame) -> str:
    """Return the accuracy of the mixture less that of a rule from the client's own rows only."""
    runs = runs[(runs["method"] == OURS) & (runs["confidence"] == 0)]
    named = runs.assign(method=runs["kappa"].map({OWN: "own"}).where(runs["kappa"].notna(), OURS))
    mean, low, high = summary.paired(named, OURS, "own", "mean_accuracy")
    what = f"{OURS}, difference to the same with own rows only: mean accuracy"
    return f"{what} {words.points(mean, low, high, 2)} percentage points"


STUDY = Study(
    title="Clients with different distributions",
    cells=cells,
    table=stress_table,
    legend=lambda gap: LEGEND,
    datasets=("adult",),
    in_paper=False,
)
