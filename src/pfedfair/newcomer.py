"""A client that was not there when the model was trained gets its own fair rule.

`Transport` needs nothing of a client but its people's scores and groups: no labels, no training.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from pfedfair import seeds
from pfedfair.algorithms import Transport
from pfedfair.errors import InputError
from pfedfair.model import PersonalModel, read_model, write_model
from pfedfair.networks import RULE, Thresholds


def personalise(
    folder: str | Path,
    people: pd.DataFrame,
    name: str = "newcomer",
    out: str | Path | None = None,
    **changes: Any,
) -> PersonalModel:
    """Make a client's model from a run of `transport` and the client's own, unlabelled rows.

    Parameters
    ----------
    folder
        Where `Run.save` wrote the run.
    people
        The client's rows, with the columns that the model was trained on and S.
    out
        Where to keep the model; `load_model(out, name)` reads it.
    changes
        Another ``target_ddp`` or ``confidence`` than the run's.
    """
    network, encoder, tensors, about = read_model(Path(folder))
    settings = dict(about["algorithm"])
    kind = settings.pop("name")
    if kind != "Transport" or not isinstance(network, Thresholds):
        raise InputError(f"{folder} holds a model of {kind}: only transport takes in new clients.")
    column = about["sensitive_column"]
    if column not in people:
        raise InputError(f"The rows lack the column '{column}', the sensitive attribute.")
    known = {field.name for field in fields(Transport)}
    given = {key: value for key, value in settings.items() if key in known}
    given["penalty_options"] = tuple(map(tuple, given["penalty_options"]))
    algorithm = Transport(**given).change(**changes)
    model = PersonalModel(
        network=network,
        encoder=encoder,
        theta=tensors["w"].clone(),
        group_names=tuple(about["group_names"]),
        label_names=tuple(about["label_names"]),
    )
    s = model.codes(people[column])
    if len(s) == 0:
        raise InputError("There are no rows to make a model for.")
    place = algorithm.bins_of(network, model.theta, torch.from_numpy(encoder.transform(people, s)))
    counts = np.zeros((2, algorithm.bins))
    np.add.at(counts, (s, place.numpy()), 1.0)
    server = {key[len("server.") :]: value for key, value in tensors.items() if "." in key}
    rng = seeds.generator(about["seed"], seeds.GUARANTEE)
    rule = algorithm.solve(server, counts, float(s.mean()), rng)
    model.theta[-RULE:] = torch.from_numpy(rule).to(model.theta)
    if out is not None:
        kept = {key: value for key, value in tensors.items() if key != "theta"}
        about |= {"clients": [name], "algorithm": {"name": kind, **settings, **changes}}
        write_model(Path(out), network, encoder, kept | {"theta": model.theta[None]}, about)
    return model


def rates(model: PersonalModel, people: pd.DataFrame, sensitive: str) -> pd.DataFrame:
    """Rows and rate of positive decisions of both groups, by the code of S."""
    s = model.codes(people[sensitive])
    positive = model.predict(people, people[sensitive], random_state=0)
    return pd.DataFrame(
        {
            "rows": np.bincount(s, minlength=2),
            "rate": [positive[s == z].mean() if (s == z).any() else float("nan") for z in (0, 1)],
        }
    )
