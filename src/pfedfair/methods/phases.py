"""Phases: rounds of one kind, with their own states and messages.

States are dictionaries of tensors, whose keys a phase declares in `States`: the server's state,
which every client receives; messages, one row per client; and clients' own states, one row per
client. No tensor that a phase returns shares memory with one that it was given. A phase does not
depend on the engine that runs it.
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
OfClients = Annotated[Tensor, "clients"]  # one row per client, in the server's state
Summed = Annotated[Tensor, "sum"]  # in a message: the server needs only the sum over clients
Averaged = Annotated[Tensor, "mean"]  # in a message: the server needs only the mean over clients
Counts = Annotated[Tensor, "count"]  # in a message: numbers of the client's rows
SummedCounts = Annotated[Tensor, "sum", "count"]  # numbers of rows that the server only sums up
ROUNDING = 1e-3  # of a count


class GlobalModel(TypedDict):
    """The global model at the server, ``(p,)``; in a message, where a client's steps ended."""

    w: Model


class Nothing(TypedDict):
    """A client keeps nothing."""


@dataclass(frozen=True)
class States:
    """The keys of a phase's states: typed dictionaries whose tensors may be marked."""

    server: type = GlobalModel
    message: type = GlobalModel
    own: type = Nothing

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the tensors in the server's state that are models."""
        return marked(self.server, Model)

    @property
    def keeps_clients(self) -> bool:
        """Whether the server has state for each client, so that no client can join later."""
        return bool(marked(self.server, OfClients))

    @property
    def sends_models_only(self) -> bool:
        """Whether a client sends models only, which can be clipped, noised and trimmed.

        They have names that the server has, too, so that their change is known.
        """
        return set(self.message.__annotations__) == set(self.sent_models)

    @property
    def grow_with_rows(self) -> tuple[str, ...]:
        """Names of the tensors in a message that are sums over a client's rows."""
        return marked(self.message, Summed, SummedCounts, Counts)

    @property
    def sent_models(self) -> tuple[str, ...]:
        """Names of the models in a message that the server has as well."""
        return tuple(name for name in marked(self.message, Model) if name in self.models)

    def with_own(self, **tensors: Any) -> States:
        """Return the states with additional tensors that a client keeps."""
        hints = get_type_hints(self.own, include_extras=True) | tensors
        return replace(self, own=type("OwnState", (), {"__annotations__": hints}))

    def with_server(self, other: States, names: Iterable[str]) -> States:
        """Return the states with tensors that the server keeps from the phase before."""
        before = get_type_hints(other.server, include_extras=True)
        hints = get_type_hints(self.server, include_extras=True) | {n: before[n] for n in names}
        return replace(self, server=type("ServerState", (), {"__annotations__": hints}))

    def sums(self, weighting: str) -> dict[str, str]:
        """Return how the server adds up each tensor of a message, see `Phase.sums`."""
        means = dict.fromkeys(marked(self.message, Model, Averaged), weighting)
        found = means | dict.fromkeys(marked(self.message, Summed, SummedCounts), "sum")
        return found if set(found) == set(self.message.__annotations__) else {}


class Phase:
    """Rounds of one kind. Most methods are one phase; others are a sequence of phases."""

    name: ClassVar[str] = "train"
    rounds: int
    weighting: str = "uniform"  # how the server averages: "uniform", or by "size"
    trains: ClassVar[bool] = True  # whether the global model changes
    decides: ClassVar[bool] = False  # whether `Method.rules` can use its server state

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
        """How the server adds up each tensor of a message, if it needs only sums over clients.

        "sum", or a mean by "size" or "uniform"; empty if it has to see every message.
        Models are averaged. With sums `server_round` gives the same for one client that sends them.
        """
        return self.states.sums(self.weighting)

    def impossible(self, message: State, server: State, sizes: Sequence[int]) -> str:
        """Return why clients of at most so many rows cannot send this message; "" if they can.

        `sizes` is one number for a client's own message; of several clients it is the sum, see
        `sums`. By default only numbers of rows are checked. Finite numbers and names and shapes of
        models are checked elsewhere.
        """
        rows = sum(sizes)
        for name in marked(self.states.message, Counts, SummedCounts):
            if name in message and not self.noise:
                low, high = float(message[name].min()), float(message[name].max())
                if low < -ROUNDING or high > rows + ROUNDING:
                    return f"'{name}' counts {low if low < -ROUNDING else high:g} of {rows} rows"
        return ""

    def start_server(self, server: State, sizes: Tensor) -> State:
        """Return the server's state before the first round.

        `server` is the final state of the phase before; before the first phase it is the initial
        model ``w``.
        """
        return copy_state(server)

    def start_clients(self, server: State, own: State, clients: Clients) -> State:
        """Return clients' states before the first round; `own` is from the phase before.

        By default they are empty.
        """
        return {}

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        """Return clients' messages and new states in round t of this phase, from 0.

        The server's state is the same for all; messages and clients' states have a row for each
        client, ``(clients, ...)``.
        """
        raise NotImplementedError

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        """Return the server's next state from clients' messages: by default their mean."""
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

    def impossible(self, message: State, server: State, sizes: Sequence[int]) -> str:
        return self.phase.impossible(message, server, sizes)

    def start_server(self, server: State, sizes: Tensor) -> State:
        return self.phase.start_server(server, sizes)

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        return self.phase.server_round(server, messages, sizes)


def copy_state(state: State) -> State:
    """Copy the tensors of a state."""
    return {name: tensor.clone() for name, tensor in state.items()}


def total_rounds(phases: Sequence[Phase]) -> int:
    """Return the number of rounds of all phases."""
    return sum(phase.rounds for phase in phases)


def phase_at(phases: Sequence[Phase], t: int) -> tuple[Phase | None, int]:
    """Return the phase of round t of a run, and the round's number in it.

    The phase is None after the last round.
    """
    for phase in phases:
        if t < phase.rounds:
            return phase, t
        t -= phase.rounds
    return None, 0


def started(phases: Sequence[Phase], before: int, t: int) -> list[Phase]:
    """Return the phases that begin after at least `before` and at most t rounds of a run.

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
    """Return whether clients send models only, in all phases."""
    return all(phase.states.sends_models_only for phase in phases)


def keeps_clients(phases: Sequence[Phase]) -> bool:
    """Return whether the server has state for each client in any phase."""
    return any(phase.states.keeps_clients for phase in phases)


def adds_noise(phases: Sequence[Phase]) -> bool:
    """Return whether clients add noise to messages in any phase."""
    return any(phase.noise for phase in phases)


@lru_cache
def marked(keys: type, *marks: Any) -> tuple[str, ...]:
    """Return the names of a state's tensors that have one of these marks."""
    hints = get_type_hints(keys, include_extras=True)
    inner = {k: get_args(v)[0] if get_origin(v) is NotRequired else v for k, v in hints.items()}
    return tuple(name for name, hint in inner.items() if hint in marks)


def average(rows: Tensor, sizes: Tensor, weighting: str = "uniform") -> Tensor:
    """Return the mean over clients, ``(clients, p)`` to ``(p,)``, uniform or by size.

    >>> import torch
    >>> average(torch.tensor([[0.0], [4.0]]), torch.tensor([3.0, 1.0]), "size")
    tensor([1.])
    """
    if weighting == "size":
        return (sizes / sizes.sum()).to(rows.dtype) @ rows
    return rows.mean(0)
