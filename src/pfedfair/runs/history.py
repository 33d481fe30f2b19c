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


def measure(
    federation: Federation, network: Network, w: Tensor, criterion: str
) -> dict[str, float]:
    """Loss, accuracy and gap of the model `w` on training rows, each the mean over clients."""
    table, part = federation.table, federation.partition
    kinds, wide = table.kinds, outputs(table.kinds.classes)
    lost, decided = [], []
    for piece in _pieces(part.train, network):
        some = torch.from_numpy(piece)
        x, y, s = table.inputs(some)[None], table.y[some][None], table.s[some][None]
        logits = network.logits(w[None], x, s)[..., :wide].detach()
        lost.append(losses(logits, Batch(x, y, s, y))[0].numpy())
        best = logits[0].argmax(1) if wide > 1 else (logits[0, :, 0] > 0).long()
        decided.append(best.numpy())
    rows = np.concatenate(part.train)
    client = np.repeat(np.arange(len(federation)), federation.sizes)
    label, group = table.y.numpy()[rows].astype(np.int64), table.s.numpy()[rows]
    cell = ((client * kinds.groups + group) * kinds.classes + label) * kinds.classes
    cell += np.concatenate(decided)
    shape = (len(federation), kinds.groups, kinds.classes, kinds.classes)
    counts = np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape)
    loss = np.bincount(client, np.concatenate(lost)) / federation.sizes
    return {"loss": float(loss.mean()), **means(counts, criterion)}


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
