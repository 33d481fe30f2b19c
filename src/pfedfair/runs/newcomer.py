"""Make a fair rule for a client that was not in training.

Methods whose rules need only the scores and groups of a client's rows support this: it takes no
labels and no training.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from pfedfair._util import seeds
from pfedfair._util.errors import InputError
from pfedfair.data.tables.aliases import select_sensitive
from pfedfair.data.task import Task
from pfedfair.methods import Method, State
from pfedfair.rules import Rule
from pfedfair.runs import certification, draws
from pfedfair.runs.model import PersonalModel, read_model, write_model

# The fields of the run's card that a new client's card has.
FROM_RUN = ("dataset", "group_names", "label_names", "sensitive_column", "bands", "positive",
            "columns", "formats", "values", "seed", "data", "versions")  # fmt: skip


def personalise(
    folder: str | Path,
    rows: pd.DataFrame,
    name: str = "newcomer",
    out: str | Path | None = None,
    module: nn.Module | None = None,
    certify: bool = False,
    **changes: Any,
) -> PersonalModel:
    """Make a client's model from a run of such a method and the client's unlabelled rows.

    Parameters
    ----------
    folder
        Where `Run.save` wrote the run.
    rows
        The client's rows, with the columns that the model was trained on and S.
    out
        Folder for the model; `load_model(out, name)` reads it.
    module
        The same torch module, if the run's network is one; see `load_model`.
    certify
        Whether to certify the rule, for this client only; rows that are too few are refused. None
        of them may have been in training.
    changes
        Another ``target_ddp`` or ``confidence`` than the run's.
    """
    saved = read_model(Path(folder), module)
    algorithm = saved.algorithm.retarget(**changes) if changes else saved.algorithm
    model = saved.model(saved.tensors["w"].clone())
    given = select_sensitive(rows, saved.about["sensitive_column"], model.group_names)
    s = torch.from_numpy(model.codes(given))
    if len(s) == 0:
        raise InputError("There are no rows to make a model for.")
    x = torch.from_numpy(model.pack(rows))
    server = {at[len("server.") :]: value for at, value in saved.tensors.items()
              if at.startswith("server.")} | {"w": saved.tensors["w"]}  # fmt: skip
    rng = seeds.generator(saved.about["seed"], seeds.GUARANTEE)
    logits = model.predictor.logits(x, s, saved.encoder)
    if certify:
        rule = _certified(algorithm, saved.task, server, logits, s)
    else:
        rule = algorithm.newcomer(server, logits, s, rng, saved.task)
    key = draws.of_client(saved.key, name)
    model = saved.model(model.predictor.theta, rule, name).with_key(key)
    if out is not None:
        of_server = {
            name: tensor
            for name, tensor in saved.tensors.items()
            if name == "w" or name.startswith("server.")
        }  # nothing of other clients
        about = {what: saved.about[what] for what in FROM_RUN if what in saved.about}
        about |= {"clients": [name], "algorithm": algorithm.to_dict(), "key": key.hex()}
        write_model(
            Path(out), saved.network, saved.encoder, saved.task, [rule],
            of_server | {"theta": model.predictor.theta[None]}, about,
        )  # fmt: skip
    return model


def _certified(algorithm: Method, task: Task, server: State, logits: Tensor, s: Tensor) -> Rule:
    """Return a certified rule; refuse rows that do not allow one."""
    certification.check(algorithm, task)
    scores = [np.sort(logits[s == z, 0].numpy()) for z in (0, 1)]
    shares = np.array([len(of_group) / len(s) for of_group in scores])
    level = certification.error_of(algorithm)
    rule, facts = certification.certified_rule(algorithm, server, shares, scores, level)
    if rule is None:
        more = facts["certificate_rows"] - len(s)
        why = "they are of one group only"
        if np.isfinite(more):
            why = f"about {max(float(f'{more:.2g}'), 1):,.0f} more would do"
        raise InputError(f"These rows do not certify the target: {why}.")
    rule.facts = facts
    return rule


def rates(model: PersonalModel, rows: pd.DataFrame, sensitive: str) -> pd.DataFrame:
    """Return each group's number of rows and its rate of every decision."""
    given = select_sensitive(rows, sensitive, model.group_names)
    s = model.codes(given)
    decided = model.decide(rows, given, random_state=0)
    counts = np.bincount(s, minlength=len(model.group_names))
    table = pd.DataFrame({"group": model.group_names, "rows": counts})
    for c, label in enumerate(model.label_names):
        with np.errstate(invalid="ignore"):
            table[label] = np.bincount(s[decided == c], minlength=len(counts)) / counts
    return table
