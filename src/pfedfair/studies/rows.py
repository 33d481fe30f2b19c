"""The rows of tables.

A row is the name of a method, or one of those that are not in `METHODS`: a method with a target
instead of eta; the frontier, the best thresholds on FedAvg's scores; and centralised training,
which is local training where all rows are one client's.
"""

import zlib
from collections.abc import Sequence
from functools import cache
from typing import Any

from pfedfair.experiments import FRONTIER
from pfedfair.methods import METHODS
from pfedfair.methods.target import Targeted
from pfedfair.models import PIXELS

CONSTANT = "constant"
BEST = "best thresholds on FedAvg's scores"  # the frontier, in legends
WITH_TARGET = {"pfedfair-target": "pfedfair", "fedavg-target": "fedavg-kde"}
CENTRAL = {"erm": "erm-local", "dro-chi2": "dro"}
FAIR = {f"fair {name}": name for name in ("linear", *PIXELS)}  # fair training of a network
# Of rows whose label is not the method's name.
# Models without fairness: the method that trains one, and the model of its columns.
BASES = {
    "perceptron": ("fedavg", "mlp"), "linear": ("newton", "linear"),
    "additive": ("newton", "additive"), "additive, own intercepts": ("newton", "additive"),
    "boosting": ("pooled", None),
}  # fmt: skip
METHOD = {row: method for row, (method, _) in BASES.items()}
METHOD |= {**WITH_TARGET, **CENTRAL, **dict.fromkeys(FAIR, "kde-local")}
SETTINGS: dict[str, dict[str, Any]] = {  # that define a row
    "dro-chi2": {"risk": "chi2"},
    "additive, own intercepts": {"intercepts": "personal"},
    "boosting": {"target_ddp": 1.0},
}
MODEL = {row: model for row, (_, model) in BASES.items() if model} | FAIR
TARGETS = (0.1, 0.05, 0.02)
ETA, TARGET = 0.9, 0.05  # where a table has one level of each row
Level = dict[str, Any]


def model_of(row: str) -> str | None:
    """Return the model of columns that a row trains; None if it is the data set's."""
    method = METHODS.get(row)
    return "linear" if method and method.kind().supports.linear_only else MODEL.get(row)


def of_clients() -> list[str]:
    """Return the methods except the centralised ones."""
    return [name for name, method in METHODS.items() if method.kind.place != "centralised"]


def place(method: str) -> int:
    """Return the number of a method, which determines its colour; also of an unknown one."""
    return places().get(method, zlib.crc32(method.encode()))


@cache  # it imports every method, which most commands do not need
def places() -> dict[str, int]:
    """Return the numbers of all rows."""
    first = of_clients()
    others = [name for name in METHODS if name not in first]
    return {name: k for k, name in enumerate((*first, *WITH_TARGET, *others, *CENTRAL, *FAIR))}


def at_target(row: str, target: float) -> Level:
    """Return the settings of a row whose target holds on average, whatever their names are."""
    if row in WITH_TARGET:
        return {"target_ddp": target, **Targeted.dial.average}
    dial = METHODS[row].kind.dial
    return {**dict.fromkeys(dial.levels[0], target), **dial.average}


def levels(row: str, etas: Sequence[float] = ()) -> tuple[Level, ...]:
    """Return the settings of a row at each point of its trade-off curve, from accurate to fair.

    Without etas there is one point: `ETA`, or `TARGET`, or the method's default limit.
    """
    if row in WITH_TARGET:
        return tuple(at_target(row, target) for target in (TARGETS if etas else (TARGET,)))
    if row == FRONTIER:
        return ({},)
    method, own = METHODS[METHOD.get(row, row)], SETTINGS.get(row, {})
    one: Level = {"eta": ETA} if method.fair else dict(method.kind.dial.average)
    return tuple(own | level for level in (method.levels(etas) if etas else (one,)))
