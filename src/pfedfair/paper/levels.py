"""How a method's trade-off curve is walked: from accurate to fair."""

from __future__ import annotations

from collections.abc import Sequence

from pfedfair.algorithms import FAIR
from pfedfair.paper import WITH_TARGET

# These have a limit in the place of eta.
LIMITED: dict[str, tuple[dict[str, float], ...]] = {
    "fa": tuple({"tau": tau} for tau in (0.1, 0.01, 0.001)),
    "fcfl": tuple({"epsilon": epsilon} for epsilon in (0.1, 0.02)),
    "logofair": tuple({"delta_local": d, "delta_global": d} for d in (0.1, 0.03, 0.0)),
    "transport": tuple({"target_ddp": target} for target in (0.1, 0.05, 0.02, 0.0)),
    **{name: tuple({"target_ddp": t} for t in (0.1, 0.05, 0.02)) for name in WITH_TARGET},
}


def levels(method: str, etas: Sequence[float]) -> tuple[dict[str, float], ...]:
    """Return the options of a method at each point of its curve.

    >>> levels("pfedfair", [0.5, 0.9]), levels("fedavg", [0.5, 0.9])
    (({'eta': 0.5}, {'eta': 0.9}), ({},))
    """
    if method in FAIR:
        return tuple({"eta": eta} for eta in etas)
    return LIMITED.get(method, ({},))
