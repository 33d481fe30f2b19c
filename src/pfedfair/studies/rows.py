"""The rows of tables.

A row is a method by its name, or one of two that are not in `ALGORITHMS`: a method with a target in
the place of eta, and the frontier, the best thresholds on FedAvg's scores.
"""

from collections.abc import Sequence
from typing import Any

from pfedfair.algorithms import ALGORITHMS
from pfedfair.experiment import FRONTIER

CONSTANT = "constant"
BEST = "best thresholds on FedAvg's scores"  # the frontier, in legends
WITH_TARGET = {"pfedfair-target": "pfedfair", "fedavg-target": "fedavg-kde"}
METHOD = {FRONTIER: "fedavg", **WITH_TARGET}  # of rows whose label is not the method's name
TARGETS = (0.1, 0.05, 0.02)
ETA, TARGET = 0.9, 0.05  # where a table has one level of each row
Level = dict[str, Any]


def levels(row: str, etas: Sequence[float] = ()) -> tuple[Level, ...]:
    """The settings of a row at each point of its trade-off curve, from accurate to fair.

    Without etas it is one: `ETA`, or `TARGET`, or the method's own default limit.
    """
    if row in WITH_TARGET:
        return tuple({"target_ddp": target} for target in (TARGETS if etas else (TARGET,)))
    if row == FRONTIER:
        return ({},)
    one: Level = {"eta": ETA} if ALGORITHMS[row].fair else {}
    return ALGORITHMS[row].levels(etas) if etas else (one,)
