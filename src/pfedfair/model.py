"""A client's classifier on raw rows, and the files that keep it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from pfedfair import metrics
from pfedfair.data.table import Encoder
from pfedfair.errors import InputError
from pfedfair.files import atomic, read_json, write_json
from pfedfair.networks import MLP, Bias, Network, Thresholds


@dataclass(frozen=True, eq=False)
class PersonalModel:
    """A client's classifier on raw rows, in scikit-learn's manner."""

    network: Network
    encoder: Encoder
    theta: torch.Tensor
    group_names: tuple[str, str]
    label_names: tuple[str, str]

    def predict_proba(self, X: pd.DataFrame, sensitive_features: Any = None) -> np.ndarray:
        """Return P(Y=0) and P(Y=1) of every row, ``(n, 2)``.

        For a rule with thresholds by group: the probabilities of its decisions.
        """
        x = self._inputs(X, sensitive_features)
        if isinstance(self.network, Thresholds):
            score = self.network.chance(self.theta[None], x[None])[0].numpy()
        else:
            score = torch.sigmoid(self.network.logits(self.theta[None], x[None])[0, :, 0]).numpy()
        return np.stack([1 - score, score], axis=1)

    def predict(
        self, X: pd.DataFrame, sensitive_features: Any = None, random_state: int | None = None
    ) -> np.ndarray:
        """Return 0 or 1 for every row; `label_names` says what they stand for.

        A rule that draws lots at a threshold (see `Transport`) draws them from `random_state`; by
        default from fresh entropy, so that people who come one by one do not all draw the same.
        """
        decisions = metrics.decide(
            self.network,
            self.theta,
            self._inputs(X, sensitive_features),
            np.random.default_rng(random_state),
        )
        return decisions.long().numpy()

    def _inputs(self, X: pd.DataFrame, sensitive_features: Any) -> torch.Tensor:
        s = None if sensitive_features is None else self.codes(sensitive_features)
        return torch.from_numpy(self.encoder.transform(X, s))

    def codes(self, sensitive_features: Any) -> np.ndarray:
        """Return 0 or 1 for names of groups (or for 0 and 1 where these cannot be names)."""
        values = pd.Series(np.asarray(sensitive_features)).astype(str)
        codes = [n for n in (("0", "1"), ("False", "True")) if not set(n) & set(self.group_names)]
        for names in (self.group_names, *codes):  # codes only where they cannot be names
            if values.isin(names).all():
                return (values == names[1]).to_numpy(np.int64)
        raise InputError(
            f"sensitive_features must be {' or '.join(self.group_names)}; "
            f"found '{values[~values.isin(self.group_names)].iloc[0]}'."
        )


def write_model(
    folder: Path,
    network: Network,
    encoder: Encoder,
    tensors: dict[str, Tensor],
    about: dict[str, Any],
) -> None:
    """Write ``model.safetensors`` and ``run.json``: all that `read_model` needs, and `about`."""
    inner = network.network if isinstance(network, Thresholds) else network
    if not isinstance(inner, MLP | Bias):
        raise InputError("Only linear, mlp and constant models can be saved.")
    with atomic(folder / "model.safetensors") as beside:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, beside)
    kind = {
        "widths": inner.widths if isinstance(inner, MLP) else None,
        "thresholds": isinstance(network, Thresholds),
        "encoder": asdict(encoder),
    }
    write_json(folder / "run.json", about | kind)


def read_model(folder: Path) -> tuple[Network, Encoder, dict[str, Tensor], dict[str, Any]]:
    """Read what `write_model` wrote."""
    if not (folder / "run.json").exists():
        raise InputError(f"{folder} has no run.json: it is not a folder that train --out wrote.")
    about = read_json(folder / "run.json")
    widths, encoder = about["widths"], about["encoder"]
    encoder["categories"] = {c: tuple(v) for c, v in encoder["categories"].items()}
    network: Network = MLP(widths[0], widths[1:-1], widths[-1]) if widths else Bias()
    if about["thresholds"]:
        network = Thresholds(network)
    return network, Encoder(**encoder), load_file(folder / "model.safetensors"), about


def load_model(folder: str | Path, client: int | str) -> PersonalModel:
    """Read a client's model from a folder that `Run.save` wrote."""
    network, encoder, tensors, about = read_model(Path(folder))
    names = about["clients"]
    number = names.index(client) if client in names else client
    if not isinstance(number, int) or not 0 <= number < len(names):
        raise InputError(f"There is no client {client!r} in {folder}: it has {', '.join(names)}.")
    return PersonalModel(
        network=network,
        encoder=encoder,
        theta=tensors["theta"][number],
        group_names=tuple(about["group_names"]),
        label_names=tuple(about["label_names"]),
    )
