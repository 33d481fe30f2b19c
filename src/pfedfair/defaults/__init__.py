"""One factory of algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pfedfair import algorithms
from pfedfair.algorithms import ALGORITHMS, FAIR, Algorithm, targeted
from pfedfair.data import Dataset
from pfedfair.errors import InputError, known
from pfedfair.paper import tuned


def make(
    name: str, settings: Mapping[str, Any] | None = None, data: str | Dataset | None = None
) -> Algorithm:
    """Return a method with its settings."""
    known("method", name, list(ALGORITHMS))
    given = dict(settings or {})
    if "penalty_options" in given:
        given["penalty_options"] = tuple(map(tuple, given["penalty_options"]))
    target: dict[str, Any] = {}
    if name in FAIR:
        names = ("target_ddp", "confidence", "held", "dual_step")
        target = {key: given.pop(key) for key in names if key in given}
        if target and "target_ddp" not in target:
            raise InputError(f"{next(iter(target))} needs target_ddp.")
    for key in given:
        if key not in ALGORITHMS[name].__dataclass_fields__:
            raise InputError(f"{key} means nothing to {name}: leave it out.")
    where = data.name if isinstance(data, Dataset) else data
    made = algorithms.make(name, **given) if where is None else tuned(where, name, **given)
    return targeted(made, **target) if target else made
