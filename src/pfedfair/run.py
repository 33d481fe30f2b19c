"""One training run: what went in, what every client got, and how to keep it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file, save_file

from pfedfair import metrics
from pfedfair.algorithms import Algorithm
from pfedfair.data.table import Encoder
from pfedfair.engines.stacked import Fitted, fit
from pfedfair.errors import InputError, known
from pfedfair.federation import Federation
from pfedfair.files import atomic, read_json, write_json
from pfedfair.networks import MLP, Bias, GroupOffset, Network
from pfedfair.partition import Partition
from pfedfair.theory import frontier


class CollapseWarning(UserWarning):
    """A personal model predicts one class for everybody."""


@dataclass(frozen=True, eq=False)
class PersonalModel:
    """A client's classifier on raw rows, in scikit-learn's manner."""

    network: Network
    encoder: Encoder
    theta: torch.Tensor
    group_names: tuple[str, str]
    label_names: tuple[str, str]

    def predict_proba(self, X: pd.DataFrame, sensitive_features: Any = None) -> np.ndarray:
        """Return P(Y=0) and P(Y=1) of every row, ``(n, 2)``."""
        s = None if sensitive_features is None else self._codes(sensitive_features)
        x = torch.from_numpy(self.encoder.transform(X, s))
        score = torch.sigmoid(self.network.logits(self.theta[None], x[None])[0, :, 0]).numpy()
        return np.stack([1 - score, score], axis=1)

    def predict(self, X: pd.DataFrame, sensitive_features: Any = None) -> np.ndarray:
        """Return 0 or 1 for every row; `label_names` says what they stand for."""
        return (self.predict_proba(X, sensitive_features)[:, 1] > 0.5).astype(np.int64)

    def _codes(self, sensitive_features: Any) -> np.ndarray:
        values = pd.Series(np.asarray(sensitive_features)).astype(str)
        codes = [n for n in (("0", "1"), ("False", "True")) if not set(n) & set(self.group_names)]
        for names in (self.group_names, *codes):  # codes only where they cannot be names
            if values.isin(names).all():
                return (values == names[1]).to_numpy(np.int64)
        raise InputError(
            f"sensitive_features must be {' or '.join(self.group_names)}; "
            f"found '{values[~values.isin(self.group_names)].iloc[0]}'."
        )


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
        return np.asarray((counts.sum((1, 2)) == 0).any(1))

    def table(self, protocol: str | None = None) -> pd.DataFrame:
        """Per client: accuracy, DDP and negative prediction rates with bootstrap intervals.

        Parameters
        ----------
        protocol
            See `measured_rows`.
        """
        part = self.federation.partition
        protocol, rows, weighted = measured_rows(part, protocol)
        counts = metrics.count(self.network, self.fitted.theta, self.federation.table, rows)
        share = part.share_s1 if weighted else None
        about = pd.DataFrame(
            {
                "client": part.names,
                "role": part.roles,
                "n_train": self.federation.sizes,
                "n_test": [len(own) for own in rows],
                "share_s1": part.share_s1,
            }
        )
        found = metrics.client_table(counts, share, self.seed)
        return pd.concat([about, found], axis=1).assign(collapsed=self.collapsed, protocol=protocol)

    def frontier(self, limits: Sequence[float], protocol: str | None = None) -> pd.DataFrame:
        """Per limit on DDP and client: the best that thresholds on the global model's scores do.

        They are set on the very rows that they are measured on: no method, but a mark to measure
        methods by. A client without both groups has no gap to limit, and gets no numbers.
        """
        part, data = self.federation.partition, self.federation.table
        protocol, held, _ = measured_rows(part, protocol)
        logits = [self.network.logits(self.fitted.w[None], x[None])[0, :, 0]
                  for x in torch.split(data.x, metrics.ROWS_AT_ONCE)]  # fmt: skip
        score = torch.sigmoid(torch.cat(logits)).double().numpy()
        y, s = data.y.long().numpy(), data.s.numpy()
        found: dict[tuple[int, float], list[tuple[float, float]]] = {}
        for own, share in zip(held, part.share_s1, strict=True):
            both = 0 < share < 1 and 0 < s[own].mean() < 1
            if (id(own), share) not in found:  # clients with the same rows and share are alike
                found[id(own), share] = (
                    frontier(score[own], y[own], s[own], share, limits)
                    if both
                    else [(float("nan"), float("nan"))] * len(limits)
                )
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

    def save(self, folder: str | Path) -> None:
        """Write ``model.safetensors`` (w and theta) and ``run.json`` (all else)."""
        offsets = isinstance(self.network, GroupOffset)
        network = self.network.network if isinstance(self.network, GroupOffset) else self.network
        if not isinstance(network, MLP | Bias):
            raise InputError("Only linear, mlp and constant models can be saved.")
        folder, data = Path(folder), self.federation.data
        with atomic(folder / "model.safetensors") as beside:
            save_file({"w": self.fitted.w, "theta": self.fitted.theta}, beside)
        write_json(
            folder / "run.json",
            {
                "dataset": data.name,
                "algorithm": {"name": type(self.algorithm).__name__, **asdict(self.algorithm)},
                "widths": network.widths if isinstance(network, MLP) else None,
                "group_offsets": offsets,
                "encoder": asdict(self.federation.encoder),
                "clients": self.federation.partition.names,
                "group_names": data.group_names,
                "label_names": data.label_names,
                "seed": self.seed,
            },
        )


def load_model(folder: str | Path, client: int | str) -> PersonalModel:
    """Read a client's model from a folder that `Run.save` wrote."""
    folder = Path(folder)
    about = read_json(folder / "run.json")
    names = about["clients"]
    number = names.index(client) if client in names else client
    if not isinstance(number, int) or not 0 <= number < len(names):
        raise InputError(f"There is no client {client!r} in {folder}: it has {', '.join(names)}.")
    widths, encoder = about["widths"], about["encoder"]
    encoder["categories"] = {c: tuple(v) for c, v in encoder["categories"].items()}
    network: Network = MLP(widths[0], widths[1:-1], widths[-1]) if widths else Bias()
    return PersonalModel(
        network=GroupOffset(network) if about["group_offsets"] else network,
        encoder=Encoder(**encoder),
        theta=load_file(folder / "model.safetensors")["theta"][number],
        group_names=tuple(about["group_names"]),
        label_names=tuple(about["label_names"]),
    )


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
    network = network or MLP(federation.encoder.width, federation.data.hidden)
    network = algorithm.network(network)
    if isinstance(network, GroupOffset) and not federation.encoder.sensitive_as_input:
        raise InputError(
            f"{type(algorithm).__name__} has a threshold for each group: S must be an input."
        )
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
        warnings.warn(
            f"The model of client {', '.join(names)} predicts one class for everybody: train "
            "longer, lower eta or raise alpha.",
            CollapseWarning,
            stacklevel=2,
        )
    return run
