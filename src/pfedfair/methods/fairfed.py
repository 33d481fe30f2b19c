r"""FairFed (Ezzeldin, Yan, He, Ferrara and Avestimehr, AAAI 2023): fairness-aware averaging.

A client whose local fairness differs from the federation's has a lower weight. In round t, with F
the signed demographic-parity difference P(Yhat=1 | S=0) - P(Yhat=1 | S=1) of the received model,

.. math::
    \Delta_k = |F_{global} - F_k| \quad
    \text{(or } |Acc_k - Acc_{global}| \text{ if } F_k \text{ is undefined)}

.. math::
    \bar\omega_k \leftarrow \bar\omega_k - \beta \Bigl(\Delta_k - \frac1K \sum_i \Delta_i\Bigr),
    \qquad \omega_k = \bar\omega_k \Big/ \sum_i \bar\omega_i,
    \qquad w \leftarrow \sum_k \omega_k w_k

from omega_k = n_k / sum n on. F_global is the difference over all rows, from sums of counts: it is
not the mean of the F_k. Clients take FedAvg's local steps; with eta > 0 on their fair loss, which
is the paper's FairFed with local debiasing. One model for all.

Differs from the paper: its clients compute Delta_k and omega_k themselves, and secure aggregation
shows the server only sums; here the server gets five counts of every client (never rows, labels or
values of S) and does the same arithmetic. Its metric is mostly equal opportunity, ours
demographic parity (its SPD). The rule as printed lets weights fall below 0, a step away from a
client's model; we stop at 0. The deviations add up over rounds, so with a large beta few clients
have weight in the end. Public code (FedFB's) has another rule, without memory: omega_k ~ n_k
exp(-beta |F_k - F_global|); and averages without the first client's weight. Here every client has
its weight.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import torch
from torch import Tensor

from pfedfair.federation import stack
from pfedfair.methods.base import (
    Answer,
    Clients,
    Cost,
    Counts,
    Method,
    Model,
    OfClients,
    State,
    States,
    Supports,
)
from pfedfair.methods.checks import zero_or_more


class ServerState(TypedDict):
    w: Model
    weights: OfClients  # omega, (clients,)


class MessageState(TypedDict):
    # What a client sends: its model, and counts of how the received one did
    w: Model
    group: Counts  # rows of each group
    positive: Counts  # those with a positive prediction
    right: Counts  # right predictions


@dataclass(frozen=True, kw_only=True)
class FairFed(Method):
    """FedAvg whose weights follow the clients' fairness.

    Attributes
    ----------
    beta
        Step size of the weights by a round's deviations; 0 is FedAvg.
    weighting
        The weights before the first round: by "size" as in the paper, or "uniform".
    """

    beta: float = 1.0
    weighting: str = "size"

    states = States(ServerState, MessageState)
    supports = Supports(blind=True, wrapping=True)  # no weights: it counts rows

    def __post_init__(self) -> None:
        super().__post_init__()
        zero_or_more(self, "beta")

    def cost(self) -> Cost:
        return Cost(self.epochs + 0.3)  # a third of a gradient to measure the received model

    def impossible(self, message: State, server: State, sizes: Sequence[int]) -> str:
        group, positive, right = (message[name] for name in ("group", "positive", "right"))
        if not (group.sum() >= 1 and (positive <= group).all() and right <= group.sum()):
            return f"'group' has {group.tolist()} rows, 'positive' {positive.tolist()} of them"
        return super().impossible(message, server, sizes)

    def start_server(self, server: State, sizes: Tensor) -> State:
        weights = sizes.double() if self.weighting == "size" else torch.ones_like(sizes).double()
        return {"w": server["w"].clone(), "weights": weights / weights.sum()}

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        w = clients.replicate(server["w"])
        tally = count(clients, w)
        clients.learn(self.objective, w, self.step(), self.epochs_of(t), self.batch)
        return {"w": w, **tally}, {}

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        delta = deviation(messages)
        weights = server["weights"] - self.beta * (delta - delta.mean())
        weights = weights.clamp(min=0)  # they add up to 1, so one of them is above 0
        weights = weights / weights.sum()
        rows = messages["w"]
        return {"w": weights.to(rows.dtype) @ rows, "weights": weights}


def count(clients: Clients, w: Tensor) -> State:
    """Count rows of each group, positive predictions among them, and right predictions."""
    batch = stack(clients.table, clients.rows)
    real = batch.weight > 0
    positive = clients.logits(w, batch)[..., 0] > 0
    groups = [real & (batch.s == z) for z in (0, 1)]
    right = real & (positive == (batch.y > 0.5))
    return {
        "group": torch.stack([g.sum(1) for g in groups], dim=1).double(),
        "positive": torch.stack([(g & positive).sum(1) for g in groups], dim=1).double(),
        "right": right.sum(1).double(),
    }


def deviation(messages: State) -> Tensor:
    """Return Delta_k: the deviation of each client's fairness, or else of its accuracy."""
    group, positive, right = messages["group"], messages["positive"], messages["right"]
    local = positive / group  # 0/0 is nan: a group that the client does not have
    overall = positive.sum(0) / group.sum(0)
    by_fairness = (local[:, 0] - local[:, 1]) - (overall[0] - overall[1])
    accuracy = right / group.sum(1)
    by_accuracy = accuracy - right.sum() / group.sum()
    return torch.where(by_fairness.isnan(), by_accuracy, by_fairness).abs()
