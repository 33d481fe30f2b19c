r"""Random effects of clients: shifts of location and scale of their groups' scores.

All other clients' scores in group z have the shape q. In the units of q's own normal scores u
(where q is a standard normal distribution) a client's are moved and stretched,

.. math:: p_\theta \propto q \exp\bigl(\theta_1 u + \theta_2 (u^2 - 1) / \sqrt2\bigr)

which for a normal q is every other normal distribution. A client has two such numbers for each of
its groups. The vector of all of them is one draw from a population of clients,

.. math:: \theta \sim \sum_k \pi_k \, N(\mu, \Sigma_k)

so groups may move together (where incomes are higher, women's are too). k says whether the
client is unusual: not at all, or along one of the axes of Sigma, along which its scale is then 2 or
4 times as large. That gives heavy tails along each axis, as far as clients have them: one outlier
neither makes all others look like outliers, nor is it shrunk as if it were one of them.

The log-likelihood of theta is concave and approximated as quadratic around its peak (under a wide
prior, so that there is one; `theory.tilts`), so all that follows has a closed form. mu, Sigma and
pi are estimated by EM: clients send the posterior mean and square of theta (of unusual clients,
scaled back to a usual one), the probability of each k, and the log evidence; the server needs only
sums of these. One pseudo-client, whose effects are small, is added. The alternative is that there
are no effects, with evidence 0. The evidence for effects is that under the initial parameters or
under the estimated ones, the latter lowered by the gain of as many parameters from fitting noise
(BIC); each counts for half. So homogeneous clients are estimated as homogeneous, and a small number
of clients with few rows is not.

That is for the point estimate. From a small number of clients, differences are underestimated, and
correlations of groups overestimated. Draws for a confidence level therefore add two more
pseudo-clients, whose effects have the initial distribution (`doubted`).

The rest of a client's shape is a draw around p_theta, see `theory.shrinkage`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import expit

from pfedfair.theory.shrinkage import FLAT, KAPPAS, kappa_posterior, logsumexp
from pfedfair.theory.tilts import OF_GROUP, Likelihood, basis, by_power, times

START, SMALL = 0.2, 0.05  # standard deviations of effects: initial, and of the pseudo-client
DOUBT = 2  # pseudo-clients with the initial distribution of effects, for a confidence level
STRETCHES = (2.0, 4.0)  # of an unusual client's scale along an axis
USUAL = 0.9  # initial probability that a client is usual
AT_ONCE = 2**16  # numbers of moved shapes: more would not stay in the processor's cache


@dataclass(frozen=True, eq=False)
class Effects:
    """The estimated population of clients.

    `none` is the probability that there are no effects; `ways` are the probabilities of each k if
    there are, the usual one first. `clients` is the number of clients behind the estimate.
    """

    none: float
    mean: np.ndarray
    covariance: np.ndarray
    ways: np.ndarray
    clients: float = np.inf

    @property
    def vector(self) -> np.ndarray:
        numbers = [self.none, self.clients]
        return np.concatenate([numbers, self.mean, self.covariance.ravel(), self.ways])

    @cached_property
    def doubted(self) -> Effects:
        """The population with `DOUBT` more clients, whose effects have the initial distribution."""
        part = DOUBT / (self.clients + DOUBT)
        at_first = START**2 * np.eye(len(self.mean))
        covariance = (1 - part) * self.covariance + part * at_first
        return replace(self, mean=(1 - part) * self.mean, covariance=covariance)

    @cached_property
    def stretched(self) -> np.ndarray:
        """For each way, the matrix from a usual client's effects to an unusual one's."""
        _, axes = np.linalg.eigh(self.covariance)
        along = np.einsum("ik,jk->kij", axes, axes)  # the projection on each axis
        size = len(self.mean)
        each = [np.eye(size)[None], *(np.eye(size) + (far - 1) * along for far in STRETCHES)]
        return np.concatenate(each)

    @cached_property
    def back(self) -> np.ndarray:
        """For each way, the matrix from an unusual client's effects to a usual one's."""
        return np.linalg.inv(self.stretched)

    @cached_property
    def precision(self) -> np.ndarray:
        """The inverse of each way's covariance."""
        move = self.stretched
        return np.linalg.inv(move @ self.covariance @ move.transpose(0, 2, 1))

    @cached_property
    def apart(self) -> np.ndarray:
        """The part of each way's log evidence that is the same for all clients."""
        _, size = np.linalg.slogdet(self.precision)
        centre = np.einsum("i,kij,j->k", self.mean, self.precision, self.mean)
        return np.asarray(np.log(self.ways) + (size - centre) / 2)


@lru_cache
def unknown(groups: int) -> Effects:
    """Return the initial population: no effects; if there were, they would be independent."""
    size = OF_GROUP * groups
    return Effects(1.0, np.zeros(size), START**2 * np.eye(size), usually(size), 0.0)


def usually(size: int) -> np.ndarray:
    """Return the initial probability of each way."""
    many = len(STRETCHES) * size
    return np.append(USUAL, np.full(many, (1 - USUAL) / many))


def from_vector(vector: np.ndarray, groups: int) -> Effects:
    size = OF_GROUP * groups
    if len(vector) < length(groups) - 1:  # of an older run, without the number of clients
        vector = np.insert(vector, 1, np.inf)
    (none, clients), rest = vector[:2], vector[2:]
    mean, square, ways = rest[:size], rest[size : size + size**2], rest[size + size**2 :]
    return Effects(float(none), mean, square.reshape(size, size), ways, float(clients))


@dataclass(frozen=True, eq=False)
class Mixture:
    """The posterior of a client's theta: a mixture of normals, ``(..., ways)``."""

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        return np.asarray((self.weights[..., None, :] @ self.means)[..., 0, :])

    @property
    def covariance(self) -> np.ndarray:
        off = self.means - self.mean[..., None, :]
        inside = (self.weights[..., None, None] * self.covariances).sum(-3)
        return np.asarray(_transpose(self.weights[..., None] * off) @ off + inside)

    def points(self) -> np.ndarray:
        """Return equally weighted sigma points with the mixture's mean and covariance."""
        value, vector = np.linalg.eigh(self.covariance)
        axes = _transpose(vector * np.sqrt(value.shape[-1] * value.clip(min=0))[..., None, :])
        mean = self.mean[..., None, :]
        return np.concatenate([mean + axes, mean - axes], axis=-2)

    def draw(self, number: int, rng: np.random.Generator) -> np.ndarray:
        """Draw thetas of one client, ``(number, effects)``."""
        which = rng.choice(len(self.weights), number, p=self.weights)
        value, vector = np.linalg.eigh(self.covariances)
        root = vector * np.sqrt(value.clip(min=0))[:, None]
        normal = rng.normal(size=(number, self.means.shape[1]))
        return np.asarray(self.means[which] + np.einsum("nij,nj->ni", root[which], normal))


def _transpose(matrix: np.ndarray) -> np.ndarray:
    return np.swapaxes(matrix, -1, -2)


def posterior(of_client: Likelihood, effects: Effects) -> tuple[Mixture, np.ndarray]:
    """Return the posterior of theta if there are effects, by way, and the log evidence.

    The evidence is relative to a client without effects.
    """
    covariance = np.linalg.inv(of_client.curve[..., None, :, :] + effects.precision)
    pull = of_client.slope[..., None, :] + effects.precision @ effects.mean
    mean = times(covariance, pull)
    _, size = np.linalg.slogdet(covariance)
    evidence = effects.apart + (size + (pull * mean).sum(-1)) / 2
    total = logsumexp(evidence)
    found = Mixture(np.exp(evidence - total[..., None]), mean, covariance)
    return found, total + of_client.constant.sum(-1)


def statistics(of_client: Likelihood, effects: Effects) -> np.ndarray:
    """Return what a client sends: 1, its effects and their squares, its ways, two log evidences.

    Effects are relative to the mean, scaled back to a usual client. The evidences are that under
    the current estimate and that under the initial population.
    """
    found, evidence = posterior(of_client, effects)
    _, at_first = posterior(of_client, unknown(len(effects.mean) // OF_GROUP))
    off = times(effects.back, found.means - effects.mean)
    covariances = effects.back @ found.covariances @ _transpose(effects.back)
    mean = (found.weights[..., None, :] @ off)[..., 0, :]
    square = _transpose(off) @ (found.weights[..., None] * off)
    square += (found.weights[..., None, None] * covariances).sum(-3)
    one, evidences = np.ones_like(evidence)[..., None], np.stack([evidence, at_first], axis=-1)
    squares = square.reshape(*one.shape[:-1], -1)
    return np.concatenate([one, mean, squares, found.weights, evidences], axis=-1)


def length(groups: int) -> int:
    """Return how many numbers a client sends."""
    return len(unknown(groups).vector) + 1


def learn(sums: np.ndarray, before: Effects) -> Effects:
    """Estimate the population anew from the sums of clients' `statistics`."""
    size = len(before.mean)
    number, mean, rest = sums[0], sums[1 : 1 + size], sums[1 + size :]
    square, ways, evidence = (
        rest[: size * size].reshape(size, size),
        rest[size * size : -2],
        sums[-2:],
    )
    if number < 0.5:
        return before
    shift = mean / number
    covariance = square - number * np.outer(shift, shift)
    covariance = (covariance + SMALL**2 * np.eye(size)) / (number + 1)
    parameters = size + size * (size + 1) / 2
    fitted = evidence[0] - parameters / 2 * np.log(number + 1)
    better = np.logaddexp(fitted, evidence[1]) - np.log(2)
    return Effects(
        float(expit(-better)),
        before.mean + shift,
        (covariance + covariance.T) / 2,
        (ways + usually(size)) / (number + 1),
        float(number),
    )


def around_likelihood(
    of_client: Likelihood,
    counts: np.ndarray,
    shapes: np.ndarray,
    effects: Effects,
    prior: np.ndarray = FLAT,
) -> Likelihood:
    """Return the likelihood of theta if clients' shapes are drawn around p_theta.

    `of_client` is that of counts drawn from p_theta itself (`tilts.likelihood`). Given kappa, N
    rows count as (1 + kappa) N / (N + kappa), averaged over the posterior of kappa.
    """
    rows = counts.sum(-1)
    around = centres(shapes, mixture(of_client, effects))
    counted = (rows > 0) & (shapes.sum(-1) > 0)
    kappas = np.where(counted[..., None], kappa_posterior(counts, around, prior), prior)
    fewer = (np.maximum(rows, 1.0)[..., None] + KAPPAS) / (1 + KAPPAS)
    return of_client.times(1 / np.vecdot(kappas, fewer))


def mixture(of_client: Likelihood, effects: Effects) -> Mixture:
    """Return the posterior of theta, including the case of no effects."""
    found, _ = posterior(of_client, effects)
    none = np.full_like(found.weights[..., :1], effects.none)
    return Mixture(
        np.concatenate([(1 - effects.none) * found.weights, none], axis=-1),
        np.concatenate([found.means, np.zeros_like(found.means[..., :1, :])], axis=-2),
        np.concatenate([found.covariances, np.zeros_like(found.covariances[..., :1, :, :])], -3),
    )


def centres(shapes: np.ndarray, found: Mixture) -> np.ndarray:
    """Return the mean of each group's p_theta, ``(..., groups, bins)``."""
    points, bins = found.points(), shapes.shape[-1]
    by_group = points.reshape(*points.shape[:-1], -1, OF_GROUP).swapaxes(-2, -3)
    theta, u = by_group.reshape(-1, *by_group.shape[-2:]), basis(shapes).reshape(-1, OF_GROUP, bins)
    q = shapes.reshape(-1, bins)  # a row for each client's group
    mean, at_once = np.empty_like(q), max(1, AT_ONCE // (theta.shape[1] * bins))
    for k in range(0, len(q), at_once):
        block = slice(k, k + at_once)
        mean[block] = by_power(q[block, None], theta[block] @ u[block]).mean(1)
    return mean.reshape(shapes.shape)
