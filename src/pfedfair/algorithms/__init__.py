"""One file per method, each readable beside its paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pfedfair.algorithms.base import Algorithm, Clients, State
from pfedfair.algorithms.constant import Constant
from pfedfair.algorithms.ditto import Ditto
from pfedfair.algorithms.fa import FA
from pfedfair.algorithms.fairfed import FairFed
from pfedfair.algorithms.fcfl import FCFL
from pfedfair.algorithms.fedavg import FedAvg
from pfedfair.algorithms.fedprox import FedProx
from pfedfair.algorithms.local import Local
from pfedfair.algorithms.logofair import LoGoFair
from pfedfair.algorithms.mmpf import MMPF
from pfedfair.algorithms.perfedavg import PerFedAvg
from pfedfair.algorithms.pfedfair import PFedFair
from pfedfair.algorithms.pfedme import PFedMe
from pfedfair.algorithms.targeted import Targeted, targeted
from pfedfair.algorithms.transport import Transport
from pfedfair.errors import known

__all__ = [
    "ALGORITHMS",
    "FA",
    "FAIR",
    "FCFL",
    "LIMIT",
    "MMPF",
    "Algorithm",
    "Clients",
    "Constant",
    "Ditto",
    "FairFed",
    "FedAvg",
    "FedProx",
    "LoGoFair",
    "Local",
    "PFedFair",
    "PFedMe",
    "PerFedAvg",
    "State",
    "Targeted",
    "Transport",
    "from_dict",
    "make",
    "targeted",
]

# A fair variant is the same algorithm with another objective.
ALGORITHMS: dict[str, type[Algorithm]] = {
    "constant": Constant,
    "erm-local": Local,
    "fedavg": FedAvg,
    "fedprox": FedProx,
    "perfedavg": PerFedAvg,
    "pfedme": PFedMe,
    "ditto": Ditto,
    "kde-local": Local,
    "fedavg-kde": FedAvg,
    "fedprox-kde": FedProx,
    "perfedavg-kde": PerFedAvg,
    "pfedme-kde": PFedMe,
    "ditto-kde": Ditto,
    "pfedfair": PFedFair,
    "fa": FA,
    "mmpf": MMPF,
    "fcfl": FCFL,
    "fairfed": FairFed,
    "logofair": LoGoFair,
    "transport": Transport,
}
# Those that take eta, and the names of the limits that others have in its place.
FAIR = {name for name in ALGORITHMS if "kde" in name} | {"pfedfair", "mmpf", "fairfed"}
LIMIT = {"fa": "tau", "fcfl": "epsilon", "logofair": "delta_local", "transport": "target_ddp"}


def from_dict(about: Mapping[str, Any]) -> Algorithm:
    """Return the algorithm that `Algorithm.to_dict` describes."""
    given = {k: v for k, v in about.items() if k != "name"}
    if "method" in given:
        given["method"] = from_dict(given["method"])
    given["penalty_options"] = tuple(map(tuple, given["penalty_options"]))
    kinds = {kind.__name__: kind for kind in (*ALGORITHMS.values(), Targeted)}
    return kinds[about["name"]](**given)


def make(method: str, eta: float = 0.9, **options: Any) -> Algorithm:
    """Return the algorithm behind a method's name; eta matters to the fair ones only.

    >>> make("fedavg-kde", eta=0.5).eta, make("fedavg", eta=0.5).eta
    (0.5, 0.0)
    """
    known("method", method, list(ALGORITHMS))
    return ALGORITHMS[method](**options, eta=eta if method in FAIR else 0.0)
