"""What every algorithm is made of.

An algorithm is a frozen set of hyper-parameters and three methods on stacks of clients:

``client_round``
    what clients do with the server's message, in one round;
``server_round``
    what the server makes of their answers;
``personalise``
    the model that each client keeps (and ``rules``, how it decides by that model's scores).

State goes in and comes out as plain dictionaries of tensors, whose keys a class declares:
`ServerState`, what the server keeps and sends to every client; `OwnState`, what a client keeps for
itself, one row per client; `MessageState`, what clients send, one row per client. No tensor that
comes out shares memory with one that went in. An algorithm does not know which engine runs it.

What the rest of the program needs to know of a method, the class declares; nobody asks for its
class or its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Self, TypedDict, cast, get_type_hints

import numpy as np
from torch import Tensor

from pfedfair._util.errors import InputError, known
from pfedfair._util.scalars import plain
from pfedfair.data.task import Task
from pfedfair.federation import Batch, Federation
from pfedfair.methods.checks import above_zero, at_least, zero_or_more
from pfedfair.methods.clients import Clients as Clients
from pfedfair.models import Network
from pfedfair.models.optimisers import OPTIMISERS, Step
from pfedfair.penalties.objective import Objective
from pfedfair.rules import Likeliest, Rule

State = dict[str, Tensor]
Answer = tuple[State, State]  # a message to the server, and what the client keeps
Model = Annotated[Tensor, "model"]  # the parameters of a network
OfClients = Annotated[Tensor, "clients"]  # something of each client, in the server's state
Summed = Annotated[Tensor, "sum"]  # in a message: the server needs the sum over clients alone
Averaged = Annotated[Tensor, "mean"]  # in a message: the server needs the mean over clients alone


class ServerState(TypedDict):
    """What the server keeps and sends."""

    w: Model  # the global model, (p,)


class MessageState(TypedDict):
    """What a client sends."""

    w: Model  # where its steps ended


class OwnState(TypedDict):
    """What a client keeps: nothing."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """The hyper-parameters that all algorithms share; by default, FedAvg's behaviour.

    Attributes
    ----------
    rounds
        Rounds of communication.
    epochs
        Passes over a client's rows in each round.
    batch
        The least number of rows in a minibatch (a smaller client uses all its rows).
    alpha
        Step size.
    optimiser
        "adam" or "sgd".
    ridge
        Weight of ||w||^2 / 2 in whatever a client minimises: for wide inputs and few rows.
    eta, penalty, mix, penalty_options
        The fair objective, see `Objective`; eta = 0 is the plain loss.
    weighting
        How the server averages: "uniform" as printed in the paper, or by "size".
    criterion
        What fairness means: "dp", "eo" or "eopp", see `Objective`.
    """

    rounds: int = 40
    epochs: int = 1
    batch: int = 600
    alpha: float = 1e-3
    optimiser: str = "adam"
    ridge: float = 0.0
    eta: float = 0.0
    penalty: str = "kde"
    mix: str = "convex"
    penalty_options: tuple[tuple[str, float], ...] = ()
    weighting: str = "uniform"
    criterion: str = "dp"

    # What a class declares of itself, besides the properties below:
    server_keys: ClassVar[type] = ServerState  # the keys of its states
    message_keys: ClassVar[type] = MessageState
    own_keys: ClassVar[type] = OwnState
    federated: ClassVar[bool] = True  # whether there are rounds at all
    alone: ClassVar[bool] = False  # whether clients train, and each by itself
    free: ClassVar[tuple[str, ...]] = ()  # settings of `rules` alone: they change without training
    binary: ClassVar[bool] = False  # whether it is made for two groups, two classes and "dp" alone
    personal: ClassVar[bool] = False  # whether a client trains, or adapts, a model of its own
    central: ClassVar[bool] = False  # whether it is meant for all rows together, in one place
    gathers: ClassVar[bool] = False  # whether it needs all clients' rows in one place
    one_step: ClassVar[bool] = False  # whether a round is one step, so that there must be many
    beside: ClassVar[tuple[float, float]] = (0.0, 0.0)  # work besides the epochs, see `cost`
    wrappable: ClassVar[bool] = True  # whether its gradients are all `Clients.gradient`'s
    limit: ClassVar[str] = ""  # the setting that says how fair it is, if not eta
    levels: ClassVar[tuple[Mapping[str, float], ...]] = ({},)  # of it, from accurate to fair
    collapse: ClassVar[str] = "train longer, lower eta or raise alpha"  # "" if it is meant to
    model: ClassVar[str] = ""  # the model of columns that it likes best, if it has a say
    tuned: ClassVar[bool] = True  # whether it has settings of its own to tune

    def __post_init__(self) -> None:
        plain(self)
        options = tuple(map(tuple, self.penalty_options))  # lists, too: a method is a key
        object.__setattr__(self, "penalty_options", options)
        known("optimiser", self.optimiser, list(OPTIMISERS))
        known("weighting", self.weighting, ["uniform", "size"])
        at_least(1, self, "rounds", "epochs", "batch")
        above_zero(self, "alpha")
        zero_or_more(self, "ridge")
        self.objective  # noqa: B018  (checks eta, penalty, mix and criterion)
        if self.binary and self.criterion != "dp":
            raise InputError(f"{type(self).__name__} knows demographic parity (dp) only.")

    @property
    def objective(self) -> Objective:
        return _objective(self.eta, self.penalty, self.mix, self.penalty_options, self.criterion)

    # --- what others need to know ---------------------------------------------------------------

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the tensors in the server's state that are models."""
        return _marked(self.server_keys, Model)

    @property
    def keeps_clients(self) -> bool:
        """Whether the server keeps something of each client, so that nobody can join later."""
        return bool(_marked(self.server_keys, OfClients))

    @property
    def keeps(self) -> bool:
        """Whether `rules` may be asked again for another target."""
        return bool(self.free)

    def at_rest(self) -> Self:
        """The method with the usual values of what is free: all that training depends on."""
        each = (field for field in fields(self) if field.name in self.free)
        return replace(self, **{field.name: cast("Any", field.default) for field in each})

    @property
    def sends_models_only(self) -> bool:
        """Whether all that a client sends is models: these can be clipped, blurred, trimmed."""
        return set(_marked(self.message_keys, Model)) == set(self.message_keys.__annotations__)

    @property
    def sums(self) -> dict[str, str]:
        """How the server adds up each tensor of a message, if it needs no client's own numbers.

        "sum", or a mean by "size" or "uniform"; nothing at all if it has to see every message.
        Models are averaged. With sums `server_round` gives the same for one client that sends them.
        """
        means = dict.fromkeys(_marked(self.message_keys, Model, Averaged), self.weighting)
        found = means | dict.fromkeys(_marked(self.message_keys, Summed), "sum")
        return found if set(found) == set(self.message_keys.__annotations__) else {}

    def doubts(self, server: State) -> str:
        """What a user has to know of how training ended, by what the server knows; or nothing."""
        return ""

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of what `scorers` needs of the server's state."""
        return ("w",)

    @property
    def linear(self) -> bool:
        """Whether the network must be linear in its parameters."""
        return False

    @property
    def weighs(self) -> bool:
        """Whether rows may count more or less: all that it learns is by weighted means."""
        return self.wrappable

    @property
    def secret(self) -> bool:
        """Whether a client draws noise that nobody may guess."""
        return False

    def noise(self, t: int) -> float:
        """The epsilon of the Laplace noise on what a client sends in round t, 0 without noise."""
        return 0.0

    @property
    def privacy(self) -> float | None:
        """The epsilon of what a client sends besides models, if there is noise on it."""
        return None

    @property
    def closing(self) -> int:
        """Rounds at the end in which nothing is trained."""
        return 0

    @property
    def target(self) -> float | None:
        """The gap that every client's decisions are asked to keep, if the method takes one."""
        return getattr(self, "target_ddp", None)

    @property
    def level(self) -> str:
        """Where on its trade-off curve the method stands, in a few characters."""
        name = self.limit.partition("_")[0]
        return f"{name} {getattr(self, self.limit):g}" if name else f"{self.eta:g}"

    def to_dict(self) -> dict[str, Any]:
        """Return all hyper-parameters, those of a wrapped method too; `from_dict` reads them."""
        found: dict[str, Any] = {"kind": type(self).__name__}
        for field in fields(self):
            value = getattr(self, field.name)
            found[field.name] = value.to_dict() if isinstance(value, Method) else value
        return found

    def check(self, task: Task) -> None:
        """Refuse people that the algorithm is not made for."""
        self.objective.check(task)
        for number, what in ((task.groups, "groups"), (task.classes, "classes")):
            if self.binary and number > 2:
                raise InputError(
                    f"{type(self).__name__} is made for two {what}, the data has {number}: "
                    "choose another method."
                )

    # --- the method -----------------------------------------------------------------------------

    def network(self, default: Network, task: Task) -> Network:
        """The network to train; an algorithm may bring its own."""
        return default

    def seen(self, federation: Federation, seed: int) -> Federation:
        """What the method sees of the people, if not the inputs that their columns make."""
        return federation

    def rule_work(self, task: Task) -> float:
        """How long a client's rule for another target takes, in times a pair of thresholds."""
        return 1.0

    def cost(self) -> tuple[float, float]:
        """Gradients per row: in one round, and in `personalise`. For estimates of time."""
        return self.epochs + self.beside[0], self.beside[1]

    def minibatches(self, clients: Clients, t: int) -> Iterator[Batch]:
        """The minibatches of round t: `epochs` passes over every client's rows."""
        for epoch in self.passes(t):
            yield from clients.epoch(epoch, self.batch)

    def passes(self, t: int) -> range:
        """The numbers of the epochs of round t."""
        return range(t * self.epochs, (t + 1) * self.epochs)

    def step(self) -> Step:
        return OPTIMISERS[self.optimiser](self.alpha, self.ridge)

    def start_server(self, w: Tensor, sizes: Tensor) -> State:
        """What the server keeps, and sends, before the first round; "w" is the global model."""
        return {"w": w.clone()}

    def start(self, server: State, clients: Clients) -> State:
        """What the clients own before the first round."""
        return {}

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        raise NotImplementedError

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        """Average what the clients sent."""
        return {name: average(rows, sizes, self.weighting) for name, rows in messages.items()}

    def scorers(self, server: State, clients: Clients) -> Tensor:
        """The model that each client scores people by before it makes one its own."""
        return clients.share(server["w"])

    def personalise(self, server: State, own: State, clients: Clients) -> Tensor:
        """Without personalisation every client keeps the global model."""
        return clients.share(server["w"])

    def rules(self, server: State, own: State, clients: Clients) -> Sequence[Rule]:
        """How each client decides by its model's scores: for the likeliest label."""
        return [Likeliest()] * len(clients)

    def change(self, **changes: Any) -> Self:
        """Return the method with another target, where that needs no training."""
        if not self.free:
            raise InputError(f"{type(self).__name__} has to train again for another target.")
        for name in changes:
            known("setting that can change without training anew", name, list(self.free))
        return replace(self, **changes)

    def sweep(
        self, targets: Sequence[float], server: State, own: State, clients: Clients
    ) -> Iterator[tuple[Method, Sequence[Rule]]]:
        """The method with each of some targets, and everybody's rules; see `change`."""
        for target in targets:
            method = self.change(target_ddp=target)
            yield method, method.rules(server, own, clients)

    def newcomer(
        self, server: State, logits: Tensor, s: Tensor, rng: np.random.Generator, task: Task
    ) -> Rule:
        """Return the rule of a client that was not there, from its people's scores and groups."""
        raise InputError(f"{type(self).__name__} cannot take in a client without training again.")


_objective = lru_cache(Objective)  # as it is asked for in every step


@lru_cache
def _marked(keys: type, *task: Any) -> tuple[str, ...]:
    """Names of a state's tensors that are declared to be of one of some kinds."""
    hints = get_type_hints(keys, include_extras=True)
    return tuple(name for name, hint in hints.items() if hint in task)


def average(rows: Tensor, sizes: Tensor, weighting: str = "uniform") -> Tensor:
    """Mean over clients, ``(clients, p)`` to ``(p,)``; by size if asked.

    >>> import torch
    >>> average(torch.tensor([[0.0], [4.0]]), torch.tensor([3.0, 1.0]), "size")
    tensor([1.])
    """
    if weighting == "size":
        return (sizes / sizes.sum()).to(rows.dtype) @ rows
    return rows.mean(0)
