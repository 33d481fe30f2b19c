"""What methods share that train a model first, and make it fair afterwards.

A base method, FedAvg by default, trains on most of every client's rows. What comes after looks at
the rest, the held rows, which the model has not seen: in the closing rounds, if there are any, and
when each client makes its rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import torch
from torch import Tensor

from pfedfair._util.errors import InputError
from pfedfair.data.task import Task
from pfedfair.methods import checks
from pfedfair.methods.base import Answer, Clients, Model, State
from pfedfair.methods.based import Based
from pfedfair.methods.clients import set_aside


class MessageState(TypedDict, total=False):  # what a client sends: the base's message
    w: Model


@dataclass(frozen=True, kw_only=True)
class Finish(Based):
    """A base method, then rules by group.

    Attributes
    ----------
    target_ddp
        The largest gap between the groups' positive rates at a client.
    held
        The part of a client's rows that is not trained on.
    """

    target_ddp: float = 0.05
    held: float = 0.2

    message_keys = MessageState
    binary = True
    levels = tuple({"target_ddp": target} for target in (0.1, 0.05, 0.02, 0.0))
    collapse = "its rows do not allow more for this target, or the scores do not"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.share(self, "target_ddp")
        checks.held(self)

    @property
    def sends_models_only(self) -> bool:
        return super().sends_models_only and self.trainer.sends_models_only

    @property
    def level(self) -> str:
        return f"≤ {self.target_ddp:g}"

    def check(self, task: Task) -> None:
        super().check(task)
        if not task.aware:
            raise InputError(
                f"{type(self).__name__} has a rule for each group: S must be an input."
            )

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        trained, held = set_aside(clients, self.held)
        if t < self.rounds - self.closing:
            return self.trainer.client_round(server, own, trained, t)
        return self.ask(server, held), {name: tensor.clone() for name, tensor in own.items()}

    def ask(self, server: State, held: Clients) -> State:
        """What clients send in a closing round, of their held rows."""
        raise NotImplementedError

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        """The base's, and what it does not know of stays as it is."""
        after = self.trainer.server_round(server, messages, sizes)
        return after | {k: v.clone() for k, v in server.items() if k not in after}


def scores(server: State, clients: Clients, i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a client's people's logits by the global model, their labels and their groups."""
    y, s = (labels[clients.rows[i]].numpy() for labels in (clients.table.y, clients.table.s))
    return clients.scores(server["w"], i)[:, 0].detach().numpy(), y, s


def counted(server: State, clients: Clients) -> Tensor:
    """Count people by group, label and the likelier label, ``(clients, 2, 2, 2)``."""
    counts = torch.zeros(len(clients), 2, 2, 2, dtype=torch.float64)
    for i in range(len(clients)):
        z, y, s = scores(server, clients, i)
        at = tuple(torch.from_numpy(each).long() for each in (s, y, z >= 0))
        counts[i].index_put_(at, torch.ones((), dtype=torch.float64), accumulate=True)
    return counts
