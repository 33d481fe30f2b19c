"""A phase: some rounds of a method that are all of one kind, with states and messages of their own.

State goes in and comes out as dictionaries of tensors, whose keys a phase declares in `States`:
what the server keeps and sends to every client; what a client sends, one row per client; what a
client keeps for itself, one row per client. No tensor that comes out shares memory with one that
went in. A phase does not know which engine runs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    NotRequired,
    TypedDict,
    get_args,
    get_origin,
    get_type_hints,
)

from torch import Tensor

if TYPE_CHECKING:
    from pfedfair.methods.clients import Clients

State = dict[str, Tensor]
Answer = tuple[State, State]  # a message to the server, and what the client keeps
Model = Annotated[Tensor, "model"]  # the parameters of a network
OfClients = Annotated[Tensor, "clients"]  # something of each client, in the server's state
Summed = Annotated[Tensor, "sum"]  # in a message: the server needs the sum over clients alone
Averaged = Annotated[Tensor, "mean"]  # in a message: the server needs the mean over clients alone


class GlobalModel(TypedDict):
    """The global model at the server, ``(p,)``; in a message, where a client's steps ended."""

    w: Model


class Nothing(TypedDict):
    """A client keeps nothing."""


@dataclass(frozen=True)
class States:
    """The keys of a phase's states, as typed dictionaries whose tensors may be marked."""

    server: type = GlobalModel
    message: type = GlobalModel
    own: type = Nothing

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the tensors in the server's state that are models."""
        return marked(self.server, Model)

    @property
    def keeps_clients(self) -> bool:
        """Whether the server keeps something of each client, so that no client can join later."""
        return bool(marked(self.server, OfClients))

    @property
    def sends_models_only(self) -> bool:
        """Whether all that a client sends is models: these can be clipped, noised, trimmed.

        Models by names that the server has, so that one can tell how far they moved.
        """
        return set(self.message.__annotations__) == set(self.sent_models)

    @property
    def sent_models(self) -> tuple[str, ...]:
        """Names of the models in a message that the server has as well."""
        return tuple(name for name in marked(self.message, Model) if name in self.models)

    def keeping(self, **more: Any) -> States:
        """The same states, and more that a client keeps."""
        kept = get_type_hints(self.own, include_extras=True) | more
        return replace(self, own=type("OwnState", (), {"__annotations__": kept}))

    def with_server(self, other: States, names: Iterable[str]) -> States:
        """The same states, and some more that the server keeps from the phase before."""
        before = get_type_hints(other.server, include_extras=True)
        kept = get_type_hints(self.server, include_extras=True) | {n: before[n] for n in names}
        return replace(self, server=type("ServerState", (), {"__annotations__": kept}))

    def sums(self, weighting: str) -> dict[str, str]:
        """How the server adds up each tensor of a message, see `Phase.sums`."""
        means = dict.fromkeys(marked(self.message, Model, Averaged), weighting)
        found = means | dict.fromkeys(marked(self.message, Summed), "sum")
        return found if set(found) == set(self.message.__annotations__) else {}


class Phase:
    """Some rounds of one kind. Most methods are one phase; others are a sequence of them."""

    name: ClassVar[str] = "train"
    rounds: int
    weighting: str = "uniform"  # how the server averages: "uniform", or by "size"
    trains: ClassVar[bool] = True  # whether the global model changes

    @property
    def states(self) -> States:
        """The keys of its states, and their marks."""
        return States()

    @property
    def noise(self) -> float:
        """The epsilon of the Laplace noise on a client's message; 0 without noise."""
        return 0.0

    @property
    def sums(self) -> dict[str, str]:
        """How the server adds up each tensor of a message, if it needs no client's own numbers.

        "sum", or a mean by "size" or "uniform"; nothing at all if it has to see every message.
        Models are averaged. With sums `server_round` gives the same for one client that sends them.
        """
        return self.states.sums(self.weighting)

    def start_server(self, server: State, sizes: Tensor) -> State:
        """What the server keeps, and sends, before the first round.

        `server` is what the phase before has left; before the first phase it is the initial model
        ``w`` alone.
        """
        return copied(server)

    def start_clients(self, server: State, own: State, clients: Clients) -> State:
        """What clients keep before the first round; `own` is what the phase before has left.

        By default nothing of that goes on.
        """
        return {}

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        """Return what clients send, and what they keep, in round t of this phase, from 0.

        The server's state is the same for all; `own`, messages and what is kept have a line for
        each client, ``(clients, ...)``.
        """
        raise NotImplementedError

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        """What the server makes of the clients' messages: by default their mean."""
        return {name: average(rows, sizes, self.weighting) for name, rows in messages.items()}


@dataclass(frozen=True)
class Wrapped(Phase):
    """Another phase, with the same rounds and states; a subclass says what differs."""

    phase: Phase

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.phase.name

    @property
    def rounds(self) -> int:  # type: ignore[override]
        return self.phase.rounds

    @property
    def states(self) -> States:
        return self.phase.states

    @property
    def sums(self) -> dict[str, str]:
        return self.phase.sums

    def start_server(self, server: State, sizes: Tensor) -> State:
        return self.phase.start_server(server, sizes)

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        return self.phase.server_round(server, messages, sizes)


def copied(state: State) -> State:
    """The same state in memory of its own."""
    return {name: tensor.clone() for name, tensor in state.items()}


def total_rounds(phases: Sequence[Phase]) -> int:
    """The number of rounds of all phases."""
    return sum(phase.rounds for phase in phases)


def phase_at(phases: Sequence[Phase], t: int) -> tuple[Phase | None, int]:
    """The phase that round t of a run belongs to, and the round's number in it.

    There is none after the last round.
    """
    for phase in phases:
        if t < phase.rounds:
            return phase, t
        t -= phase.rounds
    return None, 0


def started(phases: Sequence[Phase], before: int, t: int) -> list[Phase]:
    """The phases that begin after `before` rounds of a run or later, and at the latest after t.

    >>> from types import SimpleNamespace as Of
    >>> phases = Of(name="train", rounds=3), Of(name="count", rounds=1)
    >>> [phase.name for phase in started(phases, 3, 3)]
    ['count']
    """
    found, begin = [], 0
    for phase in phases:
        if before <= begin <= t:
            found.append(phase)
        begin += phase.rounds
    return found


def sends_models_only(phases: Sequence[Phase]) -> bool:
    """Whether all that clients ever send is models."""
    return all(phase.states.sends_models_only for phase in phases)


def keeps_clients(phases: Sequence[Phase]) -> bool:
    """Whether the server keeps something of each client in some phase."""
    return any(phase.states.keeps_clients for phase in phases)


def adds_noise(phases: Sequence[Phase]) -> bool:
    """Whether clients add noise to what they send in some phase."""
    return any(phase.noise for phase in phases)


@lru_cache
def marked(keys: type, *marks: Any) -> tuple[str, ...]:
    """Names of a state's tensors that have one of some marks."""
    hints = get_type_hints(keys, include_extras=True)
    inner = {k: get_args(v)[0] if get_origin(v) is NotRequired else v for k, v in hints.items()}
    return tuple(name for name, hint in inner.items() if hint in marks)


def average(rows: Tensor, sizes: Tensor, weighting: str = "uniform") -> Tensor:
    """Mean over clients, ``(clients, p)`` to ``(p,)``; by size if asked.

    >>> import torch
    >>> average(torch.tensor([[0.0], [4.0]]), torch.tensor([3.0, 1.0]), "size")
    tensor([1.])
    """
    if weighting == "size":
        return (sizes / sizes.sum()).to(rows.dtype) @ rows
    return rows.mean(0)
