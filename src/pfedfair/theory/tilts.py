r"""Shifted and rescaled shapes, and the likelihood of a client's counts.

All other clients' scores in a group have the shape q; in the units of q's own normal scores u a
client's are

.. math:: p_\theta \propto q \exp\bigl(\theta_1 u + \theta_2 (u^2 - 1) / \sqrt2\bigr)

see `theory.effects`. Clients and groups are leading axes. Each client gets the same numbers to
the last bit in a stack or not (a site has one client), so sums are over an axis of their own, and
products are one matrix product for each client.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from pfedfair.theory.shrinkage import logsumexp

OF_GROUP = 2  # effects: location and scale
WIDE = 1.0  # the standard deviation of the prior under which a likelihood is quadratic
STEPS, SMALL = 50, 1e-9  # of Newton's method: their maximal number, and the size at which to stop


def times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Multiply each of many matrices with its vector."""
    return np.asarray((matrix @ vector[..., None])[..., 0])


def basis(q: np.ndarray) -> np.ndarray:
    """Return location and scale as functions ``(..., 2, bins)`` with mean 0 under q."""
    u = ndtri(np.clip(np.cumsum(q, -1) - q / 2, 0.00135, 0.99865))  # three standard deviations
    u -= np.vecdot(q, u)[..., None]
    wide = np.sqrt(np.vecdot(q, u**2))[..., None]
    # All rows may have the same score, or nearly all: outliers are clipped then.
    u = np.where(wide > 1e-6, np.clip(u / np.maximum(wide, 1e-6), -4, 4), 0.0)
    both = np.stack([u, (u**2 - 1) / np.sqrt(2)], axis=-2)
    return np.asarray(both - times(both, q)[..., None])


def factors(q: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Return p_theta / q, up to a factor, for each of ``(n, 2)`` thetas: ``(n, bins)``."""
    return _factors(theta @ basis(q))


def tilted(q: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Return p_theta for each of ``(n, 2)`` thetas, ``(n, bins)``; all zeros where q is."""
    return by_power(q, theta @ basis(q))


def by_power(q: np.ndarray, power: np.ndarray) -> np.ndarray:
    """Return p_theta from its exponent `power`, ``(..., bins)``."""
    p = _factors(power)
    p *= q
    total = p.sum(-1, keepdims=True)
    p /= np.where(total > 0, total, 1.0)
    return p


def _factors(power: np.ndarray) -> np.ndarray:
    off = power - power.max(-1, keepdims=True)
    return np.asarray(np.exp(off, out=off))


@dataclass(frozen=True, eq=False)
class Likelihood:
    """A client's log-likelihood: ``constant + slope theta - theta' curve theta / 2``.

    It is relative to no effects, so the constant would be 0 if it were exactly quadratic. It is
    flat for groups of which the client, or all others, have no rows.
    """

    slope: np.ndarray  # (..., effects)
    curve: np.ndarray  # (..., effects, effects)
    constant: np.ndarray  # of each group, (..., groups)

    def __getitem__(self, i: int) -> Likelihood:
        """Return client i's likelihood."""
        return Likelihood(self.slope[i].copy(), self.curve[i].copy(), self.constant[i].copy())

    def times(self, part: np.ndarray) -> Likelihood:
        """Return the likelihood with each group's rows weighted by `part`."""
        each = np.repeat(part, OF_GROUP, axis=-1)
        return Likelihood(self.slope * each, self.curve * each[..., None], self.constant * part)


def likelihood(counts: np.ndarray, shapes: np.ndarray) -> Likelihood:
    """Approximate the likelihood by clients' counts and pooled shapes, ``(..., groups, bins)``.

    Groups with a zero shape are left out.
    """
    *clients, groups, bins = counts.shape
    n, q = counts.reshape(-1, bins), shapes.reshape(-1, bins)  # a row for each client's group
    rows = np.flatnonzero((n.sum(1) > 0) & (q.sum(1) > 0))
    slope, constant = np.zeros((len(n), OF_GROUP)), np.zeros(len(n))
    slope[rows], bent, constant[rows] = _quadratic(n[rows], q[rows])
    size, at = OF_GROUP * groups, OF_GROUP * (rows % groups)
    curve = np.zeros((len(n) // groups, size, size))
    for i in range(OF_GROUP):
        for j in range(OF_GROUP):
            curve[rows // groups, at + i, at + j] = bent[:, i, j]
    return Likelihood(
        slope.reshape(*clients, size),
        curve.reshape(*clients, size, size),
        constant.reshape(*clients, groups),
    )


def _quadratic(n: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return slope, curve and constant of each row."""
    u = basis(q)
    theta, bent = _peak(n, q, u)
    rise = times(bent, theta) + theta / WIDE**2
    power = times(u.transpose(0, 2, 1), theta)
    height = np.vecdot(power, n) - n.sum(1) * logsumexp(power, q)
    constant = height - np.vecdot(rise, theta) + np.vecdot(times(bent, theta), theta) / 2
    return rise, bent, constant


def _peak(counts: np.ndarray, q: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the peak of the likelihood times a wide prior, and the likelihood's curvature there.

    Each row takes Newton steps until it has converged.
    """
    found = np.zeros((len(counts), OF_GROUP)), np.zeros((len(counts), OF_GROUP, OF_GROUP))
    rows, prior = np.arange(len(counts)), np.eye(OF_GROUP) / WIDE**2
    theta, seen, n = found[0], times(u, counts), counts.sum(1)[:, None]
    for _ in range(STEPS):
        p = by_power(q, times(u.transpose(0, 2, 1), theta))
        mean = times(u, p)
        spread = (u * p[:, None]) @ u.transpose(0, 2, 1) - mean[:, :, None] * mean[:, None]
        bent = n[:, :, None] * spread
        rise = seen - n * mean - theta / WIDE**2
        step = np.linalg.solve(bent + prior, rise[:, :, None])[:, :, 0]
        length = np.abs(step).max(1)
        theta = theta + step * np.minimum(1.0, 0.5 / np.maximum(length, 1e-300))[:, None]
        found[0][rows], found[1][rows] = theta, bent
        going = length >= SMALL
        if not going.any():
            break
        if not going.all():
            rows, theta, q, u, seen, n = (each[going] for each in (rows, theta, q, u, seen, n))
    return found
