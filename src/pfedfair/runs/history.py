"""The learning curve: loss, accuracy and gap of the global model on training rows, by round.

It reads no test rows and draws no random numbers: weights are the same with and without it.
"""

from collections.abc import Mapping, Sequence
from math import ceil

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pfedfair import metrics
from pfedfair.data.task import outputs
from pfedfair.federation import Federation
from pfedfair.methods import Method
from pfedfair.methods.newton.likelihood import loss_of
from pfedfair.methods.phases import total_rounds
from pfedfair.metrics.criteria import CRITERIA
from pfedfair.models import Network
from pfedfair.runs.predictor import ROWS_AT_ONCE

APART = 8.0  # gradients of every row between two measurements: below a tenth of the time
POINTS = 25  # of a curve, about
IMAGES_AT_ONCE = 256
LINEAR = 8  # times as many rows at once, for a model without hidden layers


def measured_rounds(algorithm: Method, every: int | None = None) -> set[int]:
    """Return the rounds, from 1, after which the global model is measured.

    They are the first and the last one that trains, and every `every`-th between; by default so
    many that measuring takes less than a tenth of the time. If `every` is 0, there are none.
    """
    rounds = total_rounds([phase for phase in algorithm.phases if phase.trains])
    if every == 0 or rounds < 1:
        return set()
    work = algorithm.cost().per_round
    every = every or max(1, ceil(APART / max(work, 0.1)), rounds // POINTS)
    return {1, rounds, *range(every, rounds + 1, every)}


class Measure:
    """Measure loss, accuracy and gap of a global model on training rows, as means over clients."""

    def __init__(self, federation: Federation, network: Network, criterion: str) -> None:
        self.federation, self.network, self.criterion = federation, network, criterion
        table, task = federation.table, federation.table.task
        self.pieces = _pieces(federation.partition.train, network)
        rows = torch.cat(self.pieces)
        self.client = np.repeat(np.arange(len(federation)), federation.sizes)
        self.y, group = table.y[rows], table.s[rows].numpy()
        label = self.y.long().numpy()
        self.cell = ((self.client * task.groups + group) * task.classes + label) * task.classes

    def __call__(self, w: Tensor) -> dict[str, float]:
        """Measure the model `w`."""
        table, task = self.federation.table, self.federation.table.task
        x, s, encoder = table.x, table.s, table.encoder
        scores = [self.network.scores(w, x[k], s[k], encoder).detach() for k in self.pieces]
        logits = torch.cat(scores)[:, : outputs(task.classes)]
        decided = logits.argmax(1) if logits.shape[1] > 1 else (logits[:, 0] > 0).long()
        shape = (len(self.federation), task.groups, task.classes, task.classes)
        cell = self.cell + decided.numpy()
        counts = np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape)
        row_loss = loss_of(logits[None], self.y)[0].numpy()
        loss = np.bincount(self.client, row_loss) / self.federation.sizes
        return {"loss": float(loss.mean()), **means(counts, self.criterion)}


def _pieces(clients: Sequence[np.ndarray], network: Network) -> list[Tensor]:
    """Return all clients' rows in order, in pieces; no piece spans clients if unbatched."""
    most = IMAGES_AT_ONCE if network.unbatched else ROWS_AT_ONCE
    most *= LINEAR if network.linear else 1
    pieces: list[np.ndarray] = []
    for rows in clients if network.unbatched else [np.concatenate(clients)]:
        pieces += np.array_split(rows, ceil(len(rows) / most))
    return [torch.from_numpy(rows) for rows in pieces]


def means(counts: np.ndarray, criterion: str) -> dict[str, float]:
    """Return accuracy and gap of counts ``(clients, S, Y, Yhat)``, each the mean over clients."""
    gap, measured = CRITERIA[criterion].measure, metrics.measure(counts)
    known = measured[gap][~np.isnan(measured[gap])]  # a client with one group has no gap
    return {
        "accuracy": float(measured["accuracy"].mean()),
        gap: float(known.mean()) if len(known) else float("nan"),
    }


def frame(
    curve: Sequence[Mapping[str, float]], end: Mapping[str, float], algorithm: Method
) -> pd.DataFrame:
    """Return a row for the global model after each round, and one for the clients' final models."""
    gap = CRITERIA[algorithm.criterion].measure
    last = {"round": total_rounds(algorithm.phases), "model": "clients'", **end}
    rows = [{"model": "global", **row} for row in curve] + [last]
    return pd.DataFrame(rows, columns=["round", "model", "loss", "accuracy", gap])
