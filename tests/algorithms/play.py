"""Rounds of an algorithm by hand, for tests that look at the server's state."""

import numpy as np
import torch

from pfedfair.algorithms import Clients


def clients(federation, network, ids=None):
    """Put all clients side by side, or those given."""
    ids = list(range(len(federation)) if ids is None else ids)
    rows = [federation.partition.train[i] for i in ids]
    return Clients(network, federation.table, rows, ids, seed=0)


def play(federation, algorithm, network, rounds):
    """Return the server's state after every round, the first one included."""
    everyone = clients(federation, network)
    sizes = torch.from_numpy(federation.sizes).float()
    states = [algorithm.start_server(network.init(np.random.default_rng(0)), sizes)]
    for t in range(rounds):
        sent, _ = algorithm.client_round(states[-1], {}, everyone, t)
        states.append(algorithm.server_round(states[-1], sent, sizes))
    return states
