"""Composite methods: a base method trains the model, further phases make decisions fair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TypedDict

import numpy as np
import torch
from torch import Tensor

from pfedfair._util.errors import InputError
from pfedfair.data.task import Task
from pfedfair.methods import checks
from pfedfair.methods.base import (
    TARGETS,
    Answer,
    Clients,
    Cost,
    Dial,
    Method,
    Model,
    Phase,
    State,
    States,
    SummedCounts,
    Supports,
    Tuning,
    copy_state,
)
from pfedfair.methods.clients import hold_out
from pfedfair.methods.fedavg import FedAvg
from pfedfair.methods.phases import Wrapped
from pfedfair.models import Network


@dataclass(frozen=True)
class Train(Wrapped):
    """The rounds of a base method, on the rows that `select` returns."""

    select: Callable[[Clients], Clients] = lambda clients: clients

    def start_clients(self, server: State, own: State, clients: Clients) -> State:
        return self.phase.start_clients(server, own, self.select(clients))

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        return self.phase.client_round(server, own, self.select(clients), t)


@dataclass(frozen=True, kw_only=True)
class Composite(Method):
    """A base method, then further phases; `phases` replaces its own ``client_round``.

    Attributes
    ----------
    base
        The method that trains the model; without it FedAvg, with the settings given here (by
        `make`, Newton's method where that is tuned for the data: additive models). A base
        has step sizes, minibatches and a penalty of its own; the rounds are those given here.
    """

    base: Method | None = None

    tuning = Tuning(tuned=False)  # it is tuned by the base's settings

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.base is not None:  # clients of a stack have equal numbers of minibatches
            object.__setattr__(self, "batch", self.base.batch)
        if self.trainer.place != "federated" or len(self.trainer.phases) != 1:
            raise InputError(
                f"{type(self.trainer).__name__} cannot be the base of {type(self).__name__}: take "
                "a federated method that ends with one model for all, such as fedavg or fedprox."
            )

    @cached_property
    def trainer(self) -> Method:
        """The method that trains the model."""
        shared = {field.name: getattr(self, field.name) for field in fields(Method)}
        return replace(self.base or FedAvg(**shared), rounds=self.rounds)

    def training_phase(
        self, select: Callable[[Clients], Clients] = lambda clients: clients
    ) -> Train:
        """Return the phase that trains the model, on the rows that `select` returns."""
        (phase,) = self.trainer.phases
        return Train(phase, select)

    @property
    def supports(self) -> Supports:
        return Supports(linear_only=self.trainer.supports.linear_only)

    def warning(self, server: State) -> str:
        return self.trainer.warning(server)

    def check(self, task: Task) -> None:
        super().check(task)
        self.trainer.check(task)

    def network(self, default: Network, task: Task) -> Network:
        return self.trainer.network(default, task)

    def cost(self) -> Cost:
        return Cost(self.trainer.cost().per_round, 0.1)


@dataclass(frozen=True, kw_only=True)
class PostProcessing(Composite):
    """A base method on most of every client's rows, then rules by group from its held-out rows.

    Attributes
    ----------
    target_ddp
        The largest difference between the groups' positive rates at a client.
    held
        The part of a client's rows that is not trained on.
    """

    target_ddp: float = 0.05
    held: float = 0.2

    dial = Dial(
        setting="target_ddp",
        levels=TARGETS,
        is_target=True,
        hint="its rows do not allow more for this target, or the scores do not",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.share(self, "target_ddp")
        checks.held(self)

    @property
    def phases(self) -> tuple[Phase, ...]:
        return (self.training,)

    @property
    def training(self) -> Train:
        return self.training_phase(lambda clients: hold_out(clients, self.held)[0])

    def held_out(self, clients: Clients) -> Clients:
        """Return the clients with their held-out rows."""
        return hold_out(clients, self.held)[1]


class GroupState(TypedDict):
    w: Model
    group: Tensor  # rows in each group


class GroupMessage(TypedDict):
    group: SummedCounts  # a client's rows in each group


@dataclass(frozen=True)
class CountGroups(Phase):
    """One round in which clients count the rows that `select` returns by group."""

    select: Callable[[Clients], Clients] = lambda clients: clients

    name = "count groups"
    rounds = 1
    states = States(GroupState, GroupMessage)
    trains = False

    def start_server(self, server: State, sizes: Tensor) -> State:
        return {"w": server["w"].clone(), "group": torch.ones(2, dtype=torch.float64)}

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        groups = [clients.table.s[torch.from_numpy(rows)] for rows in self.select(clients).rows]
        group = torch.stack([torch.bincount(s, minlength=2) for s in groups])
        return {"group": group.double()}, copy_state(own)

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        return copy_state(server) | {"group": messages["group"].sum(0)}


def scores(w: Tensor, clients: Clients, i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the logits of a client's rows by the model `w`, their labels and their groups."""
    y, s = (labels[clients.rows[i]].numpy() for labels in (clients.table.y, clients.table.s))
    return clients.scores(w, i)[:, 0].detach().numpy(), y, s
