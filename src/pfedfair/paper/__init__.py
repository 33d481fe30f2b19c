"""The paper's evaluation as specifications: the grids, the printed figures, our settings."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

from pfedfair.algorithms import ALGORITHMS, Algorithm, Local, PerFedAvg, make, targeted
from pfedfair.algorithms.moreau import Moreau
from pfedfair.experiment import FRONTIER, Source, Spec
from pfedfair.federation import steps
from pfedfair.partition import Plan

FOR_OTHERS = "compas"
# Methods with a target in the place of eta (`pfedfair.algorithms.Targeted`), as rows of tables.
WITH_TARGET = {"pfedfair-target": "pfedfair", "fedavg-target": "fedavg-kde"}
BASE = {FRONTIER: "fedavg", **WITH_TARGET}
PERSONAL = (Local, Moreau, PerFedAvg)  # every client trains, or adapts, a model of its own
TUNED_ROWS = {"adult": 2400, "compas": 600}  # rows of a client when the settings were tuned


def settings(dataset: str, method: str) -> dict[str, Any]:
    """Return the tuned hyper-parameters of a method on a data set, from ``tuned.toml``."""
    tuned = tomllib.loads((files(__package__) / "tuned.toml").read_text())
    found: dict[str, Any] = tuned.get(dataset, tuned[FOR_OTHERS]).get(method, {})
    return found


def tuned(dataset: str, method: str, eta: float = 0.9, **options: Any) -> Algorithm:
    """Return a method with the hyper-parameters that were tuned for a data set.

    Other data sets, your own among them, get COMPAS's: they suit clients of some hundred rows.
    Options given here have the last word. The frontier's scores are FedAvg's.
    """
    target = {k: options.pop(k) for k in ("target_ddp", "confidence")
              if method in WITH_TARGET and k in options}  # fmt: skip
    base = BASE.get(method, method)
    algorithm = make(base, eta, **(settings(dataset, base) | options))
    return targeted(algorithm, **target) if method in WITH_TARGET else algorithm


def specify(
    dataset: str,
    plan: Plan,
    method: str,
    algorithm: Algorithm,
    seed: int,
    protocol: str | None,
    validated: bool = False,
) -> Spec:
    """Return the run of a table's row; `FRONTIER` is one, the frontier of FedAvg's scores."""
    frontier = method == FRONTIER
    method = BASE[method] if frontier else method
    return Spec(
        Source(dataset), plan, method, algorithm, seed, protocol,
        validated=validated, frontier=frontier,
    )  # fmt: skip


def as_many_steps(dataset: str, method: str, rows: int, way: str | None = None) -> dict[str, Any]:
    """Return options that give a small client as many steps as in tuning.

    The settings were tuned with five clients, on Adult of 2,400 rows: four minibatches an epoch. A
    client of 600 or 240 rows is one minibatch. It takes either four smaller ones ("batches"), or
    four passes over its rows instead of one ("passes"). On validation rows the former is better for
    models that are trained on one client's rows, the latter for the mean of many clients' models
    (``docs/decisions/0007-small-clients.md``).
    """
    method = BASE.get(method, method)
    batch = make(method).batch
    times = steps(TUNED_ROWS.get(dataset, rows), batch) // steps(rows, batch)
    if times <= 1:
        return {}
    personal = issubclass(ALGORITHMS[method], PERSONAL)
    if way == "batches" or (way is None and personal):
        return {"batch": batch * rows // TUNED_ROWS[dataset]}
    found = settings(dataset, method)
    finish = {"prox_epochs": times * found["prox_epochs"]} if "prox_epochs" in found else {}
    return {"epochs": times} | finish
