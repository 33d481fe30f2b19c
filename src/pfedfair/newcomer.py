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
from pfedfair.networks import Kinds, Lookup, Thresholds


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
    if kind != "Transport" or not isinstance(network, Thresholds | Lookup):
        raise InputError(f"{folder} holds a model of {kind}: only transport takes in new clients.")
    columns = about["sensitive_column"].split(",")
    absent = [column for column in columns if column not in people]
    if absent:
        raise InputError(f"The rows lack the column '{absent[0]}', the sensitive attribute.")
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
    s = model.codes(people[columns])
    if len(s) == 0:
        raise InputError("There are no rows to make a model for.")
    kinds = Kinds(len(model.group_names), len(model.label_names), encoder.sensitive_as_input)
    x = torch.from_numpy(encoder.transform(people, s if kinds.aware else None))
    place = algorithm.place(network, model.theta, x, kinds).numpy()
    counts = np.zeros((kinds.groups, algorithm.cells(kinds).number))
    np.add.at(counts, (s, place), 1.0)
    shares = np.bincount(s, minlength=kinds.groups) / len(s)
    server = {key[len("server.") :]: value for key, value in tensors.items() if "." in key}
    server["counts"] = server["counts"].clamp(min=0)  # noise may go below 0
    rng = seeds.generator(about["seed"], seeds.GUARANTEE)
    rule = algorithm.solve(server, counts, shares, rng, kinds)
    model.theta[-len(rule) :] = torch.from_numpy(rule).to(model.theta)
    if out is not None:
        kept = {key: value for key, value in tensors.items() if key != "theta"}
        about |= {"clients": [name], "algorithm": {"name": kind, **settings, **changes}}
        write_model(Path(out), network, encoder, kept | {"theta": model.theta[None]}, about)
    return model


def rates(model: PersonalModel, people: pd.DataFrame, sensitive: str) -> pd.DataFrame:
    """Rows, and the rate of every decision, of each group."""
    given = people[sensitive.split(",")]
    s = model.codes(given)
    decided = model.predict(people, given, random_state=0)
    rows = np.bincount(s, minlength=len(model.group_names))
    table = pd.DataFrame({"group": model.group_names, "rows": rows})
    for c, label in enumerate(model.label_names):
        with np.errstate(invalid="ignore"):
            table[label] = np.bincount(s[decided == c], minlength=len(rows)) / rows
    return table
