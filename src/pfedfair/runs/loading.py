"""Load a run from its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from pfedfair._util.errors import InputError
from pfedfair.data import Dataset
from pfedfair.data.tables.bands import check_bands
from pfedfair.engines.local import Fitted, Sent
from pfedfair.federation import Federation, Table
from pfedfair.partition import Partition
from pfedfair.runs.model import RUN_FORMATS, Saved, damage, read_model
from pfedfair.runs.predictions import StoredScores
from pfedfair.runs.run import Loaded, Run


def load_run(folder: str | Path, module: nn.Module | None = None) -> Run:
    """Read a run from the folder that `Run.save` or the command train wrote.

    It supports what the trained run does: `table`, `rules`, `retarget`, `shapes`,
    `personal_model`, `global_model`, `seed`, `algorithm`, `card`. Rows are not stored, so what
    needs them is refused: `frontier`, where clients have personal models, and `save`.

    Parameters
    ----------
    module
        The same torch module, if the run's network is one; see `load_model`.
    """
    folder = Path(folder)
    saved = read_model(folder, module)
    if saved.about["format"] not in RUN_FORMATS:
        raise InputError(
            f"{folder} was written by an older version of pfedfair: its models can be loaded "
            "(load_model), the whole run cannot; train again."
        )
    if not saved.clients:
        raise InputError(f"{folder} has a global model and no clients: it is not a whole run.")
    with damage(folder / "run.json"):
        return _run_of(saved)


def _run_of(saved: Saved) -> Run:
    about = saved.about
    names = tuple(about["label_names"]), tuple(about["group_names"])
    shared = bool(about["shared_conditional"])
    scores = StoredScores.read(saved.folder, saved.clients, *names, shared)
    data = Dataset(
        about["dataset"], pd.DataFrame(index=range(len(scores.y))), scores.y, scores.s, (), {},
        *names, about["columns"]["label"], about["sensitive_column"], aware=saved.task.aware,
        inputs=about["data"]["inputs"], weight=scores.weight,
        bands=check_bands(about.get("bands")),
        without_sensitive=(without := int(about["data"].get("without_sensitive", 0))),
        table_rows=int(about["data"]["rows"]) + without,
    )  # fmt: skip
    part = Partition(
        data, scores.train, scores.validation, scores.test, scores.pool, tuple(saved.clients),
        shared, about["columns"]["client"],
    )  # fmt: skip
    y, s = torch.from_numpy(scores.y.astype(np.float32)), torch.from_numpy(scores.s)
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
    return Run(
        federation=Federation(data, part, saved.encoder, table, about["seed"]),
        algorithm=saved.algorithm,
        network=saved.network,
        fitted=Fitted(tensors["w"], tensors["theta"], rules, server, own, sent),
        seed=about["seed"],
        seconds=float("nan"),
        logits=scores.logits,
        loaded=Loaded(saved.folder, about),
    )


def _named(tensors: Mapping[str, Tensor], mark: str) -> dict[str, Tensor]:
    return {name[len(mark) :]: t for name, t in tensors.items() if name.startswith(mark)}
