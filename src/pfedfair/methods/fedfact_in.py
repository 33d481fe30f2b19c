r"""FedFACT (Zhang, Han, Feng, Zhang, Li and Chen, NeurIPS 2025), the form in training.

The multipliers of `pfedfair.methods.fedfact` make the cost of a decision depend on group and
client. In training, every client c minimises a loss with these costs,

.. math::
    -\sum_j \bigl( 1[y = j] + b_{ac, j} \bigr) \log p_j(x, a), \qquad
    b_{ac, 1} - b_{ac, 0} = \pm \Bigl(\frac{\lambda}{P(a)} + \frac{\mu_c}{P(a \mid c)}\Bigr)

(+ for a = 1; the smaller of the two b is 0, since costs must not be below 0), whose minimum takes
the larger of the calibrated chances. With two classes that is cross-entropy to a softened label.

In a round every client starts at the global model, trains an epoch by its costs, and sends the
model; from the decisions of that model on its rows it takes a step in the dual,

.. math::
    \mu_c \leftarrow \mathrm{shrink}(\mu_c - \text{step} \cdot \mathrm{gap}_c,\;
    \text{step} \cdot \epsilon_l),

and the server does the same for lambda, with all clients' counts and the global limit. A client's
model is the one that it would send next: an epoch by its own costs from the global model.

Differs from the paper, of which we had the abstract and the introduction, no code of its own, and
its authors' centralised code ("OptFair"): two groups and two classes only; the limit is on the
gap between the groups; the paper decides by a random draw among the models of many rounds, a client
here keeps the last one. The paper's definition of a client's own classifier was not available to
us.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import torch
from torch import Tensor
from torch.nn.functional import softshrink

from pfedfair.federation import Batch
from pfedfair.methods import checks
from pfedfair.methods.base import (
    TARGETS,
    Answer,
    Clients,
    Cost,
    Dial,
    Method,
    Model,
    State,
    States,
    SummedCounts,
    Tuning,
    average,
)
from pfedfair.penalties.objective import Objective

FINISH = 1_000_000  # the round in which a client makes its own model: minibatches of its own
BOUND = 2.0  # of a multiplier, as the authors' code has it


class ServerState(TypedDict):
    w: Model
    group: Tensor  # rows in each group, known after round 1
    lam: Tensor  # lambda


class MessageState(TypedDict):
    w: Model
    group: SummedCounts  # its rows in each group
    positive: SummedCounts  # those that its model decides 1 for


class OwnState(TypedDict):
    mu: Tensor  # mu of each client


@dataclass(frozen=True, kw_only=True)
class FedFACTIn(Method):
    """FedAvg by costs that clients and server adjust.

    Attributes
    ----------
    target_ddp
        The largest gap between the groups' positive rates at a client.
    target_global
        The largest gap over all clients' rows; without it `target_ddp`. 1: no limit.
    dual_step
        Of the multipliers, once a round.
    """

    target_ddp: float = 0.05
    target_global: float | None = None
    dual_step: float = 0.2

    states = States(ServerState, MessageState, OwnState)
    tuning = Tuning(personal=True)
    dial = Dial(
        setting="target_ddp",
        levels=TARGETS,
        is_target=True,
        hint="train longer, or lower dual_step or alpha",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.no_eta(self)
        checks.share(self, "target_ddp")
        checks.above_zero(self, "dual_step")
        if self.target_global is not None:
            checks.share(self, "target_global")

    def cost(self) -> Cost:
        return Cost(self.epochs + 0.3, 1.0)

    def start_server(self, server: State, sizes: Tensor) -> State:
        multiplier = torch.zeros((), dtype=torch.float64)
        counts = torch.ones(2, dtype=torch.float64)
        return {"w": server["w"].clone(), "group": counts, "lam": multiplier}

    def start_clients(self, server: State, own: State, clients: Clients) -> State:
        return {"mu": torch.zeros(len(clients), dtype=torch.float64)}

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        w = self.train(server, own, clients, t)
        group = clients.cells().sum(1).double()
        positive = torch.zeros_like(group)
        for i, rows in enumerate(clients.rows):
            decided = clients.scores(w[i], i)[:, 0] > 0
            positive[i] = torch.bincount(clients.table.s[rows][decided], minlength=2)
        rate = positive / group.clamp(min=1)
        gap = torch.where(group.amin(1) > 0, rate[:, 1] - rate[:, 0], 0.0)
        mu = self.ascend(own["mu"], gap, self.target_ddp)
        return {"w": w, "group": group, "positive": positive}, {"mu": mu}

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        group, positive = messages["group"].sum(0), messages["positive"].sum(0)
        rate = positive / group.clamp(min=1)
        limit = self.target_ddp if self.target_global is None else self.target_global
        gap = (rate[1] - rate[0]) * (group.min() > 0)
        lam = self.ascend(server["lam"], gap, limit)
        w = average(messages["w"], sizes, self.weighting)
        return {"w": w, "group": group, "lam": lam}

    def personalise(self, server: State, own: State, clients: Clients) -> Tensor:
        return self.train(server, own, clients, FINISH)

    def train(self, server: State, own: State, clients: Clients, t: int) -> Tensor:
        """Return every client's model after a round of steps by its costs, from the global one."""
        cells = clients.cells().sum(1).double()  # (clients, groups)
        both = cells.amin(1, keepdim=True) > 0
        own_share = torch.where(both, cells / cells.sum(1, keepdim=True), 1.0)
        share = server["group"].clamp(min=1e-9) / server["group"].sum()
        sign = torch.tensor([-1.0, 1.0], dtype=torch.float64)
        lift = sign * (server["lam"] / share + own["mu"][:, None] / own_share)
        w = clients.replicate(server["w"])
        step = self.step()
        for batch in self.minibatches(clients, t):
            step(w, clients.gradient(Objective(), w, with_costs(batch, lift)))
        return w

    def ascend(self, multiplier: Tensor, gap: Tensor, limit: float) -> Tensor:
        """Take a step of the dual towards a gap within the limit."""
        moved = multiplier - self.dual_step * gap
        return softshrink(moved, self.dual_step * limit).clamp(-BOUND, BOUND)


def with_costs(batch: Batch, lift: Tensor) -> Batch:
    """Return the batch whose cross-entropy is the loss by costs, `lift` ``(clients, 2)``.

    Its weights do not add up to 1.
    """
    cost = lift.gather(1, batch.s).to(batch.y)
    total = 1 + cost.abs()
    return batch._replace(y=(batch.y + cost.clamp(min=0)) / total, weight=batch.weight * total)
