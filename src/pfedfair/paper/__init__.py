"""The paper's evaluation as specifications: the grids, the printed figures, our settings."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

from pfedfair.algorithms import Algorithm, make

FOR_OTHERS = "compas"


def settings(dataset: str, method: str) -> dict[str, Any]:
    """Return the tuned hyper-parameters of a method on a data set, from ``tuned.toml``."""
    tuned = tomllib.loads((files(__package__) / "tuned.toml").read_text())
    found: dict[str, Any] = tuned.get(dataset, tuned[FOR_OTHERS]).get(method, {})
    return found


def tuned(dataset: str, method: str, eta: float = 0.9, **options: Any) -> Algorithm:
    """Return a method with the hyper-parameters that were tuned for a data set.

    Other data sets, your own among them, get COMPAS's: they suit clients of some hundred rows.
    Options given here have the last word.
    """
    return make(method, eta, **(settings(dataset, method) | options))
