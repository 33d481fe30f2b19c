"""A run from its folder: what every client got, its rules, another target, its models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from pfedfair._util.errors import InputError, option
from pfedfair.data import Dataset
from pfedfair.data.tables.bands import checked
from pfedfair.engines.collection import shared
from pfedfair.engines.local import Fitted, Sent
from pfedfair.federation import Federation, Table
from pfedfair.models import Network
from pfedfair.partition import Partition
from pfedfair.runs.model import WHOLE, Saved, damage, read_model
from pfedfair.runs.predictions import Memory, Remembered
from pfedfair.runs.predictor import Predictor
from pfedfair.runs.run import Run
from pfedfair.runs.shapes import read_shapes

NO_ROWS = "the folder keeps scores, not the rows themselves"


class Rowless(Network):
    """Stands in for the network where a method would score rows that are not kept."""

    words, size = "no network", 0

    def init(self, rng: np.random.Generator) -> Tensor:
        return torch.zeros(0)

    def to_dict(self) -> dict[str, Any]:
        return {}

    def logits(self, w: Tensor, x: Tensor, s: Tensor) -> Tensor:
        raise InputError(
            f"Another target needs the training rows for this method, and {NO_ROWS}: retarget the "
            "run before it is saved, or train again."
        )

    def vjp(self, w: Tensor, x: Tensor, s: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        self.logits(w, x, s)
        raise AssertionError


@dataclass(frozen=True, eq=False)
class SavedRun(Run):
    """A run as `load_run` reads it: `Run`, with scores in the place of rows.

    Attributes
    ----------
    folder
        Where it was read from.
    card
        All that ``run.json`` says.
    """

    folder: Path = Path()
    card: Mapping[str, Any] = field(default_factory=dict, repr=False)
    memory: Memory | None = field(default=None, repr=False)

    @cached_property
    def predictors(self) -> list[Predictor]:
        """Every client's, on people by their numbers."""
        assert self.memory is not None
        each = zip(self.fitted.theta, self.fitted.rules, self.memory.logits, strict=True)
        return [Remembered(self.network, theta, rule, *kept) for theta, rule, kept in each]

    @cached_property
    def values(self) -> dict[str, int]:
        return dict(self.card["values"])

    def retarget(self, **changes: Any) -> Self:
        """Return this run with another target_ddp or confidence: no training and no rows."""
        found = Run.retarget(replace(self, network=Rowless()), **changes)
        return replace(found, network=self.network)

    def sweep(self, targets: Sequence[float]) -> Iterator[Self]:
        """Yield the run with each of some targets, as `retarget`; quicker than one by one."""
        for found in Run.sweep(replace(self, network=Rowless()), targets):
            yield replace(found, network=self.network)

    def shapes(self) -> pd.DataFrame:
        """What the global model adds to a score for each value of each column, see `shapes.py`."""
        found = read_shapes(self.folder)
        if found is None:
            raise InputError(
                f"{self.network.words} has no shapes: take {option('model', 'linear')} or additive."
            )
        return found

    @cached_property
    def _one_model(self) -> bool:
        """Whether every client has the global model."""
        theta, w = self.fitted.theta, self.fitted.w
        some = theta[:1] if shared(theta) else theta
        return all(torch.equal(one, w) for one in some)

    def global_scores(self, client: int, rows: np.ndarray) -> np.ndarray:
        """The global model's scores; they are kept if it is every client's own model, too."""
        if not self._one_model:
            raise InputError(
                "The frontier is computed from the global model's scores, and the folder keeps "
                "those of each client's own model."
            )
        at = torch.from_numpy(rows)
        logits = self.predictors[client].logits(at, self.federation.table.s[at])
        return torch.sigmoid(logits[:, 0]).double().numpy()

    def save(self, folder: str | Path, command: str = "") -> None:
        raise InputError(f"A run can be saved where it was trained: {NO_ROWS}. Copy {self.folder}.")


def load_run(folder: str | Path, module: nn.Module | None = None) -> SavedRun:
    """Read a run whole from the folder that `Run.save` or the command train wrote.

    It has what the trained run had: `table`, `rules`, `retarget`, `shapes`, `personal_model`,
    `global_model`, `seed`, `algorithm`; and `card`, what ``run.json`` says. Rows are not kept, so
    what needs them is refused: `frontier`, where clients have models of their own.

    Parameters
    ----------
    module
        The same torch module, if the run's network is one; see `load_model`.
    """
    folder = Path(folder)
    saved = read_model(folder, module)
    if saved.about["format"] not in WHOLE:
        raise InputError(
            f"{folder} was written by an older version of pfedfair: its models can be loaded "
            "(load_model), the whole run cannot; train again."
        )
    if not saved.clients:
        raise InputError(f"{folder} has a global model and no clients: it is not a whole run.")
    with damage(folder / "run.json"):
        return _made(saved)


def _made(saved: Saved) -> SavedRun:
    about = saved.about
    names = tuple(about["label_names"]), tuple(about["group_names"])
    shared = bool(about["shared_conditional"])
    memory = Memory.read(saved.folder, saved.clients, *names, shared)
    data = Dataset(
        about["dataset"], pd.DataFrame(index=range(len(memory.y))), memory.y, memory.s, (), {},
        *names, about["columns"]["label"], about["sensitive_column"], aware=saved.task.aware,
        inputs=about["data"]["inputs"], weight=memory.weight,
        bands=checked(about.get("bands")),
    )  # fmt: skip
    part = Partition(
        data, memory.train, memory.validation, memory.test, memory.pool, tuple(saved.clients),
        shared, about["columns"]["client"],
    )  # fmt: skip
    y, s = torch.from_numpy(memory.y.astype(np.float32)), torch.from_numpy(memory.s)
    table = Table(torch.arange(len(y)), y, s, saved.task)
    tensors = saved.tensors
    server = {"w": tensors["w"]} | _named(tensors, "server.")
    rules = saved.rules()
    for rule, facts in zip(rules, tensors.get("facts", ()), strict=False):
        rule.facts = dict(zip(about["facts"], facts.tolist(), strict=True))
    own = {name: tensor.double() if tensor.dtype == torch.int32 else tensor
           for name, tensor in _named(tensors, "own.").items()}  # fmt: skip
    sent = tuple(Sent(tuple(one["tensors"]), int(one["messages"]), int(one["bytes"]))
                 for one in about.get("sent", ()))  # fmt: skip
    return SavedRun(
        federation=Federation(data, part, saved.encoder, table, about["seed"]),
        algorithm=saved.algorithm,
        network=saved.network,
        fitted=Fitted(tensors["w"], tensors["theta"], rules, server, own, sent),
        seed=about["seed"],
        seconds=float("nan"),
        folder=saved.folder,
        card=about,
        memory=memory,
    )


def _named(tensors: Mapping[str, Tensor], mark: str) -> dict[str, Tensor]:
    return {name[len(mark) :]: t for name, t in tensors.items() if name.startswith(mark)}
