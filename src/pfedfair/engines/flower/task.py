"""What server and sites share: the settings of a run, a site's rows, the network."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from pfedfair import seeds
from pfedfair.algorithms import ALGORITHMS, FAIR, Algorithm, Clients
from pfedfair.data import Dataset, from_frame, load
from pfedfair.data.table import read_table
from pfedfair.defaults import make
from pfedfair.engines.flower.privacy import check_privacy, noise_of
from pfedfair.engines.flower.schema import Schema, blank
from pfedfair.errors import InputError, known
from pfedfair.federation import Federation, federate
from pfedfair.networks import Network
from pfedfair.partition import (
    Partition,
    Plan,
    by_column,
    dirichlet_mixture,
    dirichlet_shares,
    fixed_shares,
    stratified,
)
from pfedfair.run import choose_network

Config = Mapping[str, Any]
NUMBERS = ("eta", "lam", "gamma", "target-ddp", "confidence")
TEST_PART = 0.25
AGGREGATES = ("mean", "trimmed-mean", "krum")


# --- a run's settings --------------------------------------------------------------------------


def make_algorithm(config: Config) -> Algorithm:
    """Return the method of a run with its options; what is left out is as tuned."""
    method = known("method", str(config["method"]), list(ALGORITHMS))
    try:
        given: dict[str, Any] = dict(json.loads(config.get("options") or "{}"))
    except (ValueError, TypeError):
        raise InputError(
            f"options must be a JSON object such as {{\"K\": 5}}, got '{config['options']}'."
        ) from None
    if "penalty_options" in given:
        given["penalty_options"] = tuple(map(tuple, given["penalty_options"]))
    given |= {k.replace("-", "_"): _number(k, config[k]) for k in NUMBERS if _given(config, k)}
    if _given(config, "rounds"):
        given["rounds"] = int(_number("rounds", config["rounds"]))
    given |= {k: str(config[k]) for k in ("penalty", "criterion") if _given(config, k)}
    target: dict[str, Any] = {}
    if method in FAIR:  # the target sets eta
        names = ("target_ddp", "confidence", "held", "dual_step")
        target = {name: given.pop(name) for name in names if name in given}
        if target and "target_ddp" not in target:
            raise InputError(f"{next(iter(target))} needs target-ddp.")
    for name in given:
        if name not in ALGORITHMS[method].__dataclass_fields__:
            raise InputError(f"{name.replace('_', '-')} means nothing to {method}: leave it out.")
    return make(method, given | target, str(config.get("tuned") or "table"))


@dataclass(frozen=True)
class Settings:
    """How the server conducts a run; see docs/flower.md."""

    algorithm: Algorithm
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
    clip: float
    epsilon: float
    delta: float
    out: Path

    @classmethod
    def read(cls, config: Config) -> Settings:
        sites = _at_least("sites", int(config["sites"]), 1)
        hidden = str(config.get("hidden") or "")
        made = cls(
            algorithm=make_algorithm(config),
            seed=_at_least("seed", int(config["seed"]), 0),
            blind=bool(config["blind"]),
            hidden=tuple(int(width) for width in hidden.split(",") if width),
            local_rounds=_at_least("local-rounds", int(config["local-rounds"]), 1),
            sites=sites,
            min_sites=int(config["min-sites"]) or sites,
            wait=float(config["wait"]),
            round_timeout=float(config["round-timeout"]),
            poll=float(config["poll"]),
            max_change=float(config["max-change"]),
            aggregate=known("aggregate", str(config["aggregate"]), list(AGGREGATES)),
            malicious=_at_least("malicious", int(config["malicious"]), 1),
            clip=float(config["clip"]),
            epsilon=float(config["epsilon"]),
            delta=float(config["delta"]),
            out=Path(str(config["out"])),
        )
        if not 1 <= made.min_sites <= sites:
            raise InputError(f"min-sites must be between 1 and sites, {sites}.")
        check_privacy(made.clip, made.epsilon, made.delta)
        return made

    @property
    def far(self) -> float:
        """How far a site's model may be from the server's: the noise must not be refused."""
        return self.max_change + 1.5 * noise_of(self.clip, self.epsilon, self.delta)

    @property
    def rounds(self) -> int:
        return self.algorithm.rounds if self.algorithm.federated else 0

    def key(self, schema: Schema) -> str:
        """A name for all that a run's weights depend on, but for who takes part in a round."""
        what = {
            "algorithm": {"kind": type(self.algorithm).__name__, **asdict(self.algorithm)},
            "seed": self.seed,
            "local_rounds": self.local_rounds,
            "aggregate": [self.aggregate, self.malicious],
            "privacy": [self.clip, self.epsilon, self.delta],
            "schema": schema.to_json(),
            "asked": [self.blind, list(self.hidden)],
        }
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


def make_network(schema: Schema, algorithm: Algorithm) -> Network:
    """Return the network that all sites train, whoever has which rows."""
    encoder = schema.encoder
    like = blank([*encoder.mean], encoder.categories, schema.labels, schema.groups, schema.columns,
                 schema.hidden)  # fmt: skip
    return choose_network(_encoded(like, np.arange(len(like)), none(), "nobody", schema), algorithm)


# --- a site's rows -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Site:
    """A site's table, and which of its rows are for training; `client` is no input."""

    name: str
    place: int
    data: Dataset
    train: np.ndarray
    test: np.ndarray
    client: str
    folder: Path


def read_site(node: Config, run: Config) -> Site:
    """Read the rows of a site as its own settings say.

    With a ``partition-id`` it is one client of a data set that everybody has, for trying out.
    """
    where = node if "data" in node else {**run, **node}
    if not where.get("data"):
        raise InputError(
            "This site has no data: start its SuperNode with "
            "--node-config \"data='site.parquet' label='y' sensitive='sex'\"."
        )
    seed = int(run["seed"])
    site = _partition(where, node, seed) if "partition-id" in node else _own_table(where, seed)
    name = str(node.get("site") or site.name)
    state = str(where.get("state-dir") or "pfedfair-sites")
    folder = Path(state) if "state-dir" in node else Path(state) / name
    return Site(name, site.place, site.data, site.train, site.test, site.client, folder)


def _own_table(where: Config, seed: int) -> Site:
    path = Path(str(where["data"]))
    label, sensitive = str(where.get("label") or ""), str(where.get("sensitive") or "")
    if not label or not sensitive:
        raise InputError(f"For {path}, say which column is the label and the sensitive one.")
    held = where.get("test")
    tables = [read_table(Path(str(name))) for name in (path, held) if name]
    frame = pd.concat(tables, ignore_index=True)
    drop, categorical = (_words(where.get(key)) for key in ("drop", "categorical"))
    data = from_frame(frame, label, sensitive, path.stem, drop, categorical, part=True)
    if held:
        train, test = np.split(np.arange(len(data)), [len(tables[0])])
    else:
        test_part = float(where.get("test-part", TEST_PART))
        rng = seeds.generator(seed, seeds.PARTITION)
        test, train = stratified(np.arange(len(data)), data.s, test_part, rng)
    return Site(path.stem, 0, data, train, test, "", Path())


def _partition(where: Config, node: Config, seed: int) -> Site:
    number, total = int(node["partition-id"]), int(node.get("num-partitions", 0))
    columns: dict[str, Any] = {
        k: _words(where.get(k)) for k in ("drop", "categorical") if where.get(k)
    }
    if where.get("merge-groups"):
        columns["merge_groups"] = True
    data = load(
        str(where["data"]), str(where.get("label") or "") or None,
        str(where.get("sensitive") or "") or None, **columns,
    )  # fmt: skip
    plan = make_plan(where, total or None, data)
    part = plan.split(data, seed)
    if not 0 <= number < len(part.names):
        raise InputError(f"partition-id must be between 0 and {len(part.names) - 1}, got {number}.")
    return Site(
        part.names[number],
        number,
        data,
        part.train[number],
        part.test[number],
        plan.column or "",
        Path(),
    )


def make_plan(where: Config, clients: int | None, data: Dataset) -> Plan:
    """Return how a data set is dealt to sites: by the paper's own plan where it has as many."""
    if where.get("client"):
        return by_column(str(where["client"]))
    kind = known("partition", str(where.get("partition") or "fixed"), ["fixed", "dirichlet"])
    rows = int(where.get("rows") or 0) or None
    paper = data.paper_plan
    if paper and rows is None and clients == paper.n_under + paper.n_over and kind == "fixed":
        clients = None
    if kind == "dirichlet" and paper is None:
        return dirichlet_shares(clients or 5)
    if kind == "dirichlet":
        return dirichlet_mixture(clients or 20, rows=rows)
    return fixed_shares(clients, rows=rows)


def federate_site(site: Site, schema: Schema) -> Federation:
    """Return a federation of one client: the site, encoded as all sites are."""
    data = replace(
        site.data,
        y=_recoded(site.data.y, site.data.label_names, schema.labels),
        s=_recoded(site.data.s, site.data.group_names, schema.groups),
        label_names=schema.labels,
        group_names=schema.groups,
        hidden=schema.hidden,
    )
    return _encoded(data, site.train, site.test, site.name, schema)


def none() -> np.ndarray:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _Alone(Plan):
    """A plan with one client."""

    train: np.ndarray
    test: np.ndarray
    name: str

    column = None

    def split(self, data: Dataset, seed: int) -> Partition:
        parts = (self.train,), (none(),), (self.test,)
        return Partition(data, *parts, self.test, (self.name,), False)


def _encoded(
    data: Dataset, train: np.ndarray, test: np.ndarray, name: str, schema: Schema
) -> Federation:
    encoder = schema.encoder
    made = federate(data, _Alone(train, test, name), 0, encoder.sensitive_as_input)
    x = torch.from_numpy(encoder.transform(data.frame, data.s))
    return replace(made, encoder=encoder, table=made.table._replace(x=x))


def make_clients(federation: Federation, network: Network, number: int, seed: int) -> Clients:
    """Return the site as a stack of one, with its number in the federation."""
    return Clients(
        network=network,
        table=federation.table,
        rows=federation.partition.train,
        ids=[number],
        seed=seed,
    )


# --- small ones --------------------------------------------------------------------------------


def _given(config: Config, key: str) -> bool:
    return config.get(key, "") not in ("", None)


def _number(key: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"{key} must be a number, got '{value}'.") from None


def _at_least(key: str, value: int, least: int) -> int:
    if value < least:
        raise InputError(f"{key} must be at least {least}, got {value}.")
    return value


def _recoded(codes: np.ndarray, own: tuple[str, ...], agreed: tuple[str, ...]) -> np.ndarray:
    """Number a site's values as all sites do."""
    return np.asarray(np.array([agreed.index(name) for name in own], dtype=np.int64)[codes])


def _words(text: Any) -> tuple[str, ...]:
    return tuple(word.strip() for word in str(text or "").split(",") if word.strip())
