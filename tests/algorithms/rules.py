"""Rules of transport, and what they do to a distribution of scores."""

import numpy as np
import torch
from scipy.special import logit

from pfedfair.networks import Thresholds, linear
from pfedfair.theory import rule as theory
from pfedfair.theory import shrinkage

SCORER = Thresholds(linear(2))  # its inputs are a logit, which it leaves alone, and S


def centres(bins):
    return logit((np.arange(bins) + 0.5) / bins)


def chances(rule, z):
    """What a rule decides at logits z in both groups, ``(2, len(z))``, as the network does it."""
    w = torch.cat([torch.tensor([1.0, 0, 0]), torch.from_numpy(rule)]).float()
    x = np.stack([np.tile(z, 2), np.repeat([0, 1], len(z))], axis=1).astype(np.float32)
    both = SCORER.chances(w[None], torch.from_numpy(x)[None])[0].double().numpy()
    np.testing.assert_allclose(both.sum(1), 1, rtol=1e-6)
    return both[:, 1].reshape(2, -1)


def knows(eta, pooled=None, prior=shrinkage.FLAT):
    """What a server knows, for `solve`; `eta` is that of label 1, ``(2, bins)``."""
    pooled = np.zeros_like(eta) if pooled is None else pooled
    known = {"eta": np.stack([1 - eta, eta], axis=1), "counts": pooled.astype(float)}
    return {name: torch.from_numpy(v) for name, v in (known | {"prior": prior}).items()}


def solve(algorithm, server, counts, share, seed=0):
    """A client's rule; `share` is its share of S = 1."""
    shares = np.array([1 - share, share])
    return algorithm.solve(server, counts, shares, np.random.default_rng(seed))


def outcome(positive, eta, shapes, share):
    """Expected accuracy, and rate of S=1 less that of S=0, of decisions ``(2, bins)``."""
    mass = np.array([[1 - share], [share]]) * shapes
    rates = (positive * shapes).sum(1)
    return theory.accuracy(positive, eta, mass), rates[1] - rates[0]


def shape_of(counts):
    return counts / counts.sum(1, keepdims=True)
