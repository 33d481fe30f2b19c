"""Common parts of figures 3, 4, 5 and 7: methods on the paper's five clients, over eta."""

import pandas as pd

from pfedfair.experiments import FRONTIER
from pfedfair.partition import fixed_shares
from pfedfair.studies.rows import CONSTANT
from pfedfair.studies.study import Cell, cells_of
from pfedfair.studies.view import Picture

ETAS = (0.0, 0.3, 0.6, 0.9)
METHODS = (
    CONSTANT, "kde-local", "fedavg-kde", "pfedme-kde", "pfedfair", "pfedfair-target", "transport",
    FRONTIER,
)  # fmt: skip


def over_eta(dataset: str) -> list[Cell]:
    return cells_of(METHODS, fixed_shares(), etas=ETAS)


def by_method(name: str, kind: str, frame: pd.DataFrame, x: str, y: str) -> Picture:
    """Return a picture with a panel for each data set and method but the constant classifier."""
    shown = frame[frame["method"] != CONSTANT]
    shown = shown.assign(panel=shown["dataset"] + ": " + shown["method"])
    across, labels = shown["method"].nunique(), {"x": x, "y": y}
    return Picture(name=name, kind=kind, frames={kind: shown}, words=labels, across=across)
