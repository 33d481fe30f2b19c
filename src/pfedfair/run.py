"""One training run: what went in, what every client got, and how to keep it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.special import expit

from pfedfair import metrics
from pfedfair.algorithms import Algorithm, Clients, Transport
from pfedfair.engines.stacked import Fitted, fit
from pfedfair.errors import InputError, known
from pfedfair.federation import Federation
from pfedfair.model import PersonalModel, write_model
from pfedfair.networks import MLP, Bias, Lookup, Network, Thresholds, outputs
from pfedfair.partition import Partition
from pfedfair.theory import frontier


class CollapseWarning(UserWarning):
    """A personal model predicts one class for everybody."""


def measured_rows(part: Partition, protocol: str | None) -> tuple[str, list[np.ndarray], bool]:
    """Return the protocol, the rows to measure each client on, and whether to weight them.

    "pool": the whole held-out pool, weighted to the client's share of S, for clients that differ in
    that share only (there it is the default); "paper": the client's own test rows; "validation":
    the rows set aside for tuning, everybody's and weighted where "pool" would be.
    """
    protocol = protocol or ("pool" if part.shared_conditional else "paper")
    known("protocol", protocol, list(metrics.PROTOCOLS))
    if protocol == "pool" and not part.shared_conditional:
        raise InputError(
            "Protocol 'pool' needs clients that differ in their share of S only; these clients "
            "differ in more: use protocol 'paper', each client's own test rows."
        )
    weighted = part.shared_conditional and protocol != "paper"
    if protocol == "validation":
        own = list(part.validation)
        rows = [np.concatenate(own)] * len(own) if weighted else own
    else:
        rows = [part.pool] * len(part.names) if weighted else list(part.test)
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
    def collapsed(self) -> np.ndarray:
        """Which clients' models predict one class for all of their own training rows."""
        part = self.federation.partition
        counts = metrics.count(self.network, self.fitted.theta, self.federation.table, part.train)
        return np.asarray((counts.sum((1, 2)) > 0).sum(1) == 1)

    def table(self, protocol: str | None = None) -> pd.DataFrame:
        """Per client: accuracy, DDP and negative prediction rates with bootstrap intervals.

        Parameters
        ----------
        protocol
            See `measured_rows`.
        """
        part = self.federation.partition
        protocol, rows, weighted = measured_rows(part, protocol)
        counts = metrics.count(
            self.network, self.fitted.theta, self.federation.table, rows, self.seed
        )
        about = {
            "client": part.names,
            "role": part.roles,
            "n_train": self.federation.sizes,
            "n_test": [len(own) for own in rows],
            **{f"share_s{z}": part.shares[:, z] for z in range(1, part.shares.shape[1])},
        }
        if weighted:  # there is no gap to a group that a client has not
            counts = np.where(part.shares[..., None, None] > 0, counts, 0)
        found = metrics.client_table(counts, part.shares if weighted else None, self.seed)
        table = pd.concat([pd.DataFrame(about), found], axis=1)
        return table.assign(collapsed=self.collapsed, protocol=protocol)

    def frontier(self, limits: Sequence[float], protocol: str | None = None) -> pd.DataFrame:
        """Per limit on DDP and client: the best that thresholds on the global model's scores do.

        They are set on the very rows that they are measured on: no method, but a mark to measure
        methods by. A client without both groups has no gap to limit.
        """
        part, data = self.federation.partition, self.federation.table
        if data.kinds.groups > 2 or data.kinds.classes > 2:
            raise InputError("The frontier is computed for two groups and two classes.")
        protocol, held, weighted = measured_rows(part, protocol)
        logits = [self.network.logits(self.fitted.w[None], x[None])[0, :, 0]
                  for x in torch.split(data.x, metrics.ROWS_AT_ONCE)]  # fmt: skip
        score = torch.sigmoid(torch.cat(logits)).double().numpy()
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

    def personal_model(self, client: int | str) -> PersonalModel:
        """Return the model of a client, by number (from 0) or by name."""
        data = self.federation.data
        return PersonalModel(
            self.network,
            self.federation.encoder,
            self.fitted.theta[self.federation.client(client)].clone(),
            data.group_names,
            data.label_names,
        )

    def rules(self, protocol: str | None = None) -> pd.DataFrame:
        """Per client: its thresholds on the score, and what fairness cost it in accuracy.

        For methods that turn scores into decisions. The cost is against the most likely label by
        the same scores, for two classes the threshold 1/2 for all.
        """
        network = self.network
        if not isinstance(network, Thresholds | Lookup):
            raise InputError(f"{type(self.algorithm).__name__} has no decision rule of its own.")
        part = self.federation.partition
        _, rows, weighted = measured_rows(part, protocol)
        plain = self.fitted.w[None, : network.network.size].repeat(len(part.names), 1)
        counts = metrics.count(network.network, plain, self.federation.table, rows)
        right = metrics.measure(counts, part.shares if weighted else None)["accuracy"]
        gap = metrics.GAPS[self.algorithm.criterion]
        shown = ["client", "accuracy", gap, f"{gap}_low", f"{gap}_high"]
        table = self.table(protocol)[shown]
        if isinstance(network, Thresholds):
            rule = network.rule(self.fitted.theta).numpy()
            for z in range(network.groups):
                for k, name in enumerate(("low", "high")):
                    table[f"{name}_s{z}"] = expit(rule[:, z, k])
                table[f"chance_s{z}"] = rule[:, z, 2]
                table[f"below_s{z}"] = rule[:, z, 3]
        return table.assign(cost=right - table["accuracy"])

    def retarget(self, **changes: Any) -> Run:
        """Return this run with another target_ddp or confidence: no training and no messages."""
        if not isinstance(self.algorithm, Transport):
            raise InputError(
                f"{type(self.algorithm).__name__} has to train again for another target."
            )
        algorithm = self.algorithm.change(**changes)
        clients = Clients(
            network=self.network,
            table=self.federation.table,
            rows=self.federation.partition.train,
            ids=range(len(self.federation)),
            seed=self.seed,
        )
        theta = algorithm.personalise(self.fitted.server, self.fitted.own, clients)
        return replace(self, algorithm=algorithm, fitted=self.fitted._replace(theta=theta))

    def save(self, folder: str | Path) -> None:
        """Write ``model.safetensors`` (w, theta, what the server knows) and ``run.json``."""
        data = self.federation.data
        about = {
            "dataset": data.name,
            "algorithm": {"name": type(self.algorithm).__name__, **asdict(self.algorithm)},
            "clients": self.federation.partition.names,
            "group_names": data.group_names,
            "label_names": data.label_names,
            "sensitive_column": data.sensitive_column,
            "seed": self.seed,
        }
        server = {f"server.{k}": v for k, v in self.fitted.server.items() if k != "w"}
        tensors = {"w": self.fitted.w, "theta": self.fitted.theta, **server}
        write_model(Path(folder), self.network, self.federation.encoder, tensors, about)


def choose_network(
    federation: Federation, algorithm: Algorithm, network: Network | None = None
) -> Network:
    """Return the network to train: the given one, or the MLP that goes with the data set."""
    kinds = federation.table.kinds
    algorithm.check(kinds)
    needed = outputs(kinds.classes)
    if isinstance(network, MLP) and network.widths[-1] != needed:
        raise InputError(
            f"For {kinds.classes} classes a network needs {needed} outputs, this one has "
            f"{network.widths[-1]}."
        )
    width, hidden = federation.encoder.width, federation.data.hidden
    return algorithm.network(network or MLP(width, hidden, needed), kinds)


def train(
    federation: Federation,
    algorithm: Algorithm,
    seed: int = 0,
    network: Network | None = None,
    on_work: Callable[[float], None] = lambda work: None,
) -> Run:
    """Train one method on a federation, all clients in this process.

    Parameters
    ----------
    network
        By default the MLP that goes with the data set.
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
    if not isinstance(network, Bias) and run.collapsed.any():
        names = [n for n, c in zip(federation.partition.names, run.collapsed, strict=True) if c]
        why = "train longer, lower eta or raise alpha"
        if isinstance(algorithm, Transport):
            why = "its rows do not allow more for this target and confidence, or the scores do not"
        warnings.warn(
            f"The model of client {', '.join(names)} predicts one class for everybody: {why}.",
            CollapseWarning,
            stacklevel=2,
        )
    return run
