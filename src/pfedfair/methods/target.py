r"""A target instead of a coefficient, for every method with a penalty.

"DDP at most 0.05" has a meaning that eta = 0.7 does not have. Each client
has its own multiplier :math:`\mu_i` and minimises :math:`L_i + \mu_i \rho_i`, which is the convex
mix with :math:`\eta_i = \mu_i / (1 + \mu_i)`. It holds out some of its rows. In training, it
measures the DDP of the current model on them, and updates the multiplier:

.. math:: \log \mu_i \leftarrow \log \mu_i + \text{step} \cdot
          \operatorname{clip}\bigl((\text{DDP}_i - \epsilon) / \max(\epsilon, 0.02), -1, 1\bigr)

There is no outer search: multiplier and model converge jointly (dual ascent). A model that predicts
one class for all rows has a DDP of 0, within any target, so its multiplier falls until it predicts
both classes; and eta stays below 0.97. With `confidence` the upper end of DDP's interval is used
instead of DDP. Few rows show a difference even where there is none, so a small client errs on the
side of fairness: `transport`, which uses other clients' rows, is the better choice for it.

It wraps any method: wherever the method takes a client's gradient of its fair loss, that has the
client's eta. The multiplier and the held-out rows stay at the client.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from pfedfair._util.errors import InputError
from pfedfair.data.task import Task
from pfedfair.federation import Batch, stack
from pfedfair.methods import checks
from pfedfair.methods.base import Answer, Cost, Dial, Method, Phase, State, States, Supports
from pfedfair.methods.clients import Clients, hold_out
from pfedfair.methods.phases import Wrapped
from pfedfair.metrics.criteria import CRITERIA
from pfedfair.models import Network
from pfedfair.models.base import Slope
from pfedfair.penalties.objective import Objective, loss_slope
from pfedfair.rules import Rule

LARGEST = 3.5  # of |log mu|: eta between 0.03 and 0.97
SCALE = 0.02  # the least excess that moves a multiplier by a full step
EVERY = 4  # gradients of the fair loss between two measurements of DDP, from the first of a round


@dataclass(frozen=True, kw_only=True)
class Targeted(Method):
    """A method with a penalty, whose eta each client adapts to a target.

    Attributes
    ----------
    method
        The method; its eta, which must not be 0, is the initial value of all clients.
    target_ddp
        The largest DDP of a client's model.
    confidence
        The level of the interval of DDP whose upper end is limited; 0: DDP itself is.
    held
        The part of a client's rows that is held out.
    dual_step
        The largest step of the logarithm of the multiplier.
    """

    method: Method
    target_ddp: float = 0.05
    confidence: float = 0.95
    held: float = 0.2
    dual_step: float = 0.5

    dial = Dial(setting="target_ddp", is_target=True, average={"confidence": 0.0})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.method.supports.wrapping:
            raise InputError(
                f"{type(self.method).__name__} makes its own gradients: it takes no target."
            )
        if not 0 < self.method.eta < 1 or self.method.mix != "convex":
            raise InputError("A target needs a method with a fairness penalty, eta in (0, 1).")
        checks.target(self)
        checks.above_zero(self, "dual_step")
        object.__setattr__(self, "batch", self.method.batch)  # by which clients are stacked
        object.__setattr__(self, "method", replace(self.method, rounds=self.rounds))

    @property
    def place(self) -> str:  # type: ignore[override]
        return self.method.place

    @property
    def supports(self) -> Supports:
        return replace(self.method.supports, weights=False, wrapping=False)

    @property
    def phases(self) -> tuple[Phase, ...]:
        return tuple(TargetedPhase(phase, self) for phase in self.method.phases)

    def check(self, task: Task) -> None:
        self.method.check(task)

    def network(self, default: Network, task: Task) -> Network:
        return self.method.network(default, task)

    def cost(self) -> Cost:
        cost = self.method.cost()
        return Cost(1.1 * cost.per_round, 1.1 * cost.at_end)

    def personalise(self, server: State, own: State, clients: Clients) -> Tensor:
        return self.method.personalise(server, own, self.watch(own, clients))

    def rules(self, server: State, own: State, clients: Clients) -> Sequence[Rule]:
        return self.method.rules(server, own, clients)

    def first(self, clients: Clients) -> Tensor:
        """Return the initial multipliers, ``(clients, 1)``."""
        return torch.logit(torch.tensor(self.method.eta)).expand(len(clients), 1).clone()

    def watch(self, own: State, clients: Clients) -> TargetedClients:
        """Hold out rows, and measure the gap on them while training on the rest."""
        trained, held = hold_out(clients, self.held)
        if not any(len(rows) for rows in held.rows):
            raise InputError("A target needs clients of two rows or more, some to be held out.")
        log_mu = own["log_mu"].clone() if "log_mu" in own else self.first(clients)
        dual = Dual(self, stack(held.table, held.rows), log_mu)
        return TargetedClients(**vars(trained), dual=dual)

    def excess(self, logits: Tensor, held: Batch) -> Tensor:
        """Return every client's gap, or its upper end, less the target, ``(clients, 1)``.

        Of several gaps (more than two groups, classes, or labels to compare among) it is the
        largest. Without rows of two groups it is 0.
        """
        classes = max(2, logits.shape[-1])
        decision = logits.argmax(-1) if classes > 2 else (logits[..., 0] > 0).long()
        quantile = NormalDist().inv_cdf(self.confidence) if self.confidence else 0.0
        real = held.weight > 0
        worst = torch.full((len(logits), 1), -torch.inf)
        for label, predicted in CRITERIA[self.method.criterion].comparisons(classes):
            counted = real if label is None else real & (held.y == label)
            rates = [self.rate(decision == predicted, counted & (held.s == z))
                     for z in range(max(2, int(held.s.max()) + 1))]  # fmt: skip
            for (a, var_a, n_a), (b, var_b, n_b) in combinations(rates, 2):
                gap = (b - a).abs() + quantile * (var_a + var_b).sqrt()
                worst = torch.where((n_a > 0) & (n_b > 0), torch.maximum(worst, gap), worst)
        most = [(real & (decision == c)).sum(1, keepdim=True) for c in range(classes)]
        one_class = torch.stack(most).amax(0) == real.sum(1, keepdim=True)
        excess = torch.where(one_class, -max(self.target_ddp, SCALE), worst - self.target_ddp)
        return torch.where(worst > -torch.inf, excess, 0.0)

    @staticmethod
    def rate(hit: Tensor, member: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the rate of hits among `member` rows, its variance, and their number."""
        n = member.sum(1, keepdim=True)
        hits = (member & hit).sum(1, keepdim=True)
        smoothed = (hits + 1) / (n + 2)  # a rate of 0 has a variance, too
        variance = smoothed * (1 - smoothed) / n.clamp(min=1)
        return hits / n.clamp(min=1), variance, n


@dataclass
class Dual:
    """The multipliers of clients, while they train."""

    target: Targeted
    held: Batch
    log_mu: Tensor  # (clients, 1)
    gradients: int = 0

    def look(self, network: Network, w: Tensor) -> None:
        """Update the multipliers at every `EVERY`-th gradient by the gap of the models `w`."""
        if self.gradients % EVERY == 0:
            excess = self.target.excess(network.logits(w, self.held.x, self.held.s), self.held)
            scaled = (excess / max(self.target.target_ddp, SCALE)).clamp(-1, 1)
            moved = self.log_mu + self.target.dual_step * scaled
            self.log_mu = moved.clamp(-LARGEST, LARGEST)
        self.gradients += 1


@dataclass(frozen=True, eq=False, kw_only=True)
class TargetedClients(Clients):
    """Clients whose fair gradients use each client's eta."""

    dual: Dual

    def slope(self, objective: Objective, w: Tensor, batch: Batch) -> Slope:
        if objective.eta == 0:
            return super().slope(objective, w, batch)
        added = replace(objective, eta=1.0, mix="additive")

        def slope(logits: Tensor) -> Tensor:
            self.dual.look(self.network, w)
            eta = torch.sigmoid(self.dual.log_mu).unsqueeze(-1)
            loss = loss_slope(logits, batch)
            return (1 - eta) * loss + eta * (added.slope(logits, batch) - loss)

        return slope


@dataclass(frozen=True)
class TargetedPhase(Wrapped):
    """A phase of the method, in which clients update their multipliers."""

    target: Targeted

    @property
    def states(self) -> States:
        return self.phase.states.with_own(log_mu=Tensor)

    def start_clients(self, server: State, own: State, clients: Clients) -> State:
        first = {"log_mu": self.target.first(clients)}
        return first | self.phase.start_clients(server, own, clients)

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        watched = self.target.watch(own, clients)
        message, state = self.phase.client_round(server, own, watched, t)
        return message, state | {"log_mu": watched.dual.log_mu}


def targeted(method: Method, **options: Any) -> Targeted:
    """Give a method a target; rounds, minibatches and the rest are the method's."""
    shared = {field.name: getattr(method, field.name) for field in fields(Method)}
    return Targeted(**shared, method=method, **options)
