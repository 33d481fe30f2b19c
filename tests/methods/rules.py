"""Rules of transport, and what they do to a distribution of scores."""

from dataclasses import fields

import numpy as np
import torch
from scipy.special import expit, logit

from pfedfair.data.task import Task
from pfedfair.methods.transport import Transport
from pfedfair.methods.transport.solver import Solver
from pfedfair.rules import Thresholds
from pfedfair.theory import shrinkage
from pfedfair.theory.belief import Belief


def centres(bins):
    return logit((np.arange(bins) + 0.5) / bins)


def chances(rule, z):
    """What a rule decides at logits z in both groups, ``(2, len(z))``, in float32 as it is kept."""
    logits = torch.from_numpy(np.tile(z, 2).astype(np.float32))[:, None]
    s = torch.arange(2).repeat_interleave(len(z))
    both = Thresholds(torch.from_numpy(rule).float().view(2, 4)).chances(logits, s).double().numpy()
    np.testing.assert_allclose(both.sum(1), 1, rtol=1e-6)
    return both[:, 1].reshape(2, -1)


def by_bin(rule, bins):
    """The part of each bin's rows that a rule decides 1, ``(2, bins)``: exactly, not at centres."""
    found = []
    for low, high, chance, below in np.asarray(rule, float).reshape(2, 4):
        ends = np.round(bins * expit(np.array([low, high])), 9)
        under, upto = (np.diff(np.minimum(np.arange(bins + 1), end)) for end in ends)
        found.append(below * under + chance * (upto - under) + (1 - upto))
    return np.stack(found)


def estimate(**settings):
    """Transport whose target is for the best guess, and whose decisions may be random draws."""
    return Transport(**{"confidence": 0.0, "max_randomised": 1.0} | settings)


def knows(eta, pooled=None, prior=shrinkage.FLAT):
    """What a server knows, for `solve`; `eta` is that of label 1, ``(2, bins)``."""
    pooled = np.zeros_like(eta) if pooled is None else pooled
    known = {"eta": np.stack([1 - eta, eta], axis=1), "counts": pooled.astype(float)}
    return {name: torch.from_numpy(v) for name, v in (known | {"prior": prior}).items()}


def solve(algorithm, server, counts, share, seed=0):
    """The numbers of a client's rule; `share` is its share of S = 1."""
    shares, rng = np.array([1 - share, share]), np.random.default_rng(seed)
    exactly = server | {"w": torch.zeros(1, dtype=torch.float64)}
    return algorithm.solve(exactly, counts, shares, rng, Task()).numbers.flatten().numpy()


def solver(algorithm):
    """What of a method a client's rule depends on."""
    return Solver(**{field.name: getattr(algorithm, field.name) for field in fields(Solver)})


def guesses(algorithm, counts, pooled):
    """The shapes that a client takes its groups to have, without any agreement."""
    prior = shrinkage.FLAT
    return Belief(counts=counts, pooled=pooled, prior=prior, kappa=algorithm.kappa).shapes


def rows(server, counts):
    """Every client's rows by group and cell, from its counts of held and of trained ones."""
    return counts["held"].sum((1, 3)) + server["trust"][:, None] * counts["trained"]


def outcome(positive, eta, shapes, share):
    """Expected accuracy, and rate of S=1 less that of S=0, of decisions ``(2, bins)``."""
    mass = np.array([[1 - share], [share]]) * shapes
    rates = (positive * shapes).sum(1)
    right = positive * eta + (1 - positive) * (1 - eta)
    return (mass * right).sum(), rates[1] - rates[0]


def shape_of(counts):
    return counts / counts.sum(1, keepdims=True)
