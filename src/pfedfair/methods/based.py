"""What methods share that let another method train the model."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

from torch import Tensor

from pfedfair._util.errors import InputError
from pfedfair.data.task import Task
from pfedfair.methods.base import Clients, Method, State
from pfedfair.methods.fedavg import FedAvg
from pfedfair.models import Network


@dataclass(frozen=True, kw_only=True)
class Based(Method):
    """A base method trains in all rounds but the closing ones.

    Attributes
    ----------
    base
        The method that trains the model; without it FedAvg, with the settings given here. A base
        has step sizes, minibatches and a penalty of its own; the rounds are those given here.
    """

    base: Method | None = None

    wrappable = False
    tuned = False  # it has the base's settings

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        if self.rounds <= self.closing:
            raise InputError(
                f"{name} trains first: rounds must be at least {1 + self.closing}, one to train "
                f"and {self.closing} at the end; got {self.rounds}."
            )
        if self.base is not None:  # clients that train side by side have as many minibatches
            object.__setattr__(self, "batch", self.base.batch)
        if not self.trainer.federated or self.trainer.closing:
            raise InputError(
                f"{type(self.trainer).__name__} cannot be the base of {name}: take a federated "
                "method that ends with one model for all, such as fedavg or fedprox."
            )

    @cached_property
    def trainer(self) -> Method:
        """The method that trains the model, in all rounds but the closing ones."""
        shared = {field.name: getattr(self, field.name) for field in fields(Method)}
        return replace(self.base or FedAvg(**shared), rounds=self.rounds - self.closing)

    @property
    def models(self) -> tuple[str, ...]:
        return self.trainer.models

    @property
    def keeps_clients(self) -> bool:
        return super().keeps_clients or self.trainer.keeps_clients

    @property
    def sums(self) -> dict[str, str]:
        own, base = super().sums, self.trainer.sums
        return own | base if own and base else {}

    @property
    def linear(self) -> bool:
        return self.trainer.linear

    def doubts(self, server: State) -> str:
        return self.trainer.doubts(server)

    def check(self, task: Task) -> None:
        super().check(task)
        self.trainer.check(task)

    def network(self, default: Network, task: Task) -> Network:
        return self.trainer.network(default, task)

    def cost(self) -> tuple[float, float]:
        return self.trainer.cost()[0] + self.beside[0], 0.1 + self.beside[1]

    def start_server(self, w: Tensor, sizes: Tensor) -> State:
        return self.trainer.start_server(w, sizes)

    def start(self, server: State, clients: Clients) -> State:
        return self.trainer.start(server, clients)
