"""Scores and decisions of all rows of a run: ``predictions.parquet``.

The table itself is not stored: a row is its number in the training table, from 0. From the scores
all measures can be computed, for another target too.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pfedfair._util.errors import InputError
from pfedfair._util.files import read_parquet
from pfedfair.data.tables.encoder import Inputs
from pfedfair.data.task import outputs
from pfedfair.federation import Federation, Table
from pfedfair.models import probabilities
from pfedfair.partition import Partition
from pfedfair.runs.predictor import Predictor, scored

NAME = "predictions.parquet"
LOGIT = "logit"  # columns of a network's outputs begin with it
OWN = TRAIN, VALIDATION, TEST = ("train", "validation", "test")
OTHERS = POOL, TUNING = ("pool", "validation of others")  # other clients' rows, weighted
SPLITS = (*OWN, *OTHERS)
LARGEST = 10_000_000  # held-out rows times clients; more are not stored


def splits(part: Partition) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield a client's number, rows to score in one pass, and numbers of `SPLITS`.

    Where all clients' held-out rows measure a client, its test rows are among them.
    """
    tuning, pool = part.validation, part.test
    of_all = [np.concatenate(part.validation), part.pool]
    clients = len(part.names)
    if part.shared_conditional and is_storable(part):
        tuning, pool = ((rows,) * clients for rows in of_all)
    for i, train in enumerate(part.train):
        for rows, own, name, other in (
            (train, train, TRAIN, TRAIN), (tuning[i], part.validation[i], VALIDATION, TUNING),
            (pool[i], part.test[i], TEST, POOL),
        ):  # fmt: skip
            if len(rows):
                is_own = rows is own or np.isin(rows, own)
                codes = np.where(is_own, SPLITS.index(name), SPLITS.index(other))
                yield i, rows, np.full(len(rows), codes)


def is_storable(part: Partition) -> bool:
    """Return whether the scores of all rows that measure a client are few enough to store."""
    held_out = sum(map(len, part.validation)) + len(part.pool)
    return not part.shared_conditional or held_out * len(part.names) <= LARGEST


Scored = tuple[Tensor, Tensor, Tensor | None]  # rows, logits and, where needed, random draws


def score(predictors: Sequence[Predictor], part: Partition, table: Table) -> list[Scored]:
    """Return the numbers of every client's rows in order, their logits and random draws."""
    drawn = draws_of(predictors, part, table)
    parts = [(i, rows) for i, rows, _ in splits(part)]
    logits_of = scored([predictors[i] for i, _ in parts], table, [rows for _, rows in parts])
    rows: list[list[Tensor]] = [[] for _ in predictors]
    logits: list[list[Tensor]] = [[] for _ in predictors]
    for (i, own), z in zip(parts, logits_of, strict=True):
        rows[i].append(torch.from_numpy(own))
        logits[i].append(z)
    ordered: list[Scored] = []
    each = zip(map(torch.cat, rows), map(torch.cat, logits), strict=True)
    for i, (numbers, z) in enumerate(each):
        order = numbers.argsort(stable=True)
        ordered.append((numbers[order], z[order], drawn[i]))
    return ordered


def draws_of(predictors: Sequence[Predictor], part: Partition, table: Table) -> list[Tensor | None]:
    """Return random draws of every client's rows in order; None for a rule that draws nothing."""
    found: list[Tensor | None] = []
    for one, rows in zip(predictors, rows_of(part), strict=True):
        draws = one.draws(table.x, table.s, rows) if one.rule.draws else None
        found.append(None if draws is None else torch.from_numpy(draws))
    return found


def rows_of(part: Partition) -> list[np.ndarray]:
    """Return the numbers of every client's rows in order."""
    rows: list[list[np.ndarray]] = [[] for _ in part.names]
    for i, own, _ in splits(part):
        rows[i].append(own)
    return [np.sort(np.concatenate(own)) for own in rows]


def frame_of(
    predictors: Sequence[Predictor],
    federation: Federation,
    draw_of: Callable[[int, np.ndarray], np.ndarray],
) -> pd.DataFrame:
    """Return scores, decision and chance for each client and row; and draws, if there are any.

    `draw_of` returns a client's draws of rows.
    """
    data, table = federation.data, federation.table
    parts = list(splits(federation.partition))
    rows = [own for _, own, _ in parts]
    predictor_of = [predictors[i] for i, _, _ in parts]
    logits, decisions, chances, draws = [], [], [], []
    drawn = any(one.rule.draws for one in predictors)
    for (i, own, _), z in zip(parts, scored(predictor_of, table, rows), strict=True):
        draw = draw_of(i, own) if predictors[i].rule.draws else np.zeros(len(own))
        s = table.s[torch.from_numpy(own)]
        decided, chance = predictors[i].decide_scored(z, s, draw.__getitem__)
        logits.append(z)
        decisions.append(decided)
        chances.append(chance)
        draws.append(draw)
    row, z = np.concatenate(rows), torch.cat(logits)
    owner = np.repeat([i for i, _, _ in parts], [len(own) for own in rows])
    codes = {
        "client": (owner, federation.partition.names),
        "split": (np.concatenate([split for _, _, split in parts]), SPLITS),
        "label": (table.y.numpy()[row].astype(np.int64), data.label_names),
        "group": (table.s.numpy()[row], data.group_names),
        "decision": (torch.cat(decisions).numpy(), data.label_names),
    }
    columns: dict[str, Any] = {"row": row if data.rows is None else data.rows[row]}
    for name, (code, words) in codes.items():
        columns[name] = pd.Categorical.from_codes(code, pd.Index(list(words)))
    columns["chance"] = torch.cat(chances).numpy()
    if drawn:
        columns["draw"] = np.concatenate(draws)
    if data.weight is not None:
        columns["weight"] = data.weight[row]
    columns |= scores(z, data.label_names)
    return pd.DataFrame(columns | {f"{LOGIT} {k}": z[:, k].numpy() for k in range(z.shape[1])})


def scores(logits: Tensor, labels: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the model's probability of the second label as a column; of more than two, of each."""
    p = probabilities(logits[:, : outputs(len(labels))].double()).numpy()
    if len(labels) == 2:
        return {"score": p[:, 1]}
    return {f"score {label}": p[:, c] for c, label in enumerate(labels)}


@dataclass(frozen=True, eq=False)
class StoredPredictor(Predictor):
    """A client's predictor that looks logits up: its inputs are numbers of rows.

    Attributes
    ----------
    rows, stored
        The numbers of the rows in order, and their logits.
    """

    rows: Tensor = field(default_factory=lambda: torch.zeros(0))
    stored: Tensor = field(default_factory=lambda: torch.zeros(0))

    def scores_as(self, other: Predictor) -> bool:
        return False

    def logits(self, x: Tensor, s: Tensor, encoder: Inputs | None = None) -> Tensor:
        place = torch.searchsorted(self.rows, x).clamp(max=len(self.rows) - 1)
        if not torch.equal(self.rows[place], x):
            raise InputError("The run has no scores of these rows: train again.")
        return self.stored[place]


@dataclass(frozen=True, eq=False)
class StoredScores:
    """The content of ``predictions.parquet``: labels, groups, and every client's logits."""

    train: tuple[np.ndarray, ...]
    validation: tuple[np.ndarray, ...]
    test: tuple[np.ndarray, ...]
    pool: np.ndarray
    y: np.ndarray
    s: np.ndarray
    logits: tuple[Scored, ...]
    weight: np.ndarray | None = None  # of each row, where rows have weights

    @classmethod
    def read(cls, folder: Path, clients: Sequence[str], labels: Sequence[str],
             groups: Sequence[str], shared: bool) -> "StoredScores":  # fmt: skip
        path = folder / NAME
        if not path.exists():
            raise InputError(f"{folder} has no {NAME}: the folder is incomplete; train again.")
        frame = read_parquet(path)
        names = {"client": clients, "label": labels, "group": groups, "split": SPLITS}
        for column in ("row", *names):
            if column not in frame:
                raise InputError(f"{path} has no column '{column}': train again.")
        codes = {c: pd.Index(list(known)).get_indexer(pd.Index(frame[c].astype(object)))
                 for c, known in names.items()}  # fmt: skip
        z = frame[[c for c in map(str, frame) if c.startswith(f"{LOGIT} ")]].to_numpy(np.float32)
        unknown = any((code < 0).any() for code in codes.values()) or not np.isfinite(z).all()
        numbered = frame["row"].dtype.kind in "iu" and len(frame) and frame["row"].min() >= 0
        if unknown or not numbered or not z.shape[1]:
            raise InputError(f"{path} does not belong to the model of its folder: train again.")
        rows = frame["row"].to_numpy(np.int64)
        y, s = (np.zeros(rows.max() + 1, dtype=np.int64) for _ in range(2))
        y[rows], s[rows] = codes["label"], codes["group"]
        weight = None
        if "weight" in frame:
            weight = np.zeros(len(y))
            weight[rows] = frame["weight"].to_numpy(np.float64)
        owner, split = codes["client"], codes["split"]
        parts = [_by_client(rows[split == k], owner[split == k], len(clients)) for k in range(3)]
        order = np.lexsort((rows, owner))
        draws = frame["draw"].to_numpy(np.float64) if "draw" in frame else None
        stored = [rows, z] if draws is None else [rows, z, draws]
        each = zip(*(_by_client(a[order], owner[order], len(clients)) for a in stored), strict=True)
        logits: list[Any] = [(*map(torch.from_numpy, parts), None)[:3] for parts in each]
        pool = np.zeros(0, dtype=np.int64)
        if not shared:
            pool = np.sort(np.concatenate(parts[2]))
        elif (split == SPLITS.index(POOL)).any():
            held = np.isin(split, [SPLITS.index(TEST), SPLITS.index(POOL)])
            pool = rows[(owner == 0) & held]
        train, validation, test = map(tuple, parts)
        return cls(train, validation, test, pool, y, s, tuple(logits), weight)


def _by_client(values: np.ndarray, owner: np.ndarray, clients: int) -> list[np.ndarray]:
    """Return each client's values, in their order."""
    ends = np.cumsum(np.bincount(owner, minlength=clients))[:-1]
    return np.split(values[np.argsort(owner, kind="stable")], ends)
