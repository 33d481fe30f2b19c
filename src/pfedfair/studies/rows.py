"""The rows of tables.

A row is a method by its name, or one of those that are not in `ALGORITHMS`: a method with a target
in the place of eta; the frontier, the best thresholds on FedAvg's scores; and training in one
place, which is local training where all rows are one client's.
"""

from collections.abc import Sequence
from typing import Any

from pfedfair.algorithms import ALGORITHMS
from pfedfair.experiment import FRONTIER
from pfedfair.networks import PIXELS

CONSTANT = "constant"
BEST = "best thresholds on FedAvg's scores"  # the frontier, in legends
WITH_TARGET = {"pfedfair-target": "pfedfair", "fedavg-target": "fedavg-kde"}
CENTRAL = {"erm": "erm-local", "dro-chi2": "dro"}
FAIR = {f"fair {name}": name for name in ("linear", *PIXELS)}  # fair training of a network
# Of rows whose label is not the method's name.
METHOD = {FRONTIER: "fedavg", **WITH_TARGET, **CENTRAL, **dict.fromkeys(FAIR, "kde-local")}
SETTINGS: dict[str, dict[str, Any]] = {"dro-chi2": {"risk": "chi2"}}  # that make a row what it is
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
    method, own = ALGORITHMS[METHOD.get(row, row)], SETTINGS.get(row, {})
    one: Level = {"eta": ETA} if method.fair else {}
    return tuple(own | level for level in (method.levels(etas) if etas else (one,)))
