"""The constant classifier: every client predicts its own more frequent label for all rows.

It is perfectly fair and often surprisingly accurate, so every table includes it.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pfedfair.data.task import Task, outputs
from pfedfair.federation import stack
from pfedfair.methods.base import ANY_TASK, Clients, Cost, Dial, Method, Phase, State, Tuning
from pfedfair.models import Bias, Network


@dataclass(frozen=True, kw_only=True)
class Constant(Method):
    """Log-odds of the label among a client's training rows; no training."""

    supports = replace(ANY_TASK, weights=True)
    place = "local"
    dial = Dial(setting="", hint="")
    tuning = Tuning(tuned=False)

    @property
    def phases(self) -> tuple[Phase, ...]:
        return ()

    def network(self, default: Network, task: Task) -> Network:
        return Bias(outputs(task.classes))

    def cost(self) -> Cost:
        return Cost(0.0)

    def personalise(self, server: State, own: State, clients: Clients) -> Tensor:
        batch = stack(clients.table, clients.rows)
        if clients.network.size > 1:
            label = batch.y.unsqueeze(-1) == torch.arange(clients.network.size)
            return (batch.weight.unsqueeze(-1) * label).sum(1).clamp(min=1e-6).log()
        rate = (batch.weight * batch.y).sum(1, keepdim=True)
        return torch.logit(rate, eps=1e-6)
