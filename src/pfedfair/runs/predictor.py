"""A predictor is a scorer and a rule: from a row's inputs and group to a decision."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from pfedfair.data.tables.encoder import Inputs
from pfedfair.federation import Table
from pfedfair.metrics import one_decision, tally
from pfedfair.models import Network
from pfedfair.rules import Rule
from pfedfair.rules.base import decide_by
from pfedfair.runs import draws

ROWS_AT_ONCE = 2048  # of 4096 the inputs leave the cache
DrawOf = Callable[[np.ndarray], np.ndarray]
T = TypeVar("T")
Compute = Callable[[np.ndarray, np.ndarray, Tensor], T]  # from rows, decisions and logits
FIRST_ROWS = 64  # that show two decisions, most of the time


@dataclass(frozen=True, eq=False)
class Predictor:
    """A client's predictor: the network with its parameters `theta` ``(p,)``, and the rule.

    Random draws are made from the `key`, which is the client's, and the row's id or inputs.

    `x` are inputs, or rows as an `encoder` packed them.
    """

    network: Network
    theta: Tensor
    rule: Rule
    key: bytes = b""

    def logits(self, x: Tensor, s: Tensor, encoder: Inputs | None = None) -> Tensor:
        """Return the scores of rows, ``(n, outputs)``."""
        parts = zip(torch.split(x, ROWS_AT_ONCE), torch.split(s, ROWS_AT_ONCE), strict=True)
        return torch.cat([self.network.scores(self.theta, a, b, encoder) for a, b in parts])

    def chances(self, x: Tensor, s: Tensor, encoder: Inputs | None = None) -> Tensor:
        """Return the probability of every decision, ``(n, classes)``."""
        return self.rule.chances(self.logits(x, s, encoder), s)

    def decide(self, x: Tensor, s: Tensor, encoder: Inputs | None = None) -> Tensor:
        """Return the decision for every row, ``(n,)``, randomised where the rule says so."""
        return self.decide_scored(self.logits(x, s, encoder), s, partial(self.draws, x, s))[0]

    def decide_scored(self, logits: Tensor, s: Tensor, draw_of: DrawOf) -> tuple[Tensor, Tensor]:
        """Return the decision for every row, ``(n,)``, and its chance: 1 without a random draw.

        `draw_of` returns the random draws of the rows with these numbers.
        """
        chances = self.rule.draw_chances(logits, s)
        drawn = np.flatnonzero((chances.max(1).values < 1).numpy())
        draw = np.zeros(len(s))
        if len(drawn):
            draw[drawn] = draw_of(drawn)
        code = decide_by(chances, draw)
        return code, chances.double().gather(1, code[:, None])[:, 0]

    def draws(
        self, x: Tensor, s: Tensor, rows: np.ndarray, seen: Counter[bytes] | None = None
    ) -> np.ndarray:
        """Return the random draws of the rows with these numbers, by their inputs.

        Rows that equal one of them must be among them; for `seen` see `draws.row_ids`.
        """
        return draws.draw(self.key, draws.row_ids(x[rows].numpy(), s[rows].numpy(), seen))

    def scores_as(self, other: Self) -> bool:
        """Return whether rows of the two may be scored in one pass: by one model."""
        if self.network is not other.network or self.network.unbatched:
            return False
        a, b = self.theta, other.theta
        return a.data_ptr() == b.data_ptr() or torch.equal(a, b)

    def same(self, other: Self) -> bool:
        """Return whether two clients have the same rule and parameters."""
        same_rule = torch.equal(self.rule.numbers, other.rule.numbers)
        same_rule &= self.key == other.key or not self.rule.draws
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


def of_decisions(
    predictors: Sequence[Predictor],
    table: Table,
    rows: Sequence[np.ndarray],
    compute: Compute[T],
    draw_of: Callable[[int, np.ndarray], np.ndarray] | None = None,
) -> list[T]:
    """Compute something for every client from its rows, decisions and logits.

    `draw_of` returns a client's random draws of rows of the table; by default they follow from the
    inputs of `rows[i]`. Clients with the first one's rows and model share its result.
    """
    unique = [i for i, one in enumerate(predictors)
              if i == 0 or rows[i] is not rows[0] or not one.same(predictors[0])]  # fmt: skip
    logits_of = scored([predictors[i] for i in unique], table, [rows[i] for i in unique])
    found: dict[int, T] = {}
    for i, logits in zip(unique, logits_of, strict=True):
        at = torch.from_numpy(rows[i])
        s = table.s[at]
        if draw_of is None:
            draws_at = partial(predictors[i].draws, table.x[at], s)
        else:
            draws_at = partial(_draws_at, draw_of, i, rows[i])
        decided, _ = predictors[i].decide_scored(logits, s, draws_at)
        found[i] = compute(rows[i], decided.numpy(), logits)
    return [found.get(i, found[0]) for i in range(len(predictors))]


def tallies(table: Table, weight: np.ndarray | None = None) -> Compute[np.ndarray]:
    """Return what computes the moments ``(3, S, Y, Yhat)`` of decisions, see `metrics.tally`.

    `weight` is that of every row of the table.
    """
    labels, groups_of = table.y.numpy().astype(np.int64), table.s.numpy()
    sizes = table.task.groups, table.task.classes

    def moments(own: np.ndarray, decided: np.ndarray, logits: Tensor) -> np.ndarray:
        row_weight = None if weight is None else weight[own]
        return tally(groups_of[own], labels[own], decided, *sizes, row_weight)

    return moments


def count(
    predictors: Sequence[Predictor],
    table: Table,
    rows: Sequence[np.ndarray],
    draw_of: Callable[[int, np.ndarray], np.ndarray] | None = None,
) -> np.ndarray:
    """Count decisions of client i on its `rows[i]`, ``(clients, S, Y, Yhat)``.

    For `draw_of` see `of_decisions`.
    """
    moments = of_decisions(predictors, table, rows, tallies(table), draw_of)
    return np.stack([of_client[1] for of_client in moments])


def randomised(
    predictors: Sequence[Predictor],
    table: Table,
    rows: Sequence[np.ndarray],
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Return the part of `rows[i]` whose decision is a random draw, by group ``(clients, S)``.

    0 for groups without rows. Rules without random draws are not evaluated.
    """
    found = np.zeros((len(predictors), table.task.groups))
    drawing = [i for i, one in enumerate(predictors) if one.rule.draws]
    logits_of = scored([predictors[i] for i in drawing], table, [rows[i] for i in drawing])
    for i, logits in zip(drawing, logits_of, strict=True):
        s = table.s[torch.from_numpy(rows[i])]
        random = (predictors[i].rule.draw_chances(logits, s).max(1).values < 1).double()
        counted = torch.ones_like(random) if weight is None else torch.from_numpy(weight[rows[i]])
        total, hits = (torch.bincount(s, each, minlength=table.task.groups)
                       for each in (counted, counted * random))  # fmt: skip
        found[i] = (hits / total.clamp(min=1e-300)).numpy()
    return found


def _draws_at(
    draw_of: Callable[[int, np.ndarray], np.ndarray], i: int, own: np.ndarray, at: np.ndarray
) -> np.ndarray:
    return draw_of(i, own[at])


def collapsed(
    predictors: Sequence[Predictor],
    table: Table,
    rows: Sequence[np.ndarray],
    draw_of: Callable[[int, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Return which clients have one decision for all of their `rows[i]`."""
    clients = list(range(len(rows)))
    for most in (FIRST_ROWS, None):  # all rows only where the first ones do not show two
        if clients:
            part = [rows[i][:most] for i in clients]
            counts = count(
                [predictors[i] for i in clients], table, part,
                draw_of=lambda k, own: draw_of(clients[k], own),  # noqa: B023
            )  # fmt: skip
            same = one_decision(counts)
            clients = [i for i, is_same in zip(clients, same, strict=True) if is_same]
    return np.isin(np.arange(len(rows)), clients)
