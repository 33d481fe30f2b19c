"""TODO(merge): a stand-in for `pfedfair.defaults`, on top of today's algorithms."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import reduce
from importlib.resources import files
from typing import Any

from pfedfair.algorithms import (
    ALGORITHMS,
    FA,
    FAIR,
    FCFL,
    MMPF,
    Algorithm,
    FairFed,
    FedProx,
    Local,
    PerFedAvg,
    PFedFair,
    targeted,
)
from pfedfair.algorithms import make as make_plain
from pfedfair.algorithms.moreau import Moreau
from pfedfair.federation import steps

PERSONAL = (Local, Moreau, PerFedAvg)
TUNED_ROWS = {"adult": 2400, "compas": 600}
TARGET = ("target_ddp", "confidence", "held", "dual_step")


def settings(data: str, name: str) -> dict[str, Any]:
    """Return the tuned hyper-parameters of a method on a data set."""
    tuned = tomllib.loads((files(__package__) / "tuned.toml").read_text())
    found: dict[str, Any] = tuned.get(data, tuned["compas"]).get(name, {})
    return found


def make(
    name: str, settings: Mapping[str, Any] | None = None, data: str | None = None
) -> Algorithm:
    """Return a method with the settings that were tuned for a data set; those given win."""
    given = dict(settings or {})
    target = {k: given.pop(k) for k in TARGET if name in FAIR and k in given}
    known = globals()["settings"](data, name) if data else {}
    algorithm = make_plain(name, **(known | given))
    return targeted(algorithm, **target) if target else algorithm


def as_many_steps(data: str, name: str, rows: int, way: str | None = None) -> dict[str, Any]:
    """Return options that give a small client as many steps as in tuning."""
    batch = make_plain(name).batch
    times = steps(TUNED_ROWS.get(data, rows), batch) // steps(rows, batch)
    if times <= 1:
        return {}
    if way == "batches" or (way is None and issubclass(ALGORITHMS[name], PERSONAL)):
        return {"batch": batch * rows // TUNED_ROWS[data]}
    found = settings(data, name)
    finish = {"prox_epochs": times * found["prox_epochs"]} if "prox_epochs" in found else {}
    return {"epochs": times} | finish


# --- what `Method` and the classes will declare ---------------------------------------------------

LIMITED: dict[str, tuple[dict[str, float], ...]] = {
    "fa": tuple({"tau": tau} for tau in (0.1, 0.01, 0.001)),
    "fcfl": tuple({"epsilon": epsilon} for epsilon in (0.1, 0.02)),
    "logofair": tuple({"delta_local": d, "delta_global": d} for d in (0.1, 0.03, 0.0)),
    "transport": tuple({"target_ddp": target} for target in (0.1, 0.05, 0.02, 0.0)),
}
SPACES: dict[type[Algorithm], dict[str, Any]] = {
    Algorithm: {"alpha": (5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2)},
    Moreau: {
        "gamma": (0.001, 0.003, 0.01, 0.03, 0.1, 0.3),
        "alpha_inner": (3e-4, 1e-3, 3e-3),
        "prox_epochs": (10, 30),
    },
    PFedFair: {"envelope_gradient": ("point", "prox")},
    FedProx: {"mu": (0.001, 0.01, 0.1, 1.0)},
    PerFedAvg: {"alpha_inner": (0.003, 0.01, 0.03, 0.1), "adapt_epochs": (1, 5)},
    MMPF: {"groups": ("clients", "sensitive", "both"), "mu_step": (0.05, 0.2, 0.5)},
    FA: {"ascent": (0.03, 0.1, 0.3), "dual_step": (0.1, 0.3, 1.0), "rho": (2.0, 8.0)},
    FCFL: {
        "rounds": {"adult": (100, 200), "compas": (200, 400), "other": (100, 200, 400)},
        "alpha": (0.3, 1.0, 2.0),
        "pareto": (0.25, 0.5),
    },
    FairFed: {"beta": (0.1, 0.3, 1.0, 3.0)},
}


def levels(name: str, etas: Sequence[float]) -> tuple[dict[str, float], ...]:
    """TODO(merge): `ALGORITHMS[name].levels(etas)`."""
    return tuple({"eta": eta} for eta in etas) if name in FAIR else LIMITED.get(name, ({},))


def closing(name: str) -> int:
    """TODO(merge): `Algorithm.closing`."""
    return {"transport": 6, "logofair": 1}.get(name, 0)


def tuning_space(name: str) -> dict[str, Any]:
    """TODO(merge): `ALGORITHMS[name].kind.tuning_space()`, empty where nothing is to be tuned."""
    kind = ALGORITHMS[name]
    if name in ("constant", "logofair", "transport"):
        return {}
    spaces = [space for of, space in SPACES.items() if issubclass(kind, of)]
    return reduce(lambda a, b: {**a, **b}, spaces)


def level(algorithm: Algorithm) -> str:
    """TODO(merge): `Algorithm.level`."""
    about = vars(algorithm)
    if "target_ddp" in about:
        sure = f" {about['confidence']:.0%}" if about["confidence"] else ""
        return f"≤ {about['target_ddp']:g}{sure}"
    for name, short in (("tau", "tau"), ("epsilon", "epsilon"), ("delta_local", "delta")):
        if name in about:
            return f"{short} {about[name]:g}"
    return f"{algorithm.eta:g}"
