"""A predictor is a scorer and a rule: from a row's inputs and group to a decision."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from pfedfair._util import seeds
from pfedfair.federation import Table
from pfedfair.metrics import one_decision, tally
from pfedfair.models import Network
from pfedfair.rules import Rule

ROWS_AT_ONCE = 2048  # of 4096 the inputs leave the cache
FEW = 64  # rows that show two decisions, most of the time
Unpack = Callable[[Tensor], Tensor]  # from what an encoder packed to inputs


@dataclass(frozen=True, eq=False)
class Predictor:
    """One client's: the network with its parameters `theta` ``(p,)``, and the rule.

    `x` are inputs, or what `unpack` makes inputs of, some rows at a time.
    """

    network: Network
    theta: Tensor
    rule: Rule

    def logits(self, x: Tensor, s: Tensor, unpack: Unpack = Tensor.float) -> Tensor:
        """Return the scores of some rows, ``(n, outputs)``."""
        parts = zip(torch.split(x, ROWS_AT_ONCE), torch.split(s, ROWS_AT_ONCE), strict=True)
        return torch.cat([self.network.logits(self.theta[None], unpack(a)[None], b[None])[0]
                          for a, b in parts])  # fmt: skip

    def chances(self, x: Tensor, s: Tensor, unpack: Unpack = Tensor.float) -> Tensor:
        """The chance of every decision, ``(n, classes)``."""
        return self.rule.chances(self.logits(x, s, unpack), s)

    def decide(
        self, x: Tensor, s: Tensor, rng: np.random.Generator, unpack: Unpack = Tensor.float
    ) -> Tensor:
        """Return the decision for every row, ``(n,)``, randomised where the rule says so."""
        return self.rule.decide(self.logits(x, s, unpack), s, rng)

    def scores_as(self, other: Self) -> bool:
        """Whether rows of the two may be scored in one pass: by one model."""
        if self.network is not other.network or self.network.unbatched:
            return False
        mine, theirs = self.theta, other.theta
        return mine.data_ptr() == theirs.data_ptr() or torch.equal(mine, theirs)

    def same(self, other: Self) -> bool:
        """Whether two clients decide alike."""
        mine, theirs = self.rule.numbers, other.rule.numbers
        return torch.equal(mine, theirs) and torch.equal(self.theta, other.theta)


def scored(
    predictors: Sequence[Predictor], table: Table, rows: Sequence[np.ndarray]
) -> Iterator[Tensor]:
    """Every client's logits on its rows, in order; of neighbours with one model in one pass.

    If these have the very same rows, too, once.
    """
    first, found = 0, torch.empty(0)
    while first < len(predictors):
        again = first > 0 and rows[first] is rows[first - 1]
        if again and predictors[first].scores_as(predictors[first - 1]):
            yield found[len(found) - len(rows[first]) :]
            first += 1
            continue
        last, number = first + 1, len(rows[first])
        while last < len(predictors) and number + len(rows[last]) <= ROWS_AT_ONCE:
            if not predictors[last].scores_as(predictors[first]):
                break
            number += len(rows[last])
            last += 1
        own = torch.from_numpy(np.concatenate(rows[first:last]))
        found = predictors[first].logits(table.x[own], table.s[own], table.unpack)
        yield from torch.split(found, [len(some) for some in rows[first:last]])
        first = last


def count(
    predictors: Sequence[Predictor],
    table: Table,
    rows: Sequence[np.ndarray],
    seed: int = 0,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Count decisions of client i on its `rows[i]`, ``(clients, S, Y, Yhat)``.

    Random draws are made from `seed`. For `weight`, of every row of the table, see `metrics.tally`.
    """
    groups, classes = table.task.groups, table.task.classes
    kind = np.int64 if weight is None else np.float64
    counts = np.zeros((len(predictors), groups, classes, classes), dtype=kind)
    first = [i for i, one in enumerate(predictors)
             if i == 0 or rows[i] is not rows[0] or not one.same(predictors[0])]  # fmt: skip
    each = scored([predictors[i] for i in first], table, [rows[i] for i in first])
    labels, groups_of = table.y.numpy().astype(np.int64), table.s.numpy()
    for i, logits in zip(first, each, strict=True):
        own = rows[i]
        s, y = groups_of[own], labels[own]
        rng = seeds.generator(seed, seeds.TIES, i)
        decided = predictors[i].rule.decide(logits, torch.from_numpy(s), rng)
        much = None if weight is None else weight[rows[i]]
        counts[i] = tally(s, y, decided.numpy(), groups, classes, much)
    again = np.ones(len(predictors), dtype=bool)
    again[first] = False
    counts[again] = counts[:1]  # one model for all, on everybody's rows
    return counts


def collapsed(
    predictors: Sequence[Predictor], table: Table, rows: Sequence[np.ndarray]
) -> np.ndarray:
    """Which clients have one decision for all of their `rows[i]`."""
    who = list(range(len(rows)))
    for most in (FEW, None):  # all rows only where the first few do not show two
        if who:
            some = [rows[i][:most] for i in who]
            one = one_decision(count([predictors[i] for i in who], table, some))
            who = [i for i, alike in zip(who, one, strict=True) if alike]
    return np.isin(np.arange(len(rows)), who)
