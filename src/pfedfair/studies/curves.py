"""What Figures 3, 4, 5 and 7 have in common: methods over eta, on the paper's five clients."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from pfedfair.experiment import FRONTIER
from pfedfair.partition import fixed_shares
from pfedfair.studies.rows import CONSTANT, levels
from pfedfair.studies.study import Cell

ETAS = (0.0, 0.3, 0.6, 0.9)
METHODS = (
    CONSTANT, "kde-local", "fedavg-kde", "pfedme-kde", "pfedfair", "pfedfair-target", "transport",
    FRONTIER,
)  # fmt: skip


def cells(methods: Sequence[str]) -> list[Cell]:
    """Every level of some methods."""
    return [Cell(fixed_shares(), row, level) for row in methods for level in levels(row, ETAS)]


def panels(results: pd.DataFrame) -> pd.DataFrame:
    """The results with a panel for each data set and method; the constant classifier has none."""
    shown = results[results["method"] != CONSTANT]
    return shown.assign(panel=shown["dataset"] + ": " + shown["method"])
