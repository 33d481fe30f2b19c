"""The settings of a run, and the orders of its server, as read by server and sites."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pfedfair import methods
from pfedfair._util.errors import InputError, known, shorten
from pfedfair._util.limits import parse_json
from pfedfair.engines.site.accounting import epsilon_of, relative_noise
from pfedfair.engines.site.masking import MIN_SITES, min_threshold
from pfedfair.engines.site.privacy import FAR_NOISE, check_privacy, noise_deviation
from pfedfair.engines.site.schema import Schema
from pfedfair.methods import Method, defaults
from pfedfair.methods.phases import Phase, phase_at, total_rounds

Config = Mapping[str, Any]
OF_METHOD = (
    "eta", "lam", "gamma", "target-ddp", "confidence", "rounds", "penalty", "criterion",
)  # fmt: skip
AGGREGATES = ("mean", "trimmed-mean", "krum")
KINDS = {"int": int, "float": float, "bool": bool, "str": str, "Path": Path}
LEAST = {"sites": 1, "seed": 0, "local_rounds": 1, "malicious": 1}


def make_algorithm(config: Config) -> Method:
    """Return the method of a run: a complete `algorithm`, or a `method` with some settings.

    Settings that are left out are as tuned.
    """
    given = _json(config, "options")
    given |= {k.replace("-", "_"): config[k] for k in OF_METHOD if config.get(k) not in ("", None)}
    if not config.get("algorithm"):
        return defaults.make(str(config["method"]), given, str(config.get("tuned") or "own"))
    if given:
        raise InputError(f"algorithm has every setting in it: leave out {', '.join(given)}.")
    try:
        return methods.from_dict(_json(config, "algorithm"))
    except (KeyError, TypeError) as error:
        raise InputError(f"algorithm is not complete, or not of this version: {error}.") from error


def check_secure(
    algorithm: Method, sites: int, least: int, threshold: int = 0, aggregate: str = "mean"
) -> None:
    """Refuse settings that need more than sums."""
    if not all(phase.sums for phase in algorithm.phases):
        raise InputError(
            f"{type(algorithm).__name__} needs each site's own numbers, and secure-sum shows only "
            "sums: leave out secure-sum, or take a method that adds up, such as pfedfair or "
            "transport."
        )
    if aggregate != "mean":
        raise InputError(
            f"aggregate = {aggregate} looks at each site's model, and secure-sum shows only sums: "
            "leave out one of them."
        )
    if least < MIN_SITES:
        raise InputError(
            f"secure-sum needs at least {MIN_SITES} sites, also as min-sites, got {least}: of a "
            "sum of two, each would know the other's numbers."
        )
    if threshold and not min_threshold(sites) <= threshold <= sites:
        raise InputError(
            f"secure-threshold must be at least {min_threshold(sites)} of {sites} sites and at "
            f"most all, got {threshold}."
        )


@dataclass(frozen=True)
class Order:
    """A request of the server to a site, in addition to the server's state.

    `key` and `name` are folders at the site: of the run's states, and of the model.
    """

    round: int  # of the whole run, from 0
    phase: str  # the name of the phase that the round belongs to; "" after the last round
    key: str
    name: str
    number: int  # of the site
    local_rounds: int
    max_change: float
    schema: str

    @classmethod
    def read(cls, config: Config, run: Config) -> Order:
        return cls(
            int(config["round"]),
            str(config["phase"]),
            _folder_name("key", config["key"], r"[0-9a-f-]{1,100}"),
            model_folder(run),
            int(config["number"]),
            int(config["local-rounds"]),
            float(config["max-change"]),
            str(config["schema"]),
        )


def model_folder(run: Config) -> str:
    """Return the name of the sites' folder for the model, which cannot be that of another file.

    All files in a site's folder have a dot in their name, except the secret.
    """
    name = _folder_name("name", run["name"], r"\w[\w-]{0,99}")
    if name.casefold() == "secret":
        raise InputError(f"The run's name '{name}' is that of a site's own file: choose another.")
    return name


def _folder_name(what: str, word: object, form: str) -> str:
    """Refuse a name from the server that would lead out of the site's folder."""
    if not re.fullmatch(form, str(word)):
        raise InputError(f"The run's {what} '{word}' is not a plain word.")
    return str(word)


@dataclass(frozen=True)
class Settings:
    """How the server conducts a run; see docs/flower.md."""

    algorithm: Method
    seed: int
    blind: bool
    hidden: tuple[int, ...]
    local_rounds: int
    sites: int
    min_sites: int
    wait: float
    round_timeout: float
    poll: float
    max_change: float
    aggregate: str
    malicious: int
    secure_sum: bool
    secure_threshold: int
    clip: float
    epsilon: float
    delta: float
    out: Path

    @classmethod
    def read(cls, config: Config) -> Settings:
        given: dict[str, Any] = {
            field.name: KINDS[str(field.type)](config[field.name.replace("_", "-")])
            for field in fields(cls)
            if field.type in KINDS
        }
        for key, least in LEAST.items():
            if given[key] < least:
                name = key.replace("_", "-")
                raise InputError(f"{name} must be at least {least}, got {given[key]}.")
        given["min_sites"] = given["min_sites"] or given["sites"]
        widths = str(config.get("hidden") or "").split(",")
        hidden = tuple(int(width) for width in widths if width)
        made = cls(algorithm=make_algorithm(config), hidden=hidden, **given)
        if made.algorithm.place == "pooled":
            raise InputError(
                f"{type(made.algorithm).__name__} needs all rows in one place: choose a federated "
                "method, or run it with pfedfair train."
            )
        known("aggregate", made.aggregate, AGGREGATES)
        if not 1 <= made.min_sites <= made.sites:
            raise InputError(f"min-sites must be between 1 and sites, {made.sites}.")
        if "name" in config:
            model_folder(config)
        check_privacy(made.clip, made.epsilon, made.delta)
        if made.secure_sum:
            least, threshold = made.min_sites, made.secure_threshold
            check_secure(made.algorithm, made.sites, least, threshold, made.aggregate)
        return made

    @property
    def far(self) -> float:
        """How far a site's model may be from the server's, including its noise."""
        return self.max_change + FAR_NOISE * noise_deviation(self.clip, self.epsilon, self.delta)

    def spent(self, answers: int) -> dict[str, float]:
        """Return the privacy cost of so many answers of a site, at the sum of their deltas."""
        if not self.epsilon or not answers:
            return {}
        delta = min(answers * self.delta, 0.5)
        noise = {relative_noise(self.epsilon, self.delta): answers}
        return {"answers": answers, "epsilon": epsilon_of(noise, {}, delta), "delta": delta}

    @property
    def rounds(self) -> int:
        return total_rounds(self.algorithm.phases)

    def phase(self, done: int) -> Phase:
        """Return the phase of the round after `done` rounds."""
        phase, _ = phase_at(self.algorithm.phases, done)
        if phase is None:
            raise InputError(f"There is no round after {done} rounds.")
        return phase

    def key(self, schema: Schema) -> str:
        """Return a digest of all that a run's weights depend on, except which sites take part."""
        what: dict[str, Any] = {"algorithm": self.algorithm.to_dict(), "schema": schema.to_json()}
        what |= {"seed": self.seed, "local_rounds": self.local_rounds}
        what |= {"aggregate": [self.aggregate, self.malicious]}
        what |= {"privacy": [self.clip, self.epsilon, self.delta]}
        if self.secure_sum:
            what["secure"] = True
        what |= {"asked": [self.blind, list(self.hidden)]}
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


def _json(config: Config, key: str) -> dict[str, Any]:
    try:
        return dict(parse_json(config.get(key) or "{}"))
    except (ValueError, TypeError):
        raise InputError(
            f"{key} must be a JSON object such as {{\"K\": 5}}, got '{shorten(str(config[key]))}'."
        ) from None
