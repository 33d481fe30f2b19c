"""Rounds of an algorithm by hand, for tests that look at the server's state."""

import numpy as np
import torch

from pfedfair.methods import Clients
from pfedfair.models import MLP
from pfedfair.runs.predictor import Predictor, count


def clients(federation, network, ids=None):
    """Put all clients side by side, or those given."""
    ids = list(range(len(federation)) if ids is None else ids)
    rows = [federation.partition.train[i] for i in ids]
    return Clients(network, federation.table, rows, ids, seed=0)


def small_network(federation, algorithm):
    """An MLP of five neurons, or none where the method wants a linear network."""
    hidden = () if algorithm.linear else (5,)
    return MLP(federation.encoder.width, hidden, groups=2)


def play(federation, algorithm, network, rounds):
    """Return the server's state after every round, the first one included."""
    everyone = clients(federation, network)
    sizes = torch.from_numpy(federation.sizes).float()
    states = [algorithm.start_server(network.init(np.random.default_rng(0)), sizes)]
    for t in range(rounds):
        sent, _ = algorithm.client_round(states[-1], {}, everyone, t)
        states.append(algorithm.server_round(states[-1], sent, sizes))
    return states


def decided(federation, network, fitted):
    """Count decisions of every client's model on its own training rows."""
    pairs = zip(fitted.theta, fitted.rules, strict=True)
    predictors = [Predictor(network, theta, rule) for theta, rule in pairs]
    return count(predictors, federation.table, federation.partition.train)


def numbers(rules):
    """All clients' rules, a row for each."""
    return torch.stack([rule.numbers for rule in rules])
