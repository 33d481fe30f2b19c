"""Clients whose people differ: Adult by occupation and by education. Not in the paper.

There P(X | S) is another at every client, and so are the shares of S. The paper's partitions share
P(X | S); a method that leans on that must notice when it does not hold.
"""

import pandas as pd

from pfedfair.experiments import RUN
from pfedfair.metrics.criteria import CRITERIA
from pfedfair.partition import by_column
from pfedfair.studies import parts, summary, words
from pfedfair.studies.rows import Level
from pfedfair.studies.study import Cell, Study
from pfedfair.studies.view import Column, Table

COLUMNS = ("occupation", "education")
TARGET = 0.05
OURS = "transport"
OWN, POOL = 0.0, 1e9  # kappa: a client's own people only, or the pooled ones
SHORT = {OWN: "own people", POOL: "all people"}
RUNS: tuple[tuple[str, Level], ...] = (
    ("constant", {}),
    ("fedavg", {}),
    ("fedavg-kde", {}),
    ("logofair", {"delta_local": TARGET, "delta_global": 1.0}),
    (OURS, {"target_ddp": TARGET, "kappa": OWN}),
    (OURS, {"target_ddp": TARGET, "kappa": POOL}),
    (OURS, {"target_ddp": TARGET}),
    (OURS, {"target_ddp": TARGET, "confidence": 0.95}),
)
MEASURES = ["mean_accuracy", "mean_ddp", "worst_ddp", "within", "kept"]
LEGEND = (
    "mean, worst: over clients, of accuracy in percent (↑) and DDP (↓) on each client's own test "
    "rows.",
    f"within (↑): clients with both groups in the test whose DDP is within {TARGET:g} there; "
    "may be within: whose 95 % interval allows that (small clients' always do).",
    "own people, all people: the rule is set on the client's own people only, or on everybody's; "
    "else on a mixture of both.",
    CRITERIA["dp"].words,
    words.SURE,
)


def cells(dataset: str) -> list[Cell]:
    """All rows, for each way to make clients."""
    plans = [by_column(column, min_rows=10) for column in COLUMNS]
    return [Cell(plan, row, level) for plan in plans for row, level in RUNS]


def kept(results: pd.DataFrame) -> pd.DataFrame:
    """One row per run: a summary over clients, and the part of them that kept the target."""
    known = results["ddp"].notna()
    kept = {"within": results["ddp"] <= TARGET, "kept": results["ddp_low"] <= TARGET}
    results = results.assign(**{k: v.astype(float).where(known) for k, v in kept.items()})
    each = summary.over_clients(results, [*kept])
    return summary.with_settings(each, "kappa", "confidence")


def stress_table(part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    """Methods against accuracy, DDP and how many clients kept the target."""

    def name(row: pd.Series) -> str:
        short = SHORT.get(row["kappa"])
        return f"{row['method']}\n {short}" if short else str(row["method"])

    each = kept(part)
    return Table(
        frame=summary.over_seeds(each, [*RUN, "kappa"], MEASURES),
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
        lines_heading=parts.CAME_OUT,
        lines=(verdict(each),),
    )


def verdict(each: pd.DataFrame) -> str:
    """Say whether leaning on others costs accuracy against a rule from own people only."""
    each = each[(each["method"] == OURS) & each["confidence"].isna()]
    named = each.assign(method=each["kappa"].map({OWN: "own"}).where(each["kappa"].notna(), OURS))
    mean, low, high = summary.paired(named, OURS, "own", "mean_accuracy")
    what = f"{OURS}, difference to the same with own people only: mean accuracy"
    return f"{what} {words.points(mean, low, high, 2)} percentage points"


STUDY = Study(
    title="Clients whose people differ",
    cells=cells,
    table=stress_table,
    legend=lambda gap: LEGEND,
    datasets=("adult",),
    in_paper=False,
)
