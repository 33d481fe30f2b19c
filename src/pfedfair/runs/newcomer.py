"""A client that was not there when the model was trained gets its own fair rule.

Methods whose rules need nothing of a client but its people's scores and groups can do that: no
labels, no training.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from pfedfair._util import seeds
from pfedfair._util.errors import InputError
from pfedfair.data.tables.aliases import sensitive_of
from pfedfair.runs import draws
from pfedfair.runs.model import PersonalModel, pack, read_model, write_model

# What a new client's card has of the run's.
FROM_RUN = ("dataset", "group_names", "label_names", "sensitive_column", "positive", "columns",
        "values", "seed", "data", "versions")  # fmt: skip


def personalise(
    folder: str | Path,
    people: pd.DataFrame,
    name: str = "newcomer",
    out: str | Path | None = None,
    module: nn.Module | None = None,
    **changes: Any,
) -> PersonalModel:
    """Make a client's model from a run of such a method and the client's own, unlabelled rows.

    Parameters
    ----------
    folder
        Where `Run.save` wrote the run.
    people
        The client's rows, with the columns that the model was trained on and S.
    out
        Where to keep the model; `load_model(out, name)` reads it.
    module
        The same torch module, if the run's network is one; see `load_model`.
    changes
        Another ``target_ddp`` or ``confidence`` than the run's.
    """
    saved = read_model(Path(folder), module)
    algorithm = saved.algorithm.retarget(**changes) if changes else saved.algorithm
    model = saved.model(saved.tensors["w"].clone())
    given = sensitive_of(people, saved.about["sensitive_column"], model.group_names)
    s = torch.from_numpy(model.codes(given))
    if len(s) == 0:
        raise InputError("There are no rows to make a model for.")
    x = torch.from_numpy(pack(saved.encoder, people))
    server = {at[len("server.") :]: value for at, value in saved.tensors.items()
              if at.startswith("server.")} | {"w": saved.tensors["w"]}  # fmt: skip
    rng = seeds.generator(saved.about["seed"], seeds.GUARANTEE)
    logits = model.predictor.logits(x, s, saved.encoder.unpack)
    rule = algorithm.newcomer(server, logits, s, rng, saved.task)
    key = draws.of_client(model.key, name)
    model = replace(saved.model(model.predictor.theta, rule, name), key=key)
    if out is not None:
        kept = {
            at: value
            for at, value in saved.tensors.items()
            if at == "w" or at.startswith("server.")
        }  # nothing of other clients
        about = {what: saved.about[what] for what in FROM_RUN if what in saved.about}
        about |= {"clients": [name], "algorithm": algorithm.to_dict(), "key": key.hex()}
        write_model(
            Path(out), saved.network, saved.encoder, saved.task, [rule],
            kept | {"theta": model.predictor.theta[None]}, about,
        )  # fmt: skip
    return model


def rates(model: PersonalModel, people: pd.DataFrame, sensitive: str) -> pd.DataFrame:
    """Rows, and the rate of every decision, of each group."""
    given = sensitive_of(people, sensitive, model.group_names)
    s = model.codes(given)
    decided = model.decide(people, given, random_state=0)
    rows = np.bincount(s, minlength=len(model.group_names))
    table = pd.DataFrame({"group": model.group_names, "rows": rows})
    for c, label in enumerate(model.label_names):
        with np.errstate(invalid="ignore"):
            table[label] = np.bincount(s[decided == c], minlength=len(rows)) / rows
    return table
