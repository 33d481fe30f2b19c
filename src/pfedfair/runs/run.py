"""One training run: what went in, what every client got, and how to keep it."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch

from pfedfair import metrics, seeds
from pfedfair.algorithms import Algorithm, Clients
from pfedfair.criteria import CRITERIA
from pfedfair.data import Dataset, with_model
from pfedfair.engines.stacked import Fitted, fit
from pfedfair.errors import InputError, known
from pfedfair.federation import Federation, client_number
from pfedfair.kinds import Kinds, outputs
from pfedfair.networks import MLP, PIXELS, Network, Pixels
from pfedfair.partition import Partition
from pfedfair.rules import Likeliest
from pfedfair.runs.model import PersonalModel, write_model
from pfedfair.runs.predictor import Predictor, count
from pfedfair.runs.shapes import shapes
from pfedfair.theory import frontier


class CollapseWarning(UserWarning):
    """A personal model predicts one class for everybody."""


def measured_rows(part: Partition, protocol: str | None) -> tuple[str, list[np.ndarray], bool]:
    """Return the protocol, the rows to measure each client on, and whether to weight them.

    "pool": the whole held-out pool, weighted to the client's share of S, for clients that differ in
    that share only (there it is the default); "own": the client's own test rows; "validation":
    the rows set aside for tuning, everybody's and weighted where "pool" would be.
    """
    protocol = protocol or ("pool" if part.shared_conditional else "own")
    known("protocol", protocol, list(metrics.PROTOCOLS))
    if protocol == "pool" and not part.shared_conditional:
        raise InputError(
            "Protocol 'pool' needs clients that differ in their share of S only; these clients "
            "differ in more: use protocol 'own', each client's own test rows."
        )
    weighted = part.shared_conditional and protocol != "own"
    tuning = protocol == "validation"
    rows = list(part.validation if tuning else part.test)
    if weighted:
        rows = [np.concatenate(rows) if tuning else part.pool] * len(rows)
    for name, own_rows in zip(part.names, rows, strict=True):
        if len(own_rows) == 0:
            raise InputError(f"Client {name} has no rows for protocol '{protocol}'.")
    return protocol, rows, weighted


@dataclass(frozen=True, eq=False)
class Run:
    """The outcome of `train`."""

    federation: Federation
    algorithm: Algorithm
    network: Network
    fitted: Fitted
    seed: int
    seconds: float

    @cached_property
    def predictors(self) -> list[Predictor]:
        """Every client's network, parameters and rule."""
        pairs = zip(self.fitted.theta, self.fitted.rules, strict=True)
        return [Predictor(self.network, theta, rule) for theta, rule in pairs]

    @cached_property
    def collapsed(self) -> np.ndarray:
        """Which clients' models predict one class for all of their own training rows."""
        counts = count(self.predictors, self.federation.table, self.federation.partition.train)
        return metrics.one_decision(counts)

    def table(self, protocol: str | None = None) -> pd.DataFrame:
        """Per client: accuracy, DDP and negative prediction rates with intervals.

        With fewer than five in ``ddp_people`` nothing can be told of the gap, see
        `metrics.certainty`; where all people measured get `one_decision`, it is 0 for that reason.
        For `protocol` see `measured_rows`.
        """
        part = self.federation.partition
        protocol, rows, weighted = measured_rows(part, protocol)
        counts = count(self.predictors, self.federation.table, rows, self.seed)
        about = {
            "client": part.names,
            "role": part.roles,
            "n_train": self.federation.sizes,
            "n_test": [len(own) for own in rows],
            **{f"share_s{z}": part.shares[:, z] for z in range(1, part.shares.shape[1])},
        }
        if weighted:  # there is no gap to a group of which a client has nobody
            counts = np.where(part.shares[..., None, None] > 0, counts, 0)
        people = counts.sum((2, 3))
        about |= {f"n_test_s{z}": people[:, z] for z in range(people.shape[1])}
        shares = part.shares if weighted else None
        found = metrics.measure(counts, shares) | metrics.certainty(counts, shares)
        return pd.DataFrame(about | found).assign(
            collapsed=self.collapsed, one_decision=metrics.one_decision(counts), protocol=protocol
        )

    def frontier(self, limits: Sequence[float], protocol: str | None = None) -> pd.DataFrame:
        """Per limit on DDP and client: the best that thresholds on the global model's scores do.

        They are set on the very rows that they are measured on: no method, but a mark to measure
        methods by. A client without both groups has no gap to limit.
        """
        part, data = self.federation.partition, self.federation.table
        if not data.kinds.binary:
            raise InputError("The frontier is computed for two groups and two classes.")
        protocol, held, weighted = measured_rows(part, protocol)
        scorer = Predictor(self.network, self.fitted.w, Likeliest())
        logits = scorer.logits(data.x, data.s, data.unpack)
        score = torch.sigmoid(logits[:, 0]).double().numpy()
        y, s = data.y.long().numpy(), data.s.numpy()
        found: dict[tuple[int, float], list[tuple[float, float]]] = {}
        for own, share in zip(held, part.share_s1, strict=True):
            if (id(own), share) not in found:  # clients with the same rows and share are alike
                there = float(share if weighted else s[own].mean())
                found[id(own), share] = frontier(score[own], y[own], s[own], there, limits)
        rows = [
            {"target_ddp": limit, "client": name, "role": role, "share_s1": share}
            | {"n_train": n, "n_test": len(own), "protocol": protocol}
            | dict(zip(("accuracy", "ddp"), found[id(own), share][k], strict=True))
            for k, limit in enumerate(limits)
            for name, role, n, own, share in zip(
                part.names, part.roles, self.federation.sizes, held, part.share_s1, strict=True
            )
        ]
        return pd.DataFrame(rows)

    def shapes(self) -> pd.DataFrame:
        """What the global model adds to a score for each value of each column, see `shapes.py`."""
        return shapes(self.federation, self.network, self.fitted.w)

    def personal_model(self, client: int | str) -> PersonalModel:
        """Return the model of a client, by number (from 0) or by name."""
        data, encoder = self.federation.data, self.federation.encoder
        own = self.predictors[client_number(self.federation.partition.names, client)]
        own = replace(own, theta=own.theta.clone())  # nobody's alias
        kinds = self.federation.table.kinds
        return PersonalModel(own, encoder, kinds, data.group_names, data.label_names)

    def rules(self, protocol: str | None = None) -> pd.DataFrame:
        """Per client: the gap that its decisions reach, its rule, and what that costs in accuracy.

        The cost is against the likeliest label by the same scores, for two classes the threshold
        1/2 for all.
        """
        part = self.federation.partition
        _, rows, weighted = measured_rows(part, protocol)
        likeliest = Likeliest(outputs=outputs(self.federation.table.kinds.classes))
        plain = [replace(predictor, rule=likeliest) for predictor in self.predictors]
        counts = count(plain, self.federation.table, rows)
        right = metrics.measure(counts, part.shares if weighted else None)["accuracy"]
        gap = CRITERIA[self.algorithm.criterion].measure
        shown = [f"{gap}{end}" for end in ("", "_low", "_high", "_people")]
        table = self.table(protocol)[["client", "accuracy", *shown]]
        about = [{**rule.table(), **rule.facts} for rule in self.fitted.rules]
        each = pd.DataFrame(about, index=table.index)
        return pd.concat([table, each], axis=1).assign(cost=right - table["accuracy"])

    def retarget(self, **changes: Any) -> Self:
        """Return this run with another target_ddp or confidence: no training and no messages."""
        algorithm = self.algorithm.change(**changes)
        table, rows = self.federation.table, self.federation.partition.train
        clients = Clients(self.network, table, rows, range(len(rows)), self.seed)
        rules = list(algorithm.rules(self.fitted.server, self.fitted.own, clients))
        return replace(self, algorithm=algorithm, fitted=self.fitted._replace(rules=rules))

    def save(self, folder: str | Path) -> None:
        """Write ``model.safetensors`` (w, theta, what the server knows) and ``run.json``."""
        data = self.federation.data
        about = {
            "dataset": data.name,
            "algorithm": self.algorithm.to_dict(),
            "clients": self.federation.partition.names,
            "group_names": data.group_names,
            "label_names": data.label_names,
            "sensitive_column": data.sensitive_column,
            "seed": self.seed,
        }
        server = {f"server.{k}": v for k, v in self.fitted.server.items() if k != "w"}
        tensors = {"w": self.fitted.w, "theta": self.fitted.theta, **server}
        kinds, rules = self.federation.table.kinds, self.fitted.rules
        write_model(
            Path(folder), self.network, self.federation.encoder, kinds, rules, tensors, about
        )


def usual_network(inputs: int, hidden: Sequence[int], kinds: Kinds) -> Network:
    """Return the MLP for so many inputs; it is told S unless it is blind."""
    return MLP(inputs, hidden, outputs(kinds.classes), kinds.groups if kinds.aware else 0)


def check_model(data: Dataset) -> None:
    """Refuse a network on pixels that there is not."""
    if data.model:
        known("model", data.model, PIXELS)


def own_network(federation: Federation) -> Network:
    """Return the network that goes with the data set."""
    data, shape, kinds = federation.data, federation.table.shape, federation.table.kinds
    if len(shape) > 1:
        check_model(data)
        if kinds.aware:
            raise InputError("A network on pixels does not look at S: leave out --aware.")
        return Pixels(data.model or "cnn", shape[-1], outputs(kinds.classes))
    return usual_network(federation.encoder.width, data.hidden, kinds)


def choose_network(
    federation: Federation, algorithm: Algorithm, network: Network | str | None = None
) -> Network:
    """Return the network to train: the given one, that of a model by name, or the data set's."""
    table = federation.table
    kinds, needed = table.kinds, outputs(table.kinds.classes)
    algorithm.check(kinds)
    if isinstance(network, str):
        data = with_model(federation.data, network)
        if data.encoding != federation.data.encoding:
            raise InputError(f"These rows are encoded already: load them with model='{network}'.")
        network = own_network(replace(federation, data=data))
    network = network or own_network(federation)
    w, x = network.init(seeds.generator(0, seeds.INIT))[None], table.inputs(slice(2))[None]
    one, other = (network.logits(w, x, torch.full(x.shape[:2], s)) for s in (0, 1))
    if not kinds.aware and not torch.equal(one, other):
        raise InputError(f"The federation is blind, but this network looks at S: {network.words}.")
    if one.shape[-1] != needed:
        raise InputError(
            f"For {kinds.classes} classes a network needs {needed} outputs, this one has "
            f"{one.shape[-1]}."
        )
    return algorithm.network(network, kinds)


def train(
    federation: Federation,
    algorithm: Algorithm,
    seed: int = 0,
    network: Network | str | None = None,
    on_work: Callable[[float], None] = lambda work: None,
) -> Run:
    """Train one method on a federation, all clients in this process.

    Parameters
    ----------
    network
        Or the name of a model, see `pfedfair.data.with_model`. By default what goes with the data
        set.
    on_work
        Called with the part of the work that has just been done, for a progress bar.
    """
    network = choose_network(federation, algorithm, network)
    began = time.perf_counter()
    fitted = fit(federation, algorithm, network, seed, on_work=on_work)
    seconds = time.perf_counter() - began
    if not bool(torch.isfinite(fitted.theta).all()):
        raise InputError(
            f"Training diverged: a weight is not finite after {algorithm.rounds} rounds; "
            "use a smaller alpha."
        )
    run = Run(federation, algorithm, network, fitted, seed, seconds)
    if algorithm.collapse and run.collapsed.any():
        names = [n for n, c in zip(federation.partition.names, run.collapsed, strict=True) if c]
        warnings.warn(
            f"The model of client {', '.join(names)} predicts one class for everybody: "
            f"{algorithm.collapse}.",
            CollapseWarning,
            stacklevel=2,
        )
    return run
