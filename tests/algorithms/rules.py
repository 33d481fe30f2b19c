"""Rules of transport, and what they do to a distribution of scores."""

import numpy as np
import torch
from scipy.special import logit

from pfedfair.networks import Thresholds, linear
from pfedfair.theory import rule as theory

SCORER = Thresholds(linear(2))  # its inputs are a logit, which it leaves alone, and S


def centres(bins):
    return logit((np.arange(bins) + 0.5) / bins)


def chances(rule, z):
    """What a rule decides at logits z in both groups, ``(2, len(z))``, as the network does it."""
    w = torch.cat([torch.tensor([1.0, 0, 0]), torch.from_numpy(rule)]).float()
    x = np.stack([np.tile(z, 2), np.repeat([0, 1], len(z))], axis=1).astype(np.float32)
    return SCORER.chance(w[None], torch.from_numpy(x)[None]).double().numpy().reshape(2, -1)


def knows(eta, pooled=None):
    """What a server knows, for `solve`."""
    pooled = np.zeros_like(eta) if pooled is None else pooled
    return {"eta": torch.from_numpy(eta), "counts": torch.from_numpy(pooled.astype(float))}


def solve(algorithm, server, counts, share, seed=0):
    return algorithm.solve(server, counts, share, np.random.default_rng(seed))


def outcome(positive, eta, shapes, share):
    """Expected accuracy, and rate of S=1 less that of S=0, of decisions ``(2, bins)``."""
    mass = np.array([[1 - share], [share]]) * shapes
    rates = (positive * shapes).sum(1)
    return theory.accuracy(positive, eta, mass), rates[1] - rates[0]


def shape_of(counts):
    return counts / counts.sum(1, keepdims=True)
