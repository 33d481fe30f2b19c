r"""Shrinkage of a client's score distributions towards those of all other clients.

A client's scores in one group are n counts in bins; all others' have the shape q. The client's
own shape is taken as a draw from a Dirichlet distribution around q,

.. math:: p \sim \operatorname{Dirichlet}(\kappa q), \qquad n \sim \operatorname{Multinomial}(p)

so its posterior mean is :math:`(n + \kappa q) / (N + \kappa)`: its own counts, and the pooled shape
with the weight of kappa rows. The marginal likelihood of n (Dirichlet-multinomial) gives a
posterior of kappa: large if the counts look like a sample of q, small if they do not. kappa is
averaged over a grid, rather than maximised: from one histogram the maximum is often at an end.

The prior of kappa can be estimated from many clients (empirical Bayes, by EM): each sends its
posterior given its counts, and the mean over the clients, and over one more with a uniform
posterior, is the next round's prior. So a client with few rows relies on the estimate from all.
"""

import numpy as np
from scipy.special import gammaln

KAPPAS = np.logspace(0, 6, 49)
CELLS = 16  # in which shapes are compared: a small client has rows in most of them
FLAT = np.full(len(KAPPAS), 1 / len(KAPPAS))
OF_KAPPAS = gammaln(KAPPAS)


def logsumexp(x: np.ndarray, weight: np.ndarray | float = 1.0) -> np.ndarray:
    """Return the log of a weighted sum over the last axis; SciPy's takes ten times as long."""
    top = x.max(-1)
    return np.asarray(top + np.log((weight * np.exp(x - top[..., None])).sum(-1)))


def kappa_posterior(counts: np.ndarray, q: np.ndarray, prior: np.ndarray = FLAT) -> np.ndarray:
    """Return the probability of each of `KAPPAS` given counts and the pooled shape, ``(..., 49)``.

    `prior` is their probability before any counts; by default all are equally likely. Counts and
    shapes are ``(..., bins)``; each has a posterior that does not depend on the others.
    """
    posterior = kappa_likelihood(counts, q) + np.log(prior)
    return np.asarray(np.exp(posterior - logsumexp(posterior)[..., None]))


def kappa_likelihood(counts: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the log-likelihood of each of `KAPPAS`, ``(..., 49)``.

    Cells without mass in q, which follow from a bin with much of it, are ignored.
    """
    n, shape = _in_cells(counts, q)
    found = np.empty((*shape.shape[:-1], len(KAPPAS)))
    filled = shape > 0
    number = filled.sum(-1)
    for cells in np.unique(number):  # rows with equal numbers of cells at once
        rows = number == cells
        here = rows[..., None] & filled
        own, mass = (each[here].reshape(rows.sum(), 1, cells) for each in (n, shape))
        alpha = KAPPAS[:, None] * mass
        likelihood = (gammaln(own + alpha) - gammaln(alpha)).sum(-1)
        found[rows] = likelihood + (OF_KAPPAS - gammaln(own.sum(-1) + KAPPAS))
    return found


def _in_cells(counts: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return counts and shapes in `CELLS` cells of equal mass in q, ``(..., 16)``."""
    cell = np.minimum((np.cumsum(q, -1) - q / 2) * CELLS, CELLS - 1).astype(int)
    cell = cell.reshape(-1, q.shape[-1])
    cell += CELLS * np.arange(len(cell))[:, None]  # separate cells for each row
    n, shape = (
        np.bincount(cell.ravel(), each.ravel(), CELLS * len(cell)).reshape(*q.shape[:-1], CELLS)
        for each in (counts, q)
    )
    return n, shape


def own_weight(counts: np.ndarray, q: np.ndarray, prior: np.ndarray = FLAT) -> np.ndarray:
    """Return the weight of the client's own counts in its posterior mean, N / (N + kappa)."""
    n = counts.sum(-1)[..., None]
    return np.asarray((kappa_posterior(counts, q, prior) * n / (n + KAPPAS)).sum(-1))


def worth(seen: np.ndarray, unseen: np.ndarray) -> float:
    """Return how many unseen rows a seen one is worth, between 0 and 1.

    Seen rows are those that a model was trained on: their scores may be distributed differently.
    Their shape is worth kappa rows in total.
    """
    n, m = unseen.sum(), seen.sum()
    if min(n, m) < 1e-9:  # no rows
        return 1.0
    weight = float(own_weight(unseen, spread(seen)))
    return float(min(1.0, n * (1 - weight) / weight / m))


def spread(pooled: np.ndarray) -> np.ndarray:
    """Return the pooled distribution over the cells, with one more row spread over all cells."""
    return np.asarray((pooled + 1 / pooled.shape[-1]) / (pooled.sum(-1, keepdims=True) + 1))


def posterior_mean(counts: np.ndarray, q: np.ndarray, weight: np.ndarray | float) -> np.ndarray:
    """Mix a client's own shape, with `weight`, and the pooled one."""
    n, own = counts.sum(-1, keepdims=True), np.asarray(weight)[..., None]
    return np.where(n == 0, q, own * counts / np.where(n == 0, 1.0, n) + (1 - own) * q)


def posterior_draws(
    counts: np.ndarray,
    pooled: np.ndarray,
    draws: int,
    rng: np.random.Generator,
    kappa: float | None = None,
    prior: np.ndarray = FLAT,
    factors: np.ndarray | None = None,
) -> np.ndarray:
    """Draw a client's shapes from the posterior, ``(draws, bins)``; the pooled shape is drawn, too.

    So is kappa, unless it is given. Where no other client has rows of the group, there is no pool.
    `factors` ``(draws, bins)`` multiply the pooled shape by draws of the client's effects
    (`theory.effects`).
    """
    if pooled.sum() == 0 and counts.sum() >= 1:
        kappa = 0.0
    smoothed = pooled + 1 / len(pooled)  # one row more, spread over all bins
    q, mean = rng.dirichlet(smoothed, draws), smoothed / smoothed.sum()
    if factors is not None:
        q, moved = q * factors, mean * factors
        q /= q.sum(1, keepdims=True)
        mean = (moved / moved.sum(1, keepdims=True)).mean(0)
    if kappa is None:
        kappas = rng.choice(KAPPAS, draws, p=kappa_posterior(counts, mean, prior))
    else:
        kappas = np.full(draws, np.clip(kappa, 1e-9, 1e12))
    gamma = rng.gamma(counts + kappas[:, None] * q + 1e-12)
    return np.asarray(gamma / gamma.sum(1, keepdims=True))
