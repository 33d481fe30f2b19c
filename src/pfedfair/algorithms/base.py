"""What every algorithm is made of.

An algorithm is a frozen set of hyper-parameters and three methods on stacks of clients:

``client_round``
    what clients do with the server's message, in one round;
``server_round``
    what the server makes of their answers;
``personalise``
    the model that each client keeps.

State goes in and comes out as plain dictionaries of tensors. ``server`` (always with "w", the
global model, ``(p,)``) goes to every client. ``own`` has one row per client and never leaves it.
Messages have one row per client and go to the server. No tensor that comes out shares memory with
one that went in. An algorithm does not know which engine runs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from pfedfair import seeds
from pfedfair.errors import InputError, known
from pfedfair.federation import Batch, Table, gather, minibatches, pad
from pfedfair.networks import Kinds, Network
from pfedfair.objectives import Objective
from pfedfair.optimisers import OPTIMISERS, Step
from pfedfair.partition import stratified

State = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Clients:
    """Some clients, side by side: their rows, their random streams, their gradients.

    `ids` are the clients' numbers in the federation, `rows` the row numbers of each in `table`.
    `sizes`, if given, are the numbers of rows that say how many minibatches an epoch has: clients
    side by side must have as many, also when each has set some rows aside.
    """

    network: Network
    table: Table
    rows: Sequence[np.ndarray]
    ids: Sequence[int]
    seed: int
    sizes: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def replicate(self, w: Tensor) -> Tensor:
        """Give every client its own copy of the model `w`, ``(clients, p)``."""
        return w.repeat(len(self), 1)

    def epoch(self, number: int, batch: int) -> Iterator[Batch]:
        """One pass over every client's rows in minibatches. The same number, the same order."""
        sizes = self.sizes or [len(own) for own in self.rows]
        cuts = [
            minibatches(
                own, batch, seeds.generator(self.seed, seeds.MINIBATCH, client, number), size
            )
            for own, client, size in zip(self.rows, self.ids, sizes, strict=True)
        ]
        index, weight = pad([part for client_cuts in cuts for part in client_cuts])
        shape = (len(cuts), len(cuts[0]), -1)  # the clients of a chunk have as many steps each
        whole = gather(self.table, index.reshape(shape), weight.reshape(shape))
        for k in range(whole.y.shape[1]):
            yield Batch(*(tensor[:, k] for tensor in whole))

    def gradient(self, objective: Objective, w: Tensor, batch: Batch) -> Tensor:
        """Every client's gradient of its objective at its own row of `w`, ``(clients, p)``."""
        logits, pullback = self.network.vjp(w, batch.x)
        return pullback(objective.slope(logits, batch))


@dataclass(frozen=True, kw_only=True)
class Algorithm:
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
    eta: float = 0.0
    penalty: str = "kde"
    mix: str = "convex"
    penalty_options: tuple[tuple[str, float], ...] = ()
    weighting: str = "uniform"
    criterion: str = "dp"

    federated: ClassVar[bool] = True
    keeps: ClassVar[bool] = False  # whether `personalise` may be asked again, with the same `own`
    binary: ClassVar[bool] = False  # whether it is made for two groups, two classes and "dp" alone
    models: ClassVar[tuple[str, ...]] = ("w",)  # the server's tensors that are models
    keeps_clients: ClassVar[bool] = False  # the server keeps something of each client
    sends_models_only: ClassVar[bool] = True
    secret: ClassVar[bool] = False  # noise must come from a site's secret

    def __post_init__(self) -> None:
        known("optimiser", self.optimiser, list(OPTIMISERS))
        known("weighting", self.weighting, ["uniform", "size"])
        for name in ("rounds", "epochs", "batch"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if not 0 < self.alpha < float("inf"):
            raise InputError(f"alpha must be a positive number, got {self.alpha:g}.")
        self.objective  # noqa: B018  (checks eta, penalty, mix and criterion)
        if self.binary and self.criterion != "dp":
            raise InputError(f"{type(self).__name__} knows demographic parity (dp) only.")

    def to_dict(self) -> dict[str, Any]:
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {k: v.to_dict() if isinstance(v, Algorithm) else v for k, v in found.items()}
        return {"name": type(self).__name__, **plain}

    @property
    def objective(self) -> Objective:
        return Objective(self.eta, self.penalty, self.mix, self.penalty_options, self.criterion)

    def check(self, kinds: Kinds) -> None:
        """Refuse people that the algorithm is not made for."""
        self.objective.check(kinds)
        for number, what in ((kinds.groups, "groups"), (kinds.classes, "classes")):
            if self.binary and number > 2:
                raise InputError(
                    f"{type(self).__name__} is made for two {what}, the data has {number}: "
                    "choose another method."
                )

    def network(self, default: Network, kinds: Kinds) -> Network:
        """The network to train; an algorithm may bring its own."""
        return default

    def cost(self) -> tuple[float, float]:
        """Gradients per row: in one round, and in `personalise`. For estimates of time."""
        return float(self.epochs), 0.0

    def minibatches(self, clients: Clients, t: int) -> Iterator[Batch]:
        """The minibatches of round t: `epochs` passes over every client's rows."""
        for epoch in range(t * self.epochs, (t + 1) * self.epochs):
            yield from clients.epoch(epoch, self.batch)

    def step(self) -> Step:
        return OPTIMISERS[self.optimiser](self.alpha)

    def start_server(self, w: Tensor, sizes: Tensor) -> State:
        """What the server keeps, and sends, before the first round; "w" is the global model."""
        return {"w": w.clone()}

    def start(self, server: State, clients: Clients) -> State:
        """What the clients own before the first round."""
        return {}

    def client_round(
        self, server: State, own: State, clients: Clients, t: int
    ) -> tuple[State, State]:
        raise NotImplementedError

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        """Average what the clients sent."""
        return {name: average(rows, sizes, self.weighting) for name, rows in messages.items()}

    def personalise(self, server: State, own: State, clients: Clients) -> Tensor:
        """Without personalisation every client keeps the global model."""
        return clients.replicate(server["w"])


def set_aside(clients: Clients, part: float) -> tuple[Clients, Clients]:
    """The clients with the rows that they train on, and with a `part` that they do not.

    Both groups in proportion, the same rows in every round.
    """
    s = clients.table.s.numpy()
    parts = []
    for rows, client in zip(clients.rows, clients.ids, strict=True):
        held, rest = stratified(rows, s, part, seeds.generator(clients.seed, seeds.HELD, client))
        if len(held) == 0 and len(rest) > 1:  # a few of many groups
            held, rest = rest[:1], rest[1:]
        parts.append((held, rest))
    sizes = [len(rows) for rows in clients.rows]
    trained = replace(clients, rows=[rest for _, rest in parts], sizes=sizes)
    return trained, replace(clients, rows=[held for held, _ in parts])


def check_target(target_ddp: float, confidence: float | None, held: float) -> None:
    """Refuse a target that cannot be."""
    if not 0 <= target_ddp <= 1:
        raise InputError(f"target_ddp must be in [0, 1], got {target_ddp:g}.")
    if confidence is not None and not 0.5 <= confidence < 1:
        raise InputError(f"confidence must be in [0.5, 1), got {confidence:g}.")
    if not 0 < held <= 0.5:  # more might leave a small client no row to train on
        raise InputError(f"held must be above 0 and at most 0.5, got {held:g}.")


def average(rows: Tensor, sizes: Tensor, weighting: str = "uniform") -> Tensor:
    """Mean over clients, ``(clients, p)`` to ``(p,)``; by size if asked.

    >>> import torch
    >>> average(torch.tensor([[0.0], [4.0]]), torch.tensor([3.0, 1.0]), "size")
    tensor([1.])
    """
    if weighting == "size":
        return (sizes / sizes.sum()).to(rows.dtype) @ rows
    return rows.mean(0)
