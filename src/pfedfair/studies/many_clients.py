"""Tables 2 and 3: twenty and fifty clients on Adult, fixed and Dirichlet shares, eta = 0.9."""

from __future__ import annotations

from functools import partial

import pandas as pd

from pfedfair.experiment import FRONTIER
from pfedfair.partition import Plan, dirichlet_mixture, fixed_shares
from pfedfair.studies import parts
from pfedfair.studies.rows import one_level
from pfedfair.studies.study import Cell, Study
from pfedfair.studies.view import Table

METHODS = (
    "constant", "kde-local", "fedavg-kde", "pfedme-kde", "pfedfair", "pfedfair-target", "transport",
    FRONTIER,
)  # fmt: skip
ETA = 0.9
CLIENTS = (20, 50)

# Accuracy in percent and DDP of minority, majority, worst and average client, as printed.
Rows = dict[str, list[tuple[float, float]]]
PRINTED: dict[str, dict[int, Rows]] = {
    "table2": {
        20: {
            "kde-local": [(75.2, 0.035), (78.5, 0.028), (73.5, 0.045), (77.0, 0.031)],
            "pfedme-kde": [(78.1, 0.042), (83.5, 0.032), (77.3, 0.057), (82.4, 0.036)],
            "pfedfair": [(82.5, 0.046), (86.8, 0.024), (82.0, 0.056), (86.0, 0.030)],
        },
        50: {
            "kde-local": [(74.1, 0.043), (75.5, 0.028), (73.7, 0.051), (75.0, 0.036)],
            "pfedme-kde": [(77.7, 0.056), (82.0, 0.037), (76.0, 0.062), (81.2, 0.044)],
            "pfedfair": [(81.1, 0.047), (85.2, 0.039), (80.4, 0.061), (84.4, 0.043)],
        },
    },
    "table3": {
        20: {
            "kde-local": [(75.8, 0.040), (78.0, 0.032), (72.2, 0.048), (76.6, 0.036)],
            "pfedme-kde": [(78.9, 0.045), (83.3, 0.039), (75.3, 0.060), (82.4, 0.043)],
            "pfedfair": [(83.0, 0.048), (86.2, 0.030), (81.1, 0.059), (85.5, 0.038)],
        },
        50: {
            "kde-local": [(73.3, 0.049), (74.8, 0.036), (72.1, 0.051), (74.5, 0.042)],
            "pfedme-kde": [(77.4, 0.062), (81.5, 0.041), (73.7, 0.068), (80.6, 0.052)],
            "pfedfair": [(81.3, 0.059), (84.3, 0.044), (79.2, 0.059), (83.7, 0.051)],
        },
    },
}
COLUMNS = ("underrepresented", "overrepresented", "worst", "mean")

CLAIMS = (
    ("pfedfair", "kde-local", "worst_accuracy"),
    ("pfedfair", "kde-local", "mean_accuracy"),
    ("pfedfair", "pfedme-kde", "worst_accuracy"),
    ("pfedfair", "pfedme-kde", "mean_accuracy"),
    ("kde-local", "pfedfair", "worst_ddp"),
    ("pfedfair", "pfedme-kde", "mean_ddp"),
)


def plan(what: str, clients: int) -> Plan:
    return fixed_shares(clients) if what == "table2" else dirichlet_mixture(clients)


def cells(what: str, dataset: str) -> list[Cell]:
    return [
        Cell(plan(what, n), row, one_level(row, ETA), clients=n) for n in CLIENTS for row in METHODS
    ]


def printed(what: str, clients: int) -> pd.DataFrame:
    """The paper's figures: a row per method, columns as in a summary."""
    return pd.DataFrame(
        {"method": method}
        | {f"{who}_accuracy": pair[0] / 100 for who, pair in zip(COLUMNS, row, strict=True)}
        | {f"{who}_ddp": pair[1] for who, pair in zip(COLUMNS, row, strict=True)}
        for method, row in PRINTED[what][clients].items()
    )


def table(what: str, part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    clients, adult = part["client"].nunique(), part["dataset"].iloc[0] == "adult"
    paper = printed(what, clients) if adult and clients in PRINTED[what] else None
    return parts.summary_table(part, rows, paper, CLAIMS)


STUDIES = {
    what: Study(
        title=f"Table {what[-1]}: 20 and 50 clients, {shares} shares",
        cells=partial(cells, what),
        table=partial(table, what),
        pictures=parts.by_role,
        datasets=("adult",),
    )
    for what, shares in (("table2", "fixed"), ("table3", "Dirichlet"))
}
