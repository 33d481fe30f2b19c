"""Decisions on a run's held-out rows, by its rules and by the likeliest label."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import NamedTuple, Self

import numpy as np
import torch

from pfedfair import metrics
from pfedfair.data.task import outputs
from pfedfair.metrics import intervals
from pfedfair.metrics.weights import effective
from pfedfair.models import probabilities
from pfedfair.rules import Likeliest
from pfedfair.runs import Run, measured_rows
from pfedfair.studies import words

LEAST = 0.005  # change of a group's rate that is named


class Decided(NamedTuple):
    """The rows that a client is measured on: codes of group and label, decisions, scores.

    `before` is the likeliest label by the same scores. The score is the probability of the second
    label; it is None for more than two labels.
    """

    s: np.ndarray
    y: np.ndarray
    before: np.ndarray
    after: np.ndarray
    score: np.ndarray | None
    weight: np.ndarray | None

    def rates(self, groups: int, classes: int, before: bool = False) -> tuple[np.ndarray, ...]:
        """Return the rate of the last label in each group, and the ends of its interval."""
        codes = self.before if before else self.after
        moments = metrics.tally(self.s, self.y, codes, groups, classes, self.weight)
        hits, rows = effective(moments[..., -1].sum(-1), moments.sum((-1, -2)))
        with np.errstate(invalid="ignore"):
            value = hits / rows
        return (value, *intervals.rate(hits, rows, intervals.quantile(0.95)))


def decided(
    run: Run, protocol: str | None = None, clients: Sequence[int] | None = None
) -> Iterator[Decided]:
    """Yield the rows of all clients, or of `clients`, that `Run.table` measures them on."""
    part, table = run.federation.partition, run.federation.table
    _, rows, weighted = measured_rows(part, protocol)
    wide = outputs(table.task.classes)
    likeliest, weight = Likeliest(outputs=wide), run.federation.data.weight
    for i in range(len(rows)) if clients is None else clients:
        own = rows[i]
        if weighted:  # without the groups that the client has no rows of
            own = own[part.shares[i][run.federation.data.s[own]] > 0]
        at, predictor = torch.from_numpy(own), run.predictors[i]
        s = table.s[at]
        z = predictor.logits(table.x[at], s, table.encoder)
        draws = run.draws(i, own)
        after, _ = predictor.decide_scored(z, s, draws.__getitem__)
        before, _ = replace(predictor, rule=likeliest).decide_scored(z, s, draws.__getitem__)
        score = probabilities(z[:, :wide].double()).numpy()[:, 1] if wide == 1 else None
        yield Decided(
            s.numpy(), table.y[at].long().numpy(), before.numpy(), after.numpy(), score,
            None if weight is None else weight[own],
        )  # fmt: skip


class Changes(NamedTuple):
    """Rows with the last label by the likeliest label, and those that a rule adds and takes.

    All are ``(clients, groups)``: `positive` rows have it by the same scores without the rule,
    `gained` and `lost` are what the rule changes; `rows` are all.
    """

    positive: np.ndarray
    gained: np.ndarray
    lost: np.ndarray
    rows: np.ndarray

    @property
    def total(self) -> Self:
        """The sums over clients, ``(1, groups)``."""
        return type(self)(*(part.sum(0, keepdims=True) for part in self))

    @property
    def levels_down(self) -> np.ndarray:
        """Whether a gap closes mainly by taking decisions from the better-off group, by client."""
        with np.errstate(invalid="ignore"):
            before = self.positive / self.rows
            change = (self.gained - self.lost) / self.rows
        at = np.arange(len(before))
        fall = -change[at, np.nan_to_num(before, nan=-1.0).argmax(1)]
        rise = change[at, np.nan_to_num(before, nan=2.0).argmin(1)]
        return np.asarray((fall >= LEAST) & (fall > rise) & (fall + rise > 0))


def changes(run: Run, protocol: str | None = None) -> Changes:
    """Return what each client's rule changes on the rows that the client is measured on."""
    task, counts = run.federation.table.task, []
    for one in decided(run, protocol):
        was, became = (what == task.classes - 1 for what in (one.before, one.after))
        each = (was, ~was & became, was & ~became, np.ones_like(was))
        counts.append([np.bincount(one.s[rows], minlength=task.groups) for rows in each])
    return Changes(*np.array(counts).swapaxes(0, 1))


def differing(run: Run, which: Sequence[int], protocol: str | None = None) -> Mapping[int, str]:
    """Describe how the rows of the clients `which` clearly differ from all others'.

    By the rates of the likeliest label in each group. Where all clients are measured on the same
    held-out rows, there is no such difference.
    """
    _, _, weighted = measured_rows(run.federation.partition, protocol)
    data, task = run.federation.data, run.federation.table.task
    if weighted or not len(which) or len(run.federation) < 2:
        return {}
    each = [
        metrics.tally(one.s, one.y, one.before, task.groups, task.classes, one.weight)
        for one in decided(run, protocol)
    ]
    moments = np.stack(each, axis=1)  # of clients
    all_hits, all_rows = moments[..., -1].sum(-1), moments.sum((-1, -2))
    hits, rows = effective(all_hits, all_rows)
    quantile = NormalDist().inv_cdf(1 - 0.025 / (len(which) * task.groups))
    texts = {}
    for i in which:
        others = effective(*(a.sum(1) - a[:, i] for a in (all_hits, all_rows)))
        low, high = intervals.difference(hits[i], rows[i], *others, quantile)
        clear = np.flatnonzero((low > 0) | (high < 0))
        if len(clear):
            z = int(clear[np.argmax(rows[i][clear])])
            here, elsewhere = hits[i, z] / rows[i, z], others[0][z] / others[1][z]
            texts[int(i)] = (
                f"its rows differ from other clients' ({data.label_names[-1]} is likeliest for "
                f"{words.percent(here)} % of {data.group_names[z]} here, "
                f"{words.percent(elsewhere)} % elsewhere)"
            )
    return texts
