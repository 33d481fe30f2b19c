"""The engine for one machine: all clients of a run in batched passes, a chunk at a time."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pfedfair._util import seeds
from pfedfair.engines.collection import Messages, Models, put
from pfedfair.federation import CHUNK, Federation, chunks
from pfedfair.methods import Clients, Method, State
from pfedfair.methods.phases import total_rounds
from pfedfair.models import Network
from pfedfair.models.base import Buffers
from pfedfair.rules import Rule

MEMORY = 8 * 2**20  # bytes for one chunk: its models, gradients, moments and rows stay in the cache


class Sent(NamedTuple):
    """Messages of one kind that a client sent: the names of their tensors, how many, how large."""

    tensors: tuple[str, ...]
    messages: int
    bytes: int


class Fitted(NamedTuple):
    """The global model ``(p,)``, the clients' personal models ``(clients, p)`` and their rules.

    Where all clients have one model, `theta` is a view that repeats it: do not write to it.
    `server` is the server's last state, by name; `own` the clients' states, if the method needs
    them to retarget; `sent` what each client sent, or would have sent from its own machine.
    """

    w: Tensor
    theta: Tensor
    rules: Sequence[Rule]
    server: State
    own: State
    sent: tuple[Sent, ...] = ()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread: sums, and so all weights, then do not depend on the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def flush_denormal() -> Iterator[None]:
    """Treat denormal numbers as 0: moments of a converged model become denormal, and slow."""
    before = torch.tensor([1e-40]).mul(1.0).item() == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


@flush_denormal()
def fit(
    federation: Federation,
    algorithm: Method,
    network: Network,
    seed: int,
    at_once: int = CHUNK,
    on_work: Callable[[float], None] = lambda work: None,
    on_round: Callable[[int, State], None] = lambda t, server: None,
) -> Fitted:
    """Run `algorithm` on all clients.

    Parameters
    ----------
    at_once
        Maximum number of clients in one batched pass; fewer if memory is short. It affects speed
        and memory, not the result.
    on_work
        Called with the fraction of the work that has just been done (fractions sum to 1).
    on_round
        Called after every round with its number, from 0, and the server's state.
    """
    parts = chunks(
        federation.sizes,
        algorithm.batch,
        1 if network.unbatched else at_once,
        memory=MEMORY,
        client_bytes=8 * 4 * network.size,
        row_bytes=2 * 4 * federation.table.width,
    )
    if algorithm.place == "pooled":
        parts = [np.arange(len(federation))]
    buffers: Buffers = {}
    groups = [
        (
            torch.from_numpy(ids),
            Clients(
                network=network,
                table=federation.table,
                rows=[federation.partition.train[i] for i in ids],
                ids=ids.tolist(),
                seed=seed,
                buffers=buffers,
            ),
        )
        for ids in parts
    ]
    sizes = torch.from_numpy(federation.masses).float()
    cost, rounds = algorithm.cost(), total_rounds(algorithm.phases)
    total = (rounds * cost.per_round + cost.at_end) * len(groups) or 1.0

    server = {"w": network.init(seeds.generator(seed, seeds.INIT))}
    own: list[State] = [{} for _ in groups]
    message_sizes: dict[tuple[str, ...], list[int]] = {}
    done = 0
    for phase in algorithm.phases:
        server = phase.start_server(server, sizes)
        for k, (_, clients) in enumerate(groups):
            own[k] = phase.start_clients(server, own[k], clients)
        for t in range(phase.rounds):
            messages = Messages(phase.sums, sizes)
            for k, (ids, clients) in enumerate(groups):
                sent, own[k] = phase.client_round(server, own[k], clients, t)
                messages.add(ids, sent)
                on_work(cost.per_round / total)
            message_sizes.setdefault(messages.names, []).append(messages.bytes)
            server = phase.server_round(server, *messages.take())
            on_round(done, server)
            done += 1
    if rounds and network.measured:
        chunks_of_clients = [clients for _, clients in groups]
        server = server | {"w": _settled(server["w"], chunks_of_clients, algorithm)}
    models = Models(len(federation))
    states: State = {}
    rules: dict[int, Rule] = {}
    for k, (ids, clients) in enumerate(groups):
        theta = algorithm.personalise(server, own[k], clients)
        theta = clients.settle(theta, algorithm.batch)
        rules |= zip(clients.ids, algorithm.rules(server, own[k], clients), strict=True)
        models.add(ids, theta)
        for name, rows in own[k].items() if algorithm.dial.retargets else ():
            put(states, name, ids, rows, len(federation))
        own[k] = {}
        on_work(cost.at_end / total)
    in_order = [rules[i] for i in range(len(federation))]
    posted = tuple(Sent(names, len(sizes), sum(sizes)) for names, sizes in message_sizes.items())
    return Fitted(server["w"], models.take(), in_order, server, states, posted)


def _settled(w: Tensor, groups: Sequence[Clients], algorithm: Method) -> Tensor:
    """Return the global model with the mean of the statistics of all clients' rows."""
    moved = torch.zeros_like(w)  # exactly 0 for trained parameters
    for clients in groups:
        moved += (clients.settle(clients.replicate(w), algorithm.batch) - w).sum(0)
    return w + moved / sum(map(len, groups))
