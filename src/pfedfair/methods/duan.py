r"""A linear program over all clients: Duan, Xu, Shi and Lemmon, AISTATS 2025.

"The Cost of Local and Global Fairness in Federated Learning". A base method, FedAvg by default,
trains one model, and :math:`\hat y` is its likelier label. A client's decision for a row of
group a is then drawn from three: :math:`\hat y` with chance :math:`\beta_{ac}`, label 0 or label
1 with chances :math:`\beta^0_{ac}` and :math:`\beta^1_{ac}`, independently of the row's score.
Accuracy and the rates of positive decisions,

.. math:: r_{ac} = \beta_{ac} \, P(\hat y = 1 \mid a, c) + \beta^1_{ac} ,

are linear in these chances, so the best of them under a local and a global limit,

.. math::
    |r_{1c} - r_{0c}| \le \epsilon_l \text{ at every client } c, \qquad
    \Bigl| \sum_c \bigl( P(c \mid a{=}1) \, r_{1c} - P(c \mid a{=}0) \, r_{0c} \bigr) \Bigr|
    \le \epsilon_g ,

are found by a linear program. In one more round every client sends eight counts of its held-out
rows, by group, label and :math:`\hat y`; the server solves, and sends each client its chances.

It is optimal among mixtures of the model's decisions with constant ones, not among all rules on the
scores: a random draw changes decisions at any score, a threshold only those near it.

Differs from the paper: it is made for any number of classes and for equalised odds, here it has two
classes and demographic parity, which its authors' code has too. The program is in the mixing
chances themselves; the paper has it in the true positive rates, whose region has the three
decisions as corners, and solves for the chances afterwards: the same set of rules. We had the
abstract, the introduction and the authors' notebooks, not the full paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import torch
from torch import Tensor

from pfedfair.methods import checks
from pfedfair.methods.base import (
    Answer,
    Clients,
    Counts,
    Model,
    OfClients,
    Phase,
    State,
    States,
    copy_state,
)
from pfedfair.methods.composite import PostProcessing, scores
from pfedfair.rules import Rule, Thresholds
from pfedfair.theory.cuts import FAR


class ServerState(TypedDict):
    w: Model
    mix: OfClients  # chances of the model's label, of 0 and of 1, (clients, groups, 3)


class MessageState(TypedDict):
    counts: Counts  # held-out rows by group, label and the model's label


@dataclass(frozen=True, kw_only=True)
class Duan(PostProcessing):
    """A base method, then a round in which the server solves the linear program.

    Attributes
    ----------
    target_global
        The largest difference over all clients' rows; without it `target_ddp`. 1: no limit.
    """

    target_global: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target_global is not None:
            checks.share(self, "target_global")

    @property
    def phases(self) -> tuple[Phase, ...]:
        return self.training, Program(self)

    def rules(self, server: State, own: State, clients: Clients) -> Sequence[Rule]:
        found = []
        for client in clients.ids:
            same, _, one = server["mix"][client].unbind(-1)
            ends = torch.zeros_like(same), torch.full_like(same, FAR)
            numbers = torch.stack([*ends, (same + one).clamp(0, 1), one.clamp(0, 1)], dim=-1)
            found.append(Thresholds(numbers.to(server["w"])))
        return found


@dataclass(frozen=True)
class Program(Phase):
    """The round in which the server solves the linear program from the clients' counts."""

    method: Duan

    name = "program"
    rounds = 1
    states = States(ServerState, MessageState)
    trains = False
    decides = True

    def start_server(self, server: State, sizes: Tensor) -> State:
        mix = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64).repeat(len(sizes), 2, 1)
        return {"w": server["w"].clone(), "mix": mix}

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        return {"counts": count(server["w"], self.method.held_out(clients))}, copy_state(own)

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        method = self.method
        limit = method.target_ddp if method.target_global is None else method.target_global
        mix = best_mix(messages["counts"].numpy(), method.target_ddp, limit)
        return copy_state(server) | {"mix": torch.from_numpy(mix)}


def count(w: Tensor, clients: Clients) -> Tensor:
    """Count rows by group, label and the likelier label, ``(clients, 2, 2, 2)``."""
    counts = torch.zeros(len(clients), 2, 2, 2, dtype=torch.float64)
    for i in range(len(clients)):
        z, y, s = scores(w, clients, i)
        at = tuple(torch.from_numpy(each).long() for each in (s, y, z >= 0))
        counts[i].index_put_(at, torch.ones((), dtype=torch.float64), accumulate=True)
    return counts


def best_mix(counts: np.ndarray, local: float, limit: float) -> np.ndarray:
    """Return every client's chances of the model's label, of 0 and of 1, ``(clients, 2, 3)``.

    A group without rows at a client gets the model's label.

    Parameters
    ----------
    counts
        Rows by client, group, label and the model's label, ``(clients, 2, 2, 2)``.
    local, limit
        The limits on the gap at every client and over all of them.
    """
    from scipy.optimize import linprog  # takes long to load

    clients = len(counts)
    rows = counts.sum((2, 3))  # (clients, groups)
    label, given = counts.sum(3), counts.sum(2)
    right = np.stack([np.trace(counts, axis1=2, axis2=3), label[..., 0], label[..., 1]], axis=-1)
    share = given[..., 1] / rows.clip(min=1)
    rate = np.stack([share, 0 * share, 1 + 0 * share], axis=-1)  # of the three ways to decide
    sign = np.array([-1.0, 1.0])[:, None]
    limits, bounds = [], []
    for c in np.flatnonzero(rows.min(1) > 0):
        gap = np.zeros_like(rate)
        gap[c] = sign * rate[c]
        limits.append(gap.ravel())
        bounds.append(local)
    total = rows.sum(0)
    if total.min() > 0:
        limits.append((sign * (rows / total)[..., None] * rate).ravel())
        bounds.append(limit)
    absent = np.repeat(rows.ravel() == 0, 3)
    unchanged = np.tile([1.0, 0.0, 0.0], 2 * clients)  # the model's labels
    ranges = np.where(absent, unchanged, 0.0), np.where(absent, unchanged, 1.0)
    if not limits:
        return unchanged.reshape(clients, 2, 3)
    both = np.concatenate([limits, -np.array(limits)])
    for slack in (0.0, 5e-7):  # the solver's rounding may leave nothing between equal bounds
        found = linprog(
            -right.ravel() / max(rows.sum(), 1),
            A_ub=both,
            b_ub=np.tile(bounds, 2) + slack,
            A_eq=np.kron(np.eye(2 * clients), np.ones((1, 3))),
            b_eq=np.ones(2 * clients),
            bounds=np.stack(ranges, axis=1),
            method="highs",
        )
        if found.status == 0:
            chances = np.clip(found.x, 0, 1).reshape(clients, 2, 3)
            return np.asarray(chances / chances.sum(-1, keepdims=True))
    raise ArithmeticError(f"the linear program was not solved: {found.message}")
