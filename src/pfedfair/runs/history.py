"""The learning curve: how the global model does on the training rows, while it is trained.

Test rows are not looked at, and no random number is drawn: weights are the same with and without.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pfedfair import metrics
from pfedfair.algorithms import Algorithm
from pfedfair.criteria import CRITERIA
from pfedfair.federation import Batch, Federation
from pfedfair.kinds import outputs
from pfedfair.networks import Network
from pfedfair.objectives import losses
from pfedfair.runs.predictor import ROWS_AT_ONCE

APART = 8.0  # gradients of every row between two measurements: below a tenth of the time
POINTS = 25  # of a curve, about
IMAGES_AT_ONCE = 256
KEPT = 64 * 2**20  # bytes of all inputs that are kept laid out


def measured_rounds(algorithm: Algorithm, every: int | None = None) -> set[int]:
    """The rounds, from 1, after which the global model is measured; it is before the first, too.

    Every so many, the first and the last one that trains; by default so many that it takes less
    than a tenth of the time. With 0 none.
    """
    rounds = algorithm.rounds - algorithm.closing if algorithm.federated else 0
    if every == 0 or rounds < 1:
        return set()
    work, _ = algorithm.cost()
    every = every or max(1, ceil(APART / max(work, 0.1)), rounds // POINTS)
    return {1, rounds, *range(every, rounds + 1, every)}


class Measure:
    """Loss, accuracy and gap of a global model on training rows, each the mean over clients."""

    def __init__(self, federation: Federation, network: Network, criterion: str) -> None:
        self.federation, self.network, self.criterion = federation, network, criterion
        table, kinds = federation.table, federation.table.kinds
        rows = np.concatenate(federation.partition.train)
        self.client = np.repeat(np.arange(len(federation)), federation.sizes)
        label, group = table.y.numpy()[rows].astype(np.int64), table.s.numpy()[rows]
        self.cell = ((self.client * kinds.groups + group) * kinds.classes + label) * kinds.classes
        self.kept: list[Batch] | None = [] if 4 * table.width * len(rows) <= KEPT else None

    def __call__(self, w: Tensor) -> dict[str, float]:
        """Measure the model `w`."""
        kinds = self.federation.table.kinds
        wide, lost, decided = outputs(kinds.classes), [], []
        for some in self.people():
            logits = self.network.logits(w[None], some.x, some.s)[..., :wide].detach()
            lost.append(losses(logits, some)[0].numpy())
            best = logits[0].argmax(1) if wide > 1 else (logits[0, :, 0] > 0).long()
            decided.append(best.numpy())
        shape = (len(self.federation), kinds.groups, kinds.classes, kinds.classes)
        cell = self.cell + np.concatenate(decided)
        counts = np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape)
        loss = np.bincount(self.client, np.concatenate(lost)) / self.federation.sizes
        return {"loss": float(loss.mean()), **means(counts, self.criterion)}

    def people(self) -> Iterator[Batch]:
        """All clients' rows in order, some at a time; inputs of a small table are kept."""
        if self.kept:
            yield from self.kept
            return
        table = self.federation.table
        for piece in _pieces(self.federation.partition.train, self.network):
            some = torch.from_numpy(piece)
            x, y, s = table.inputs(some)[None], table.y[some][None], table.s[some][None]
            if self.kept is not None:
                self.kept.append(Batch(x, y, s, y))
            yield Batch(x, y, s, y)


def _pieces(clients: Sequence[np.ndarray], network: Network) -> Iterator[np.ndarray]:
    """All clients' rows in order, some at a time; a client's alone where people are not apart."""
    most = IMAGES_AT_ONCE if network.alone else ROWS_AT_ONCE
    for rows in clients if network.alone else [np.concatenate(clients)]:
        yield from np.array_split(rows, ceil(len(rows) / most))


def means(counts: np.ndarray, criterion: str) -> dict[str, float]:
    """Accuracy and gap of counts ``(clients, S, Y, Yhat)``, each the mean over clients."""
    gap, found = CRITERIA[criterion].measure, metrics.measure(counts)
    known = found[gap][~np.isnan(found[gap])]  # a client with one group has no gap
    return {
        "accuracy": float(found["accuracy"].mean()),
        gap: float(known.mean()) if len(known) else float("nan"),
    }


def frame(
    curve: Sequence[Mapping[str, float]], end: Mapping[str, float], algorithm: Algorithm
) -> pd.DataFrame:
    """Rows for the global model after rounds, and one for what the clients have at the end."""
    gap = CRITERIA[algorithm.criterion].measure
    last = {"round": algorithm.rounds if algorithm.federated else 0, "model": "clients'", **end}
    rows = [{"model": "global", **row} for row in curve] + [last]
    return pd.DataFrame(rows, columns=["round", "model", "loss", "accuracy", gap])
