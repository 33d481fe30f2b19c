"""A predictor is a scorer and a rule: from a row's inputs and group to a decision."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from pfedfair._util import seeds
from pfedfair.data.tables.encoder import Inputs
from pfedfair.federation import Table
from pfedfair.metrics import one_decision, tally
from pfedfair.models import Network
from pfedfair.rules import Rule

ROWS_AT_ONCE = 2048  # of 4096 the inputs leave the cache
FIRST_ROWS = 64  # that show two decisions, most of the time


@dataclass(frozen=True, eq=False)
class Predictor:
    """A client's predictor: the network with its parameters `theta` ``(p,)``, and the rule.

    `x` are inputs, or rows as an `encoder` packed them.
    """

    network: Network
    theta: Tensor
    rule: Rule

    def logits(self, x: Tensor, s: Tensor, encoder: Inputs | None = None) -> Tensor:
        """Return the scores of rows, ``(n, outputs)``."""
        parts = zip(torch.split(x, ROWS_AT_ONCE), torch.split(s, ROWS_AT_ONCE), strict=True)
        return torch.cat([self.network.scores(self.theta, a, b, encoder) for a, b in parts])

    def chances(self, x: Tensor, s: Tensor, encoder: Inputs | None = None) -> Tensor:
        """Return the probability of every decision, ``(n, classes)``."""
        return self.rule.chances(self.logits(x, s, encoder), s)

    def decide(
        self, x: Tensor, s: Tensor, rng: np.random.Generator, encoder: Inputs | None = None
    ) -> Tensor:
        """Return the decision for every row, ``(n,)``, randomised where the rule says so."""
        return self.rule.decide(self.logits(x, s, encoder), s, rng)

    def scores_as(self, other: Self) -> bool:
        """Return whether rows of the two may be scored in one pass: by one model."""
        if self.network is not other.network or self.network.unbatched:
            return False
        a, b = self.theta, other.theta
        return a.data_ptr() == b.data_ptr() or torch.equal(a, b)

    def same(self, other: Self) -> bool:
        """Return whether two clients have the same rule and parameters."""
        same_rule = torch.equal(self.rule.numbers, other.rule.numbers)
        return same_rule and torch.equal(self.theta, other.theta)


def scored(
    predictors: Sequence[Predictor], table: Table, rows: Sequence[np.ndarray]
) -> Iterator[Tensor]:
    """Yield every client's logits on its rows, in order.

    Neighbours with one model are scored in one pass, and those with the same rows, too, once.
    """
    first, logits = 0, torch.empty(0)
    while first < len(predictors):
        same_rows = first > 0 and rows[first] is rows[first - 1]
        if same_rows and predictors[first].scores_as(predictors[first - 1]):
            yield logits[len(logits) - len(rows[first]) :]
            first += 1
            continue
        last, number = first + 1, len(rows[first])
        while last < len(predictors) and number + len(rows[last]) <= ROWS_AT_ONCE:
            if not predictors[last].scores_as(predictors[first]):
                break
            number += len(rows[last])
            last += 1
        own = torch.from_numpy(np.concatenate(rows[first:last]))
        logits = predictors[first].logits(table.x[own], table.s[own], table.encoder)
        yield from torch.split(logits, [len(of_client) for of_client in rows[first:last]])
        first = last


def count(
    predictors: Sequence[Predictor],
    table: Table,
    rows: Sequence[np.ndarray],
    seed: int = 0,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Count decisions of client i on its `rows[i]`, ``(clients, S, Y, Yhat)``.

    Random draws follow from `seed`. For `weight`, of every row of the table, see `metrics.tally`.
    """
    groups, classes = table.task.groups, table.task.classes
    kind = np.int64 if weight is None else np.float64
    counts = np.zeros((len(predictors), groups, classes, classes), dtype=kind)
    unique = [i for i, one in enumerate(predictors)
              if i == 0 or rows[i] is not rows[0] or not one.same(predictors[0])]  # fmt: skip
    logits_of = scored([predictors[i] for i in unique], table, [rows[i] for i in unique])
    labels, groups_of = table.y.numpy().astype(np.int64), table.s.numpy()
    for i, logits in zip(unique, logits_of, strict=True):
        own = rows[i]
        s, y = groups_of[own], labels[own]
        rng = seeds.generator(seed, seeds.TIES, i)
        decided = predictors[i].rule.decide(logits, torch.from_numpy(s), rng)
        row_weight = None if weight is None else weight[rows[i]]
        counts[i] = tally(s, y, decided.numpy(), groups, classes, row_weight)
    repeated = np.ones(len(predictors), dtype=bool)
    repeated[unique] = False
    counts[repeated] = counts[:1]  # one model for all, on the same rows
    return counts


def collapsed(
    predictors: Sequence[Predictor], table: Table, rows: Sequence[np.ndarray]
) -> np.ndarray:
    """Return which clients have one decision for all of their `rows[i]`."""
    clients = list(range(len(rows)))
    for most in (FIRST_ROWS, None):  # all rows only where the first ones do not show two
        if clients:
            part = [rows[i][:most] for i in clients]
            same = one_decision(count([predictors[i] for i in clients], table, part))
            clients = [i for i, is_same in zip(clients, same, strict=True) if is_same]
    return np.isin(np.arange(len(rows)), clients)
