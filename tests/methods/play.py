"""Rounds of a method by hand, for tests that look at its states."""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pfedfair.methods import Clients, Method, State
from pfedfair.methods.phases import Phase
from pfedfair.models import MLP
from pfedfair.runs.predictor import Predictor, count


class Round(NamedTuple):
    """A round `t` of a phase: the states before it, the messages, the states after it."""

    phase: Phase
    t: int
    server: State
    own: State
    sent: State
    kept: State
    after: State


def clients(federation, network, ids=None):
    """Put all clients in one stack, or those given."""
    ids = list(range(len(federation)) if ids is None else ids)
    rows = [federation.partition.train[i] for i in ids]
    return Clients(network, federation.table, rows, ids, seed=0)


def small_network(federation, algorithm):
    """Return an MLP of five neurons, or none where the method requires a linear network."""
    hidden = () if algorithm.supports.linear_only else (5,)
    return MLP(federation.encoder.width, hidden, groups=2)


def rounds(
    algorithm: Method, all_clients: Clients, w: Tensor | None = None, sizes: Tensor | None = None
) -> Iterator[Round]:
    """Yield all rounds of all phases, from the initial model `w`."""
    sizes = (
        torch.tensor([float(len(rows)) for rows in all_clients.rows]) if sizes is None else sizes
    )
    server = {"w": all_clients.network.init(np.random.default_rng(0)) if w is None else w}
    own: State = {}
    for phase in algorithm.phases:
        server, own = start(phase, server, own, all_clients, sizes)
        for t in range(phase.rounds):
            sent, kept = phase.client_round(server, own, all_clients, t)
            after = phase.server_round(server, sent, sizes)
            yield Round(phase, t, server, own, sent, kept, after)
            server, own = after, kept


def final(algorithm, all_clients):
    """Return what the server and the clients have after all phases."""
    played = list(rounds(algorithm, all_clients))
    if played:
        return played[-1].after, played[-1].kept
    server, own = {"w": all_clients.network.init(np.random.default_rng(0))}, {}
    sizes = torch.ones(len(all_clients))
    for phase in algorithm.phases:
        server, own = start(phase, server, own, all_clients, sizes)
    return server, own


def start(phase, server, own, all_clients, sizes):
    """Return the states with which a phase begins."""
    server = phase.start_server(server, sizes)
    return server, phase.start_clients(server, own, all_clients)


def play(federation, algorithm, network, number):
    """Return the server's state before the first and after each of some rounds."""
    played = list(islice(rounds(algorithm, clients(federation, network)), number))
    assert len(played) == number, "the method has fewer rounds"
    return [played[0].server, *(one.after for one in played)]


def decided(federation, network, fitted):
    """Count decisions of every client's model on its own training rows."""
    pairs = zip(fitted.theta, fitted.rules, strict=True)
    predictors = [Predictor(network, theta, rule) for theta, rule in pairs]
    return count(predictors, federation.table, federation.partition.train)


def numbers(rules):
    """Return all clients' rules, a row for each."""
    return torch.stack([rule.numbers for rule in rules])
