"""Everybody's score and decision, kept with a run: ``predictions.parquet``.

The rows of the table itself are not kept: a person is a number, the row's in the table that was
trained on, from 0. From the scores all measures follow, for another target too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pfedfair import seeds
from pfedfair.errors import InputError
from pfedfair.federation import Federation
from pfedfair.files import read_parquet
from pfedfair.kinds import outputs
from pfedfair.networks import probabilities
from pfedfair.partition import Partition
from pfedfair.runs.predictor import Predictor, Unpack

NAME = "predictions.parquet"
LOGIT = "logit"  # columns of a network's outputs begin with it
OWN = TRAIN, VALIDATION, TEST = ("train", "validation", "test")
OTHERS = POOL, TUNING = ("pool", "validation of others")  # that measure a client, weighted
SPLITS = (*OWN, *OTHERS)
LARGEST = 10_000_000  # rows of all clients on everybody's held-out rows; more are not kept


def splits(part: Partition, i: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """A client's rows, in parts that are scored together, and what each row is to it.

    Where everybody's held-out rows measure a client, its test rows are among them.
    """
    train, check, test = part.train[i], part.validation[i], part.test[i]
    everybody = [np.concatenate(part.validation), part.pool]
    tuning, pool = check, test
    if part.shared_conditional and sum(map(len, everybody)) * len(part.names) <= LARGEST:
        tuning, pool = everybody
    for rows, own, name, other in (
        (train, train, TRAIN, TRAIN), (tuning, check, VALIDATION, TUNING), (pool, test, TEST, POOL)
    ):  # fmt: skip
        if len(rows):
            yield rows, np.where(np.isin(rows, own), name, other).astype(object)


def frame_of(predictors: Sequence[Predictor], federation: Federation, seed: int) -> pd.DataFrame:
    """A row for each client and person: whose it is, the score, the decision and its chance."""
    part, data, table = federation.partition, federation.data, federation.table
    found = []
    for i, predictor in enumerate(predictors):
        for rows, names in splits(part, i):
            at = torch.from_numpy(rows)
            s = table.s[at]
            z = predictor.logits(table.x[at], s, table.unpack)
            rng = seeds.generator(seed, seeds.TIES, i)  # as `count`
            decided = predictor.rule.decide(z, s, rng)
            chance = predictor.rule.lots(z, s).double().gather(1, decided[:, None])[:, 0]
            part_of = pd.DataFrame({"row": rows, "client": i, "split": names})
            part_of["label"] = table.y[at].long().numpy()
            part_of["group"], part_of["decision"] = s.numpy(), decided.numpy()
            part_of["chance"] = chance.numpy()
            if (weight := getattr(data, "weight", None)) is not None:
                part_of["weight"] = weight[rows]
            columns = scores(z, data.label_names)
            columns |= {f"{LOGIT} {k}": z[:, k].numpy() for k in range(z.shape[1])}
            found.append(part_of.assign(**columns))
    frame = pd.concat(found, ignore_index=True)
    words = {"client": part.names, "label": data.label_names, "group": data.group_names,
             "decision": data.label_names}  # fmt: skip
    for column, known in words.items():
        codes = frame[column].to_numpy(np.int64)
        frame[column] = pd.Categorical.from_codes(codes, pd.Index(list(known)))
    frame["split"] = pd.Categorical(frame["split"], SPLITS)
    return frame


def scores(logits: Tensor, labels: Sequence[str]) -> dict[str, np.ndarray]:
    """The model's chance of the second label; of more than two, of each, in columns of its own."""
    p = probabilities(logits[:, : outputs(len(labels))].double()).numpy()
    if len(labels) == 2:
        return {"score": p[:, 1]}
    return {f"score {label}": p[:, c] for c, label in enumerate(labels)}


@dataclass(frozen=True, eq=False)
class Remembered(Predictor):
    """A client's predictor where nothing but scores is left of people: their inputs are numbers.

    Attributes
    ----------
    rows, kept
        Numbers of people in order, and their logits.
    """

    rows: Tensor
    kept: Tensor

    def logits(self, x: Tensor, s: Tensor, unpack: Unpack = Tensor.float) -> Tensor:
        place = torch.searchsorted(self.rows, x).clamp(max=len(self.rows) - 1)
        if not torch.equal(self.rows[place], x):
            raise InputError("The run did not keep the scores of these rows: train again.")
        return self.kept[place]


@dataclass(frozen=True, eq=False)
class Memory:
    """What `frame_of` told of people: their rows, labels, groups, and every client's logits."""

    train: tuple[np.ndarray, ...]
    validation: tuple[np.ndarray, ...]
    test: tuple[np.ndarray, ...]
    pool: np.ndarray
    y: np.ndarray
    s: np.ndarray
    logits: tuple[tuple[Tensor, Tensor], ...]
    weight: np.ndarray | None = None  # of each row, if rows have weights

    @classmethod
    def read(cls, folder: Path, clients: Sequence[str], labels: Sequence[str],
             groups: Sequence[str], shared: bool) -> "Memory":  # fmt: skip
        path = folder / NAME
        if not path.exists():
            raise InputError(f"{folder} has no {NAME}: it was not kept whole; train again.")
        frame = read_parquet(path)
        names = {"client": clients, "label": labels, "group": groups, "split": SPLITS}
        for column in ("row", *names):
            if column not in frame:
                raise InputError(f"{path} has no column '{column}': train again.")
        codes = {c: pd.Index(list(known)).get_indexer(pd.Index(frame[c].astype(object)))
                 for c, known in names.items()}  # fmt: skip
        z = frame[[c for c in map(str, frame) if c.startswith(f"{LOGIT} ")]].to_numpy(np.float32)
        odd = any((found < 0).any() for found in codes.values()) or not np.isfinite(z).all()
        numbered = frame["row"].dtype.kind in "iu" and len(frame) and frame["row"].min() >= 0
        if odd or not numbered or not z.shape[1]:
            raise InputError(f"{path} does not belong to the model beside it: train again.")
        rows = frame["row"].to_numpy(np.int64)
        y, s = (np.zeros(rows.max() + 1, dtype=np.int64) for _ in range(2))
        y[rows], s[rows] = codes["label"], codes["group"]
        owner, split = codes["client"], codes["split"]
        parts: list[list[np.ndarray]] = [[], [], []]
        logits, pool = [], np.zeros(0, dtype=np.int64)
        for i in range(len(clients)):
            mine = owner == i
            for k, found in enumerate(parts):
                found.append(rows[mine & (split == k)])
            order = np.flatnonzero(mine)
            order = order[np.argsort(rows[order], kind="stable")]
            logits.append((torch.from_numpy(rows[order]), torch.from_numpy(z[order])))
        if not shared:
            pool = np.sort(np.concatenate(parts[2]))
        elif (split == SPLITS.index(POOL)).any():
            held = np.isin(split, [SPLITS.index(TEST), SPLITS.index(POOL)])
            pool = rows[(owner == 0) & held]
        train, validation, test = map(tuple, parts)
        weight = np.zeros(len(y)) if "weight" in frame else None
        if weight is not None:
            weight[rows] = frame["weight"]
        return cls(train, validation, test, pool, y, s, tuple(logits), weight)
