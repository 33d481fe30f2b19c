"""The factory of methods, and the settings that were tuned for each data set."""

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from functools import cache
from importlib.resources import files
from math import log
from typing import Any

from pfedfair._util.errors import InputError, known, near, setting
from pfedfair.data import Dataset
from pfedfair.federation import steps
from pfedfair.methods import METHODS, REGISTRY, Method, MethodEntry
from pfedfair.methods.defaults.values import NONE, number, parsed
from pfedfair.methods.target import Targeted, targeted

__all__ = [
    "BASE", "as_many_steps", "make", "make_for", "of_few_rows", "section", "settings", "sized",
    "space", "takes", "trainer", "words",
]  # fmt: skip

ANY = "any"  # the settings of methods that are not tuned
BASE = "fedavg"  # trains the model of composite methods, which are not tuned themselves
EXACT = "newton"  # trains it where the model is linear in its parameters
OWN = "own"  # the settings for tables of your own
UNTUNED = {  # sections for data on which they were not tuned
    OWN: "tables of your own (they suit clients of some hundred rows)",
    "images": "images of your own (they suit embeddings of faces)",
    "own-mlp": "perceptrons on tables of your own (they suit clients of some hundred rows)",
    "pixels": "networks on pixels (they suit images of 64 pixels)",
}
LIKE = {"compas-two-races": "compas"}
SPECIAL = ("wide", "additive", "few")  # kinds of data with different spaces of some settings
TUNED_ROWS = {  # of a client, when the settings were tuned
    "adult": 2400, "adult-additive": 2400, "compas": 600, "compas-additive": 600,
    "acs": 1125,
}  # fmt: skip
ETA = 0.9
OF_PENALTY = ("eta", "penalty", "mix", "penalty_options")
OF_TRAINING = ("epochs", "batch", "alpha", "optimiser", "ridge", "weighting")
OF_STEPS = (*OF_TRAINING, "epsilon")  # settings that require a base that sends models
OF_TARGET = ("target_ddp", "confidence", "held", "dual_step")


def make(
    name: str, settings: Mapping[str, Any] | None = None, data: str | Dataset | None = None
) -> Method:
    """Return a method by its name: for the command line, for Python and for Flower.

    Parameters
    ----------
    settings
        Hyper-parameters by name, which override all others; texts are converted to their types.
        "penalty.bandwidth" is an option of the penalty, "base.mu" a setting of a base method. With
        "target_ddp" (and "confidence", "held", "dual_step") each client of a method with a penalty
        finds its own eta.
    data
        The data set whose tuned settings to take; without it, the class's defaults.

    Examples
    --------
    >>> make("pfedfair", {"eta": 0.5, "lam": "0.2"}, "adult").lam
    0.2
    >>> make("fedavg", {"eta": 0.5})
    Traceback (most recent call last):
    pfedfair.InputError: 'eta' means nothing to fedavg: leave it out, or take fedavg-kde.
    """
    method = METHODS[known("method", name, METHODS)]
    tuned = {} if data is None else _settings(data, name)
    given = dict(settings or {})
    by_steps = "base" not in given and any(key in given for key in OF_STEPS)
    other = given.get("base", tuned.get("base")) != tuned.get("base") or by_steps
    if data is not None and "base" in tuned and other:
        tuned = dict(_settings(data, BASE))  # the base is not the tuned one
    base = {"base": tuned.pop("base")} if "base" in tuned else {}
    given = _nested(base | given, name, data)
    own = method.settings
    target = {key: given.pop(key) for key in OF_TARGET if key in given and key not in own
              and method.fair}  # fmt: skip
    if target and "target_ddp" not in target:
        raise InputError(f"{setting(next(iter(target)))} needs {setting('target_ddp')}.")
    for key in given:
        if not takes(name, key):
            raise InputError(_refusal(key, method))
    if method.fair:
        given = {"eta": ETA} | given
    algorithm = method.kind(**tuned | parsed(method.kind, given))
    trainer = getattr(algorithm, "base", None)
    if trainer is not None and not trainer.tuning.tuned and "rounds" not in given:
        algorithm = replace(algorithm, rounds=trainer.rounds)
    return targeted(algorithm, **parsed(Targeted, target)) if target else algorithm


def takes(name: str, key: str, given: Collection[str] = OF_TARGET) -> bool:
    """Return whether a method has a setting of this name, among those that are `given`.

    >>> takes("fedavg", "rounds"), takes("fedavg", "eta"), takes("fedavg-kde", "target_ddp")
    (True, False, True)
    """
    method, key = METHODS[name], key.partition(".")[0]
    if key in OF_PENALTY:
        return method.fair
    if method.fair and key in OF_TARGET and key not in method.settings:
        return "target_ddp" in given
    return key in method.settings


def settings(data: str | Dataset, name: str) -> dict[str, Any]:
    """Return the tuned hyper-parameters of a method, from ``tuned.toml``.

    A method that was not tuned for the data has the data's settings for any method. One without
    settings to tune beyond FedAvg's has FedAvg's.
    """
    tuned: dict[str, dict[str, Any]] = _read("tuned.toml").get(section(data), {})
    method = METHODS[name]
    if name not in (*tuned, EXACT) and _as_base(name):
        base = EXACT if EXACT in tuned and "base" in method.settings else BASE
        return settings(data, base) | ({"base": base} if base == EXACT else {})
    tuning = method.kind.tuning
    any_method = f"{ANY}-one-step" if tuning.one_step else ANY
    usual = tuned.get(any_method, {}) if tuning.tuned else {}
    if EXACT in tuned and section(data) != OWN and tuning.tuned:  # an additive model, too
        usual = settings(OWN, name)
    return tuned.get(name, {k: v for k, v in usual.items() if k in method.settings})


def _as_base(name: str) -> bool:
    """Return whether a method's settings are those of the base method that trains its model."""
    kind = METHODS[name].kind
    return kind.place == "federated" and not kind.tuning.tuned


def trainer(data: str | Dataset) -> str:
    """Return the default base method: Newton's where the model is linear."""
    return EXACT if EXACT in _read("tuned.toml").get(section(data), {}) else BASE


def section(data: str | Dataset) -> str:
    """Return the section with a data set's settings: its own, or that of users' tables."""
    name = (
        data if isinstance(data, str) else data.settings
    )  # not its name, which may be that of a user's file
    return LIKE.get(name, name if name in _sections() else OWN)


def _sections() -> set[str]:
    """Return all sections: those with settings, and those that can be tuned."""
    return {*_read("tuned.toml"), *_read("spaces.toml")["few"]["sections"]}


def words(data: str | Dataset, name: str, algorithm: Method) -> str:
    """Describe the settings of a method on a data set, including those that were given."""
    part, tuned = section(data), settings(data, name)
    trainer = getattr(algorithm, "base", None) or getattr(algorithm, "method", None) or algorithm
    usual = {field.name: field.default for field in fields(trainer)}
    about = {key: getattr(trainer, key) for key in usual} | {"rounds": algorithm.rounds}
    shown = [key for key in usual if key in tuned or about[key] != usual[key]]
    found = ", ".join(f"{key} {about[key]}" for key in shown if key not in ("eta", "target_ddp"))
    if getattr(algorithm, "base", None) is not None:
        found = f"a model trained by {type(trainer).__name__}, {found}"
    if not found:
        return f"{name} has no settings to tune." if not METHODS[name].kind.tuning.tuned else (
            f"Settings: the defaults of {name}; it is not tuned for {part}.")  # fmt: skip
    if part not in UNTUNED and name not in _read("tuned.toml")[part] and not _as_base(name):
        return f"Settings for {part}: {found}. They are not tuned for {name}."
    if part not in UNTUNED:
        return f"Settings, as tuned for {part} or given: {found}."
    return (
        f"Settings for {UNTUNED[part]}: {found}. "
        "--set changes one; pfedfair tune finds better ones for yours."
    )


def make_for(rows: int | None, name: str, given: Mapping[str, Any], data: str | Dataset) -> Method:
    """Return a method with the settings for clients of about this many `rows`."""
    known("method", name, METHODS)
    base = given.get("base")
    trains, mark = (str(base), "base.") if base in METHODS else (name, "")
    small = {} if rows is None else of_few_rows(data, trains, max(rows, 1))
    return make(name, {mark + key: value for key, value in small.items()} | dict(given), data)


def of_few_rows(data: str | Dataset, name: str, rows: int) -> dict[str, Any]:
    """Return the settings of a method for clients of few `rows`.

    As tuned for such clients; if there are none, those that give as many steps as in tuning.
    """
    tuned = sized(data, rows)
    known_here = _read("tuned.toml").get(tuned, {})
    is_tuned = name in known_here or (BASE in known_here and _as_base(name))
    return settings(tuned, name) if is_tuned and tuned != section(data) else (
        as_many_steps(data, name, rows))  # fmt: skip


def sized(data: str | Dataset, rows: int) -> str:
    """Return the section tuned for clients of about this many rows, such as "adult-240"."""
    default = section(data)
    sizes = {default: TUNED_ROWS.get(default, rows)}
    for name in sorted(_sections()):
        known_as, _, size = name.rpartition("-")
        if known_as == default and size.isdigit():
            sizes[name] = int(size)
    return min(sizes, key=lambda name: abs(log(sizes[name] / rows)))


def as_many_steps(
    data: str | Dataset, name: str, rows: int, way: str | None = None
) -> dict[str, Any]:
    """Return settings that give a small client as many steps as in tuning.

    The settings were tuned with five clients, on Adult of 2,400 rows: four minibatches an epoch. A
    client of 600 or 240 rows is one minibatch. It takes either four smaller ones ("batches"), or
    four passes over its rows instead of one ("passes"). On validation rows the former is better for
    models that are trained on one client's rows, the latter for the mean of many clients' models
    (``docs/decisions/0007-small-clients.md``).
    """
    kind, usual = METHODS[name].kind, TUNED_ROWS.get(section(data), rows)
    made = make(name)
    if made.supports.linear_only:  # it needs no steps
        return {}
    batch = made.batch
    times = steps(usual, batch) // steps(rows, batch)
    if times <= 1 or "base" in settings(data, name):  # a tuned base has its own settings
        return {}
    if way == "batches" or (way is None and kind.tuning.personal):
        return {"batch": batch * rows // usual}
    found = settings(data, name)
    finish = {"prox_epochs": times * found["prox_epochs"]} if "prox_epochs" in found else {}
    return {"epochs": times} | finish


_settings = settings  # make's argument has this name, too


def space(data: str | Dataset, name: str) -> dict[str, list[Any]]:
    """Return the settings of a method to tune, and the values to try, from ``spaces.toml``."""
    kind, known_spaces = METHODS[name].kind, _read("spaces.toml")
    rounds = known_spaces["one_step_rounds" if kind.tuning.one_step else "rounds"]
    part = section(data)
    special = [known_spaces[k] for k in SPECIAL if part in known_spaces[k]["sections"]]
    found: dict[str, list[Any]] = {"rounds": rounds[part]}
    for base in reversed(kind.__mro__):
        for spaces in (known_spaces, *special):
            found |= spaces.get(base.__name__, {})
    return found


@cache
def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((files(__package__) / name).read_text(encoding="utf-8"))


def _nested(given: dict[str, Any], name: str, data: str | Dataset | None) -> dict[str, Any]:
    """Nest settings such as "base.mu" and "penalty.bandwidth"."""
    base = None if given.get("base") in NONE else given.get("base")
    inner = {key: given.pop(key) for key in list(given) if key.startswith("base.")}
    if isinstance(base, str):
        given["base"] = make(base, {key[len("base.") :]: v for key, v in inner.items()}, data)
        if "base.rounds" in inner:
            raise InputError("Leave out base.rounds: the rounds are the method's.")
    elif inner:
        raise InputError(f"{next(iter(inner))} needs base, the name of a method.")
    ignored = [key for key in OF_TRAINING if key in given and base is not None]
    if ignored:  # which has its own settings of training
        raise InputError(f"With a base, say base.{ignored[0]} instead of {ignored[0]}.")
    options = {key: given.pop(key) for key in list(given) if key.startswith("penalty.")}
    if options:
        read = ((key[len("penalty.") :], number(key, value)) for key, value in options.items())
        pairs = [(key, int(v) if float(v).is_integer() else v) for key, v in read]
        given["penalty_options"] = (*given.get("penalty_options", ()), *pairs)
    return given


def _refusal(key: str, method: MethodEntry) -> str:
    """Return the message that a method has no such setting, with a suggestion."""
    taken = [name for name in method.settings if method.fair or name not in OF_PENALTY]
    if key not in {*OF_TARGET, *(name for m in METHODS.values() for name in m.settings)}:
        return f"Unknown setting '{key}' of {method.name}: {near(key, taken)}{', '.join(taken)}."
    other = [fair for _, _, unfair, fair in REGISTRY if unfair == method.name and fair]
    instead = f", or take {other[0]}" if other and key in (*OF_PENALTY, *OF_TARGET) else ""
    return f"'{setting(key)}' means nothing to {method.name}: leave it out{instead}."
