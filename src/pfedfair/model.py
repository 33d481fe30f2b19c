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
from pfedfair.data.encoder import Encoder
from pfedfair.errors import InputError
from pfedfair.files import atomic, read_json, write_json
from pfedfair.networks import MLP, Bias, Cells, Lookup, Network, Thresholds, probabilities


@dataclass(frozen=True, eq=False)
class PersonalModel:
    """A client's classifier on raw rows, in scikit-learn's manner."""

    network: Network
    encoder: Encoder
    theta: torch.Tensor
    group_names: tuple[str, ...]
    label_names: tuple[str, ...]

    def predict_proba(self, X: pd.DataFrame, sensitive_features: Any = None) -> np.ndarray:
        """Return the probability of every label for every row, ``(n, labels)``.

        For a rule that turns scores into decisions: the probabilities of its decisions.
        """
        x = self._inputs(X, sensitive_features)[None]
        if isinstance(self.network, Thresholds | Lookup):
            return self.network.chances(self.theta[None], x)[0].numpy()
        return probabilities(self.network.logits(self.theta[None], x))[0].numpy()

    def predict(
        self, X: pd.DataFrame, sensitive_features: Any = None, random_state: int | None = None
    ) -> np.ndarray:
        """Return 0, 1, ... for every row; `label_names` says what they stand for.

        A rule that draws lots at a threshold (see `Transport`) draws them from `random_state`; by
        default from fresh entropy, so that people who come one by one do not all draw the same.
        """
        decisions = metrics.decide(
            self.network,
            self.theta,
            self._inputs(X, sensitive_features),
            np.random.default_rng(random_state),
        )
        return decisions.numpy()

    def _inputs(self, X: pd.DataFrame, sensitive_features: Any) -> torch.Tensor:
        s = None if sensitive_features is None else self.codes(sensitive_features)
        return torch.from_numpy(self.encoder.transform(X, s))

    def codes(self, sensitive_features: Any) -> np.ndarray:
        """Return 0, 1, ... for names of groups (or for these numbers if they cannot be names).

        Of several attributes (a table with a column for each) the values are joined by " x ".
        """
        columns = pd.DataFrame(sensitive_features)
        texts = [columns[name].map(str).to_numpy(object) for name in columns]
        values = pd.Series([" x ".join(row) for row in zip(*texts, strict=True)], dtype=object)
        if all(map(_is_number, self.group_names)) and values.map(_is_number).all():
            values = values.map(  # 1 is 1.0
                lambda v: next((n for n in self.group_names if float(n) == float(v)), v)
            )
        numbers = tuple(map(str, range(len(self.group_names))))
        named = any(map(_is_number, self.group_names))
        codes = [] if named else [n for n in (numbers, ("False", "True"))
                                  if not set(n) & set(self.group_names)]  # fmt: skip
        for names in (self.group_names, *codes):  # codes only where they cannot be names
            if values.isin(names).all():
                return values.map({name: z for z, name in enumerate(names)}).to_numpy(np.int64)
        merged = {part: z for z, name in enumerate(self.group_names) for part in name.split(" + ")}
        if values.isin(merged).all():
            return values.map(merged).to_numpy(np.int64)
        raise InputError(
            f"sensitive_features must be {' or '.join(self.group_names)}; "
            f"found '{values[~values.isin(merged)].iloc[0]}'."
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def write_model(
    folder: Path,
    network: Network,
    encoder: Encoder,
    tensors: dict[str, Tensor],
    about: dict[str, Any],
) -> None:
    """Write ``model.safetensors`` and ``run.json``: all that `read_model` needs, and `about`."""
    inner = network.network if isinstance(network, Thresholds | Lookup) else network
    if not isinstance(inner, MLP | Bias):
        raise InputError("Only linear, mlp and constant models can be saved.")
    rule: dict[str, Any] | None = None
    if isinstance(network, Thresholds):
        rule = {"groups": network.groups}
    if isinstance(network, Lookup):
        head = network.head.widths if isinstance(network.head, MLP) else None
        rule = {"tables": network.tables, "cells": network.cells.settings, "head": head}
    with atomic(folder / "model.safetensors") as beside:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, beside)
    kind = {
        "widths": inner.widths if isinstance(inner, MLP) else None,
        "outputs": inner.size if isinstance(inner, Bias) else None,
        "rule": rule,
        "encoder": asdict(encoder),
    }
    write_json(folder / "run.json", about | kind)


def read_model(folder: Path) -> tuple[Network, Encoder, dict[str, Tensor], dict[str, Any]]:
    """Read what `write_model` wrote."""
    if not (folder / "run.json").exists():
        raise InputError(f"{folder} has no run.json: it is not a folder that train --out wrote.")
    about = read_json(folder / "run.json")
    if "rule" not in about:
        raise InputError(f"{folder} was written by an older version of pfedfair: train again.")
    widths, encoder = about["widths"], about["encoder"]
    encoder["categories"] = {c: tuple(v) for c, v in encoder["categories"].items()}
    network: Network = _mlp(widths) if widths else Bias(about["outputs"])
    rule = about["rule"]
    if rule and "groups" in rule:
        network = Thresholds(network, rule["groups"])
    elif rule:
        head = _mlp(rule["head"]) if rule["head"] else None
        network = Lookup(network, head, Cells(*rule["cells"]), rule["tables"])
    return network, Encoder(**encoder), load_file(folder / "model.safetensors"), about


def _mlp(widths: list[int]) -> MLP:
    return MLP(widths[0], widths[1:-1], widths[-1])


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
