r"""FedFACT (Zhang, Han, Feng, Zhang, Li and Chen, NeurIPS 2025), the form after training.

"FedFACT: A Provable Framework for Controllable Group-Fairness Calibration in Federated Learning". A
base method, FedAvg by default, trains eta(x, a) = P(Y=1 | x, a). The most accurate decisions under
a limit on the gap at every client and one over all clients take the largest of the calibrated
chances :math:`M_{ac}^\top \eta`. With two classes, two groups and demographic parity that is: at
client c predict 1 for a row of group a (sign +1 for a = 1, -1 for a = 0) iff

.. math::
    m_c = 2 \eta - 1 \pm \Bigl(\frac{\lambda}{P(a)} + \frac{\mu_c}{P(a \mid c)}\Bigr) > 0 .

The multipliers minimise the dual on two levels, every client its :math:`\mu_c` given
:math:`\lambda`, the server :math:`\lambda`. Its largest of two chances is smoothed by a soft-max of
temperature tau, and so are the decisions: label 1 is drawn with chance
:math:`1 / (1 + e^{-m_c / \tau})`.

So far it is LoGoFair (`pfedfair.methods.logofair`), by the same first author, which it extends
to more classes: the optimum is the same here. The differences are the soft-max, and that ours
uses held-out rows, and takes any base. The other form, in training, is
`pfedfair.methods.fedfact_in`.

Differs from the paper, of which we had the abstract and the introduction, no code of its own, and
its authors' centralised code ("OptFair", whose tau and limits we follow): two groups and two
classes only; the limit is on the gap between the groups, where theirs is on each group's distance
from the rate of all; the server asks for counts on a grid of lambda in one round, where it takes
gradient steps; a client's rule is a table of 500 cells of the score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import torch
from torch import Tensor

from pfedfair.methods import checks
from pfedfair.methods.base import (
    Answer,
    Clients,
    Model,
    Phase,
    State,
    States,
    SummedCounts,
    copy_state,
)
from pfedfair.methods.composite import CountGroups, PostProcessing
from pfedfair.methods.logofair import curve, first_grid, narrow, score_margins, solve
from pfedfair.models import Cells
from pfedfair.rules import Lookup, Rule

BINS = 500  # cells of the score in a client's rule


class ServerState(TypedDict):
    w: Model
    group: Tensor  # held-out rows in each group
    lam: Tensor  # lambda


class MessageState(TypedDict):
    positive: SummedCounts  # held-out rows decided 1 for every lambda of the grid, (grid, 2)


@dataclass(frozen=True, kw_only=True)
class FedFACT(PostProcessing):
    """A base method, then a round for the multiplier that all clients share.

    Attributes
    ----------
    target_global
        The largest difference over all clients' rows; without it `target_ddp`. 1: no limit.
    tau
        Temperature of the soft-max.
    """

    target_global: float | None = None
    tau: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.above_zero(self, "tau")
        if self.target_global is not None:
            checks.share(self, "target_global")

    @property
    def phases(self) -> tuple[Phase, ...]:
        return self.training, CountGroups(self.held_out), Search(self)

    def rules(self, server: State, own: State, clients: Clients) -> Sequence[Rule]:
        margins = score_margins(self.held_out(clients), server)
        mu = solve(margins, server["lam"], self.target_ddp, self.tau)
        sign = torch.tensor([-1.0, 1.0], dtype=torch.float64)
        lift = sign * (server["lam"] / margins.share + mu[:, None] / margins.own_share)
        cells = Cells(2, BINS)
        margin = 2 * torch.from_numpy(cells.label.centres[:, 1]) - 1
        one = torch.sigmoid((margin + lift[..., None]) / self.tau)  # (clients, groups, cells)
        both = torch.stack([1 - one, one], dim=-1).to(server["w"])
        return [Lookup(numbers.clone(), cells.settings) for numbers in both]


@dataclass(frozen=True)
class Search(Phase):
    """The round in which clients count decisions on a grid of lambda."""

    method: FedFACT

    name = "search"
    rounds = 1
    states = States(ServerState, MessageState)
    trains = False
    decides = True

    def start_server(self, server: State, sizes: Tensor) -> State:
        return copy_state(server) | {"lam": torch.zeros((), dtype=torch.float64)}

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        margins = score_margins(self.method.held_out(clients), server)
        positive = curve(margins, first_grid(), self.method.target_ddp, self.method.tau)
        return {"positive": positive}, copy_state(own)

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        after, method = copy_state(server), self.method
        if server["group"].min() > 0:  # else a group has no rows, and any rule is fair
            limit = method.target_ddp if method.target_global is None else method.target_global
            rate = messages["positive"].sum(0) / server["group"]
            after["lam"] = narrow(first_grid(), rate[:, 1] - rate[:, 0], limit)[1]
        return after
