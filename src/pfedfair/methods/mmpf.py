r"""MMPF: Martinez, Bertran and Sapiro, "Minimax Pareto Fairness", ICML 2020; made federated.

The largest risk of any group is minimised. Over groups g with risks r_g,

.. math:: \min_w \max_g r_g(w) = \min_w \max_{\mu \in \Delta} \sum_g \mu_g r_g(w)

APStar (Algorithm 1 of the paper) alternates a model for the weights mu with a step on mu towards
the groups whose risk reaches the best minimax risk so far, and returns the best model:

.. math::
    \mu \leftarrow (1 - a) \mu + \frac{a}{K} \frac{1_\mu}{\|1_\mu\|_1},
    \qquad 1_\mu = [r_g(w) \ge \bar r]_g, \qquad \mu \leftarrow \mu / \|\mu\|_1

K grows by 1 when the worst risk did not improve, and is cut to K_min when it did.

Groups are clients, values of S over all clients, or both (each value of S at each client). With
eta > 0 a client's penalty is added to the risks of its groups.

Differs from the paper: APStar minimises fully for every mu; here a round (local epochs from the
last model) is one inexact minimisation, then mu moves. The risks are those of the round's first
model on training rows (the paper: a held-out set), so the last round's mean is never a candidate. A
group's mean loss at a client becomes row weights with mean 1 there, and the server averages with
the client's part of mu: Adam would not notice a scaled loss. Over S the first round, when the
server does not know the group sizes yet, is FedAvg's by size. From the public code
(natalialmg/MMPF): the same step on mu, a = 0.5 and K_min = 20; but it rounds risks to two digits
before it compares them, and its linear variant gives a row the weight mu_g instead of mu_g / n_g.
We do neither.

What leaves a client in addition to its model: its risk (clients); with S, also its share of each
value of S and the risk of each.
"""

from dataclasses import dataclass
from typing import TypedDict

import torch
from torch import Tensor

from pfedfair._util.errors import InputError, known
from pfedfair.data.task import Task
from pfedfair.federation import Batch, stack
from pfedfair.methods.base import (
    ANY_TASK,
    Answer,
    Clients,
    Cost,
    Method,
    Model,
    OfClients,
    State,
    States,
)
from pfedfair.methods.checks import at_least
from pfedfair.penalties.objective import loss, loss_slope


class ServerState(TypedDict):
    w: Model  # the best model so far
    v: Model  # the one in training
    mu: OfClients  # weights of the groups, (clients, 1) or (clients, 2)
    worst: Tensor  # APStar's best minimax risk
    K: Tensor


class SensitiveServerState(TypedDict):
    # The same for groups over S
    w: Model
    v: Model
    mu: Tensor  # (1, 2)
    worst: Tensor
    K: Tensor
    count: Tensor  # rows of each group over all clients, (1, 2)


class MessageState(TypedDict):
    v: Model
    risk: Tensor  # of each of its groups
    share: Tensor  # of its rows in each


@dataclass(frozen=True, kw_only=True)
class MMPF(Method):
    """APStar on the server, weighted FedAvg below it. One model for all, that of the best round.

    Attributes
    ----------
    groups
        "clients", "sensitive" (S over all clients), or "both" (S at each client).
    mu_step
        The paper's step a on the group weights; 0 keeps them.
    K_min
        After an improvement steps are divided by at most K_min.
    weighting
        With groups = "clients", the first mu: "uniform" or by "size". Otherwise it is uniform.
    """

    groups: str = "clients"
    mu_step: float = 0.5
    K_min: int = 20

    supports = ANY_TASK

    def __post_init__(self) -> None:
        super().__post_init__()
        known("groups", self.groups, ["clients", "sensitive", "both"])
        if not 0 <= self.mu_step < 1:
            raise InputError(f"mu_step must be in [0, 1), got {self.mu_step:g}.")
        at_least(1, self, "K_min")

    @property
    def states(self) -> States:
        by_client = ServerState if self.groups != "sensitive" else SensitiveServerState
        return States(by_client, MessageState)

    def cost(self) -> Cost:
        return Cost(self.epochs + 0.4)  # the outputs once more, for the risks

    def check(self, task: Task) -> None:
        super().check(task)
        if self.groups != "clients" and task.groups > 2:
            raise InputError(f"MMPF over groups is made for two, the data has {task.groups}.")

    def start_server(self, server: State, sizes: Tensor) -> State:
        """Start with equal weights of the groups, or by size; no risk is known yet."""
        mu = torch.ones(
            1 if self.groups == "sensitive" else len(sizes), 1 if self.groups == "clients" else 2
        )
        if self.groups == "clients" and self.weighting == "size":
            mu = sizes[:, None].to(mu)
        w = server["w"]
        new = {"w": w.clone(), "v": w.clone(), "mu": mu / mu.sum()}
        new |= {"worst": torch.tensor(torch.inf), "K": torch.tensor(1.0)}
        return new | ({"count": torch.ones_like(mu)} if self.groups == "sensitive" else {})

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        v = clients.replicate(server["v"])
        rows = stack(clients.table, clients.rows)
        share = torch.einsum("rn,rnk->rk", rows.weight, self._members(rows))
        risk = self._risks(clients.logits(v, rows), rows)
        mu = server["mu"] if self.groups == "sensitive" else server["mu"][list(clients.ids)]
        rate = _divide(mu, server.get("count", share))  # weight of a row by its group; below,
        mean = (rate * share).sum(1, keepdim=True)  # with mean 1 at each client
        rate = torch.where(mean > 0, rate / mean, 1.0)
        step = self.step()
        for batch in self.minibatches(clients, t):
            q = (self._members(batch) * rate[:, None]).sum(2)
            extra = batch._replace(weight=batch.weight * (q - 1))  # only the loss is reweighted

            def slope(logits: Tensor, batch: Batch = batch, extra: Batch = extra) -> Tensor:
                fair = self.objective.slope(logits, batch)
                return fair.add_(loss_slope(logits, extra), alpha=self.objective.loss_weight)

            step(v, clients.network.gradient(v, batch.x, batch.s, slope))
        return {"v": v, "risk": risk, "share": share}, {}

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        rows = sizes[:, None] * messages["share"]  # of each group at each client
        count, total = rows, rows * messages["risk"]
        if self.groups == "sensitive":
            count, total = count.sum(0, keepdim=True), total.sum(0, keepdim=True)
        # The mean of the clients' models, each with its part of the mu that it trained with.
        part = (rows * _divide(server["mu"], server.get("count", rows))).sum(1)
        new = {"v": (part / part.sum()) @ messages["v"]}
        if self.groups == "sensitive":
            new["count"] = count

        # APStar, on the risks of the model that this round began with.
        risk = _divide(total, count).nan_to_num(nan=torch.inf)
        better = risk.max() < server["worst"]
        new["w"] = torch.where(better, server["v"], server["w"])
        new["worst"] = torch.where(better, risk.max(), server["worst"])
        new["K"] = torch.where(better, server["K"].clamp(max=self.K_min), server["K"] + 1)
        above = ((risk >= new["worst"]) & (count > 0)).to(risk)
        mu = (1 - self.mu_step) * server["mu"] + self.mu_step / new["K"] * above / above.sum()
        mu = mu * (count > 0)  # a group without rows has no weight
        return new | {"mu": mu / mu.sum()}

    def _members(self, batch: Batch) -> Tensor:
        """Return 1 for a row's group at its client and 0 elsewhere, ``(clients, n, 1 or 2)``."""
        if self.groups == "clients":
            return torch.ones_like(batch.weight)[..., None]
        return torch.stack([batch.s == 0, batch.s == 1], dim=-1).to(batch.weight)

    def _risks(self, logits: Tensor, batch: Batch) -> Tensor:
        """Return every client's risk in each of its groups, 0 for a group without rows."""
        members, scale = self._members(batch), self.objective.loss_weight
        penalty = self.objective.value(logits, batch) - scale * loss(logits, batch)
        risks = []
        for member in members.unbind(2):
            weight = batch.weight * member
            share = weight.sum(1)
            mean = _divide(loss(logits, batch._replace(weight=weight)), share)
            risks.append((scale * mean + penalty) * (share > 0))
        return torch.stack(risks, dim=1)


def _divide(a: Tensor, b: Tensor) -> Tensor:
    """Return a / b, and 0 where b is 0."""
    return torch.where(b > 0, a / b.clamp(min=torch.finfo(b.dtype).tiny), 0.0)
