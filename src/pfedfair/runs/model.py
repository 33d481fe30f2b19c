"""A client's classifier on raw rows, and the files that keep it."""

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pfedfair import algorithms, networks, rules
from pfedfair.algorithms import Algorithm
from pfedfair.data import encoder as inputs
from pfedfair.data.bands import cut, in_order
from pfedfair.data.cells import canonical
from pfedfair.errors import InputError
from pfedfair.federation import client_number
from pfedfair.files import atomic, read_json, write_json
from pfedfair.kinds import Kinds
from pfedfair.networks import Network
from pfedfair.rules import Likeliest, Rule
from pfedfair.runs.predictor import Predictor

FORMAT = 2  # of run.json


@dataclass(frozen=True, eq=False)
class PersonalModel:
    """A client's classifier on raw rows, in scikit-learn's manner."""

    predictor: Predictor
    encoder: inputs.Inputs
    kinds: Kinds
    group_names: tuple[str, ...]
    label_names: tuple[str, ...]
    bands: tuple[tuple[float, ...], ...] = ()  # of each sensitive number; see `bands.in_order`

    def predict_proba(self, X: pd.DataFrame, sensitive_features: Any = None) -> np.ndarray:
        """Return the chance of every label for every row, ``(n, labels)``.

        For a rule that turns scores into decisions: the chances of its decisions.
        """
        x, s = self._inputs(X, sensitive_features)
        return self.predictor.chances(x, s, self.encoder.unpack).numpy()

    def predict(
        self, X: pd.DataFrame, sensitive_features: Any = None, random_state: int | None = None
    ) -> np.ndarray:
        """Return 0, 1, ... for every row; `label_names` says what they stand for.

        A rule that draws lots at a threshold draws them from `random_state`; by default from fresh
        entropy, so that people who come one by one do not all draw the same.
        """
        x, s = self._inputs(X, sensitive_features)
        rng = np.random.default_rng(random_state)
        return self.predictor.decide(x, s, rng, self.encoder.unpack).numpy()

    def words(self) -> list[str]:
        """Say how the model decides."""
        return self.predictor.rule.words(self.label_names, self.group_names)

    def _inputs(self, X: pd.DataFrame, sensitive_features: Any) -> tuple[Tensor, Tensor]:
        unknown = sensitive_features is None
        if unknown and self.kinds.aware:
            raise InputError(
                "The model takes the sensitive attribute as an input: give sensitive_features."
            )
        s = np.zeros(len(X), np.int64) if unknown else self.codes(sensitive_features)
        return torch.from_numpy(pack(self.encoder, X)), torch.from_numpy(s)

    def codes(self, sensitive_features: Any) -> np.ndarray:
        """Return 0, 1, ... for names of groups (or for these numbers if they cannot be names).

        Of several attributes (a table with a column for each) the values are joined by " x ".
        Numbers of an attribute with bands are cut as in training.
        """
        columns, names = pd.DataFrame(sensitive_features), self.group_names
        for name, edges in zip(list(columns), self.bands, strict=False):
            if edges:
                columns[name] = cut(columns[name], edges, "sensitive_features").astype(object)
        texts = [columns[name].map(lambda v: canonical(v) or "").to_numpy(object)
                 for name in columns]  # fmt: skip
        values = pd.Series([" x ".join(row) for row in zip(*texts, strict=True)], dtype=object)
        ways = [{canonical(name) or name: z for z, name in enumerate(names)}]
        if not any(map(_is_number, names)):  # codes only where they cannot be names
            numbers = {str(z): z for z in range(len(names))}
            ways += [way for way in (numbers, {"False": 0, "True": 1}) if not way.keys() & names]
        merged = {part: z for z, name in enumerate(names) for part in name.split(" + ")}
        for way in (*ways, merged):
            if values.isin(way).all():
                return values.map(way).to_numpy(np.int64, copy=True)  # a tensor is made of it
        raise InputError(
            f"sensitive_features must be {' or '.join(names)}; "
            f"found '{values[~values.isin(merged)].iloc[0]}'."
        )


class UnseenWarning(UserWarning):
    """Rows to decide on have cells unlike those of the training rows."""


def pack(encoder: inputs.Inputs, people: Any) -> np.ndarray:
    """Pack people's inputs; say what the training rows did not have, or had much less of."""
    packed = encoder.pack(people)
    levels, empty = encoder.unseen(people, packed)
    for counts, kind in ((levels, "of a new or rare level"), (empty, "without a value")):
        if counts:
            named = ", ".join(f"{column} {n:,}" for column, n in counts.items())
            total = sum(counts.values())
            warnings.warn(
                f"{total:,} cell{'s' * (total > 1)} {kind} ({named}): the training rows had fewer "
                "such, or none.",
                UnseenWarning,
                stacklevel=4,
            )
    return packed


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def write_model(
    folder: Path,
    network: Network,
    encoder: inputs.Inputs,
    kinds: Kinds,
    rule: Sequence[Rule],
    tensors: dict[str, Tensor],
    about: dict[str, Any],
) -> None:
    """Write ``model.safetensors`` and ``run.json``: all that `read_model` needs, and `about`.

    `rule` has one for each client, all of the same kind, or none where there are no clients.
    """
    kept = {f"buffer.{name}": buffer for name, buffer in network.buffers().items()}
    kept |= {f"encoder.{name}": torch.from_numpy(a) for name, a in encoder.tensors().items()}
    if rule:
        kept["rule"] = torch.stack([one.numbers for one in rule])
    with atomic(folder / "model.safetensors") as beside:
        save_file({name: tensor.contiguous() for name, tensor in (tensors | kept).items()}, beside)
    what = {
        "format": FORMAT,
        "network": network.to_dict(),
        "rule": rule[0].to_dict() if rule else None,
        "encoder": encoder.to_dict(),
        "kinds": asdict(kinds),
    }
    write_json(folder / "run.json", about | what)


@dataclass(frozen=True, eq=False)
class Saved:
    """What `write_model` wrote."""

    network: Network
    encoder: inputs.Inputs
    kinds: Kinds
    tensors: dict[str, Tensor]
    about: dict[str, Any]

    @property
    def algorithm(self) -> Algorithm:
        return algorithms.from_dict(self.about["algorithm"])

    def model(self, theta: Tensor, rule: Rule | None = None) -> PersonalModel:
        """Return a model with these parameters, that decides by `rule`."""
        names = tuple(self.about["group_names"]), tuple(self.about["label_names"])
        bands = in_order(self.about.get("bands", {}), self.about.get("sensitive_column", ""))
        predictor = Predictor(self.network, theta, rule or Likeliest())
        return PersonalModel(predictor, self.encoder, self.kinds, *names, bands)


def read_model(folder: Path, module: nn.Module | None = None) -> Saved:
    """Read what `write_model` wrote; `module` is for a network that is one, see `Module`."""
    if not (folder / "run.json").exists():
        raise InputError(f"{folder} has no run.json: it is not a folder that train --out wrote.")
    about = read_json(folder / "run.json")
    if about.get("format") != FORMAT:
        raise InputError(f"{folder} was written by another version of pfedfair: train again.")
    tensors = load_file(folder / "model.safetensors")
    scales = {name: tensor.numpy() for name, tensor in _taken(tensors, "encoder.").items()}
    encoder = inputs.from_dict(about["encoder"], scales)
    network = networks.from_dict(about["network"], _taken(tensors, "buffer."), module)
    return Saved(network, encoder, Kinds(**about["kinds"]), tensors, about)


def _taken(tensors: dict[str, Tensor], mark: str) -> dict[str, Tensor]:
    """Take out the tensors whose names begin with a mark."""
    return {name[len(mark) :]: tensors.pop(name) for name in list(tensors) if name.startswith(mark)}


def load_model(
    folder: str | Path, client: int | str, module: nn.Module | None = None
) -> PersonalModel:
    """Read a client's model from a folder that `Run.save` wrote, by name or number (from 0).

    If the network is a ``torch.nn.Module`` of your own, give the same `module` again: a file names
    no code to run.
    """
    saved = read_model(Path(folder), module)
    number = client_number(saved.about["clients"], client)
    rule = rules.from_dict(saved.about["rule"], saved.tensors["rule"][number])
    return saved.model(saved.tensors["theta"][number].clone(), rule)  # as `Run.personal_model`
