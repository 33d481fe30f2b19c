"""One file per method, each to be read with its paper.

`METHODS` has them by the names that users type; the classes are attributes, such as
``methods.FedAvg``, and are loaded on first access.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any

from pfedfair._util.errors import InputError, known
from pfedfair.methods.base import Method, State
from pfedfair.methods.clients import Clients

__all__ = ["METHODS", "Clients", "Method", "MethodEntry", "State", "from_dict"]


@dataclass(frozen=True)
class MethodEntry:
    """A name that users type: the class behind it, and whether they set its eta."""

    name: str
    file: str
    class_name: str
    fair: bool

    @property
    def kind(self) -> type[Method]:
        """The class."""
        found: type[Method] = getattr(import_module(f"{__name__}.{self.file}"), self.class_name)
        return found

    @property
    def settings(self) -> list[str]:
        """Names of all its hyper-parameters."""
        return [field.name for field in fields(self.kind)]

    def levels(self, etas: Sequence[float]) -> tuple[dict[str, float], ...]:
        """Return the settings of each point of its trade-off curve, from accurate to fair.

        >>> METHODS["pfedfair"].levels([0.5, 0.9]), METHODS["fedavg"].levels([0.5, 0.9])
        (({'eta': 0.5}, {'eta': 0.9}), ({},))
        """
        if self.fair:
            return tuple({"eta": eta} for eta in etas)
        dial = self.kind.dial
        return tuple({**level, **dial.average} for level in dial.levels)


# To add a method, add a line: its file, its class, its name, and the name of its fair variant,
# which is the same class with eta. A name that is left out ("") does not exist.
REGISTRY = (
    ("constant", "Constant", "constant", ""),
    ("local", "Local", "erm-local", "kde-local"),
    ("fedavg", "FedAvg", "fedavg", "fedavg-kde"),
    ("fedprox", "FedProx", "fedprox", "fedprox-kde"),
    ("perfedavg", "PerFedAvg", "perfedavg", "perfedavg-kde"),
    ("pfedme", "PFedMe", "pfedme", "pfedme-kde"),
    ("ditto", "Ditto", "ditto", "ditto-kde"),
    ("pfedfair", "PFedFair", "", "pfedfair"),
    ("fa", "FA", "fa", ""),
    ("mmpf", "MMPF", "", "mmpf"),
    ("fcfl", "FCFL", "fcfl", ""),
    ("fairfed", "FairFed", "", "fairfed"),
    ("logofair", "LoGoFair", "logofair", ""),
    ("transport", "Transport", "transport", ""),
    ("newton", "Newton", "newton", ""),
    ("pooled", "Pooled", "pooled", ""),
    ("threshold_local", "ThresholdLocal", "threshold-local", ""),
    ("fedfact", "FedFACT", "fedfact", ""),
    ("fedfact_in", "FedFACTIn", "fedfact-in", ""),
    ("duan", "Duan", "duan", ""),
    ("irm", "IRM", "irm", ""),
    ("fair_dummies", "FairDummies", "fair-dummies", ""),
    ("reweigh", "Reweigh", "reweigh", ""),
    ("dro", "DRO", "dro", ""),
    ("gaussian_swap", "GaussianSwap", "gaussian-swap", ""),
)
METHODS: dict[str, MethodEntry] = {
    names[fair]: MethodEntry(names[fair], file, class_name, bool(fair))
    for file, class_name, *names in REGISTRY
    for fair in (0, 1)
    if names[fair]
}
_FILES = {class_name: file for file, class_name, *_ in REGISTRY} | {"Targeted": "target"}


def from_dict(about: Mapping[str, Any]) -> Method:
    """Make a method from the result of its `to_dict`, a wrapped method included."""
    about = dict(about)
    kind = known("saved algorithm", str(about.pop("kind", None)), _FILES)
    if about.pop("format", 1) == 1 and kind in _LATER_ROUNDS:
        about["rounds"] -= _LATER_ROUNDS[kind](about)
    made = {name: _value(value) for name, value in about.items()}
    entry = MethodEntry("", _FILES[kind], kind, False)
    unknown = [name for name in made if name not in entry.settings]
    if unknown:
        raise InputError(f"{kind} has no setting '{unknown[0]}': it was saved by another version.")
    return entry.kind(**made)


# Rounds after training, which `rounds` included in files of format 1.
_LATER_ROUNDS: dict[str, Callable[[Mapping[str, Any]], int]] = {
    "Transport": lambda about: 1 + int(about["agree"]),
    "LoGoFair": lambda about: int(about["dual_rounds"]),
    "FedFACT": lambda about: 1,
    "Duan": lambda about: 1,
}


def _value(value: Any) -> Any:
    """Undo what JSON does to a setting."""
    if isinstance(value, Mapping):
        return from_dict(value)
    return tuple(map(_value, value)) if isinstance(value, list | tuple) else value


def __getattr__(name: str) -> type[Method]:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return MethodEntry("", _FILES[name], name, False).kind


def __dir__() -> list[str]:
    return sorted([*__all__, *_FILES])
