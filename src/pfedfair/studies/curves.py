"""What Figures 3, 4, 5 and 7 have in common: methods over eta, on the paper's five clients."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from pfedfair.experiment import FRONTIER
from pfedfair.partition import fixed_shares
from pfedfair.studies import parts, summary
from pfedfair.studies.rows import CONSTANT, Cell, levels
from pfedfair.studies.view import Table

ETAS = (0.0, 0.3, 0.6, 0.9)
METHODS = (
    CONSTANT, "kde-local", "fedavg-kde", "pfedme-kde", "pfedfair", "pfedfair-target", "transport",
    FRONTIER,
)  # fmt: skip


def cells(methods: Sequence[str]) -> list[Cell]:
    """Every level of some methods."""
    return [Cell(fixed_shares(), row, level) for row in methods for level in levels(row, ETAS)]


def tables(results: pd.DataFrame, rows: pd.DataFrame, claims: Sequence[parts.Claim]) -> list[Table]:
    """A summary of each data set."""
    return [
        parts.summary_table(part, parts.rows_of(rows, part), claims=claims)
        for part in summary.parts(results)
    ]


def panels(results: pd.DataFrame) -> pd.DataFrame:
    """The results with a panel for each data set and method; the constant classifier has none."""
    shown = results[results["method"] != CONSTANT]
    return shown.assign(panel=shown["dataset"] + ": " + shown["method"])
