r"""The exact total privacy cost of many noisy answers.

The privacy loss of an answer is a random variable: for Gaussian noise with a standard deviation of
z times the sensitivity it is normal, with mean :math:`1 / 2 z^2` and variance :math:`1 / z^2`. The
losses of several answers add up, and delta is the expected excess over epsilon:

.. math:: \delta(\varepsilon) = E \max(0, 1 - e^{\varepsilon - L})

Normal losses add up to a normal one, so that for Gaussian noise this is a formula (Balle and Wang,
2018, arXiv:1805.06083). For Laplace noise the distribution of the sum is computed on a grid, with
every loss rounded up: the result is never too small (Koskela, Jälkö and Honkela, 2020,
arXiv:1906.03049).
"""

from collections.abc import Callable, Mapping
from math import exp, sqrt

import numpy as np
from scipy.special import log_ndtr, ndtr

STEP = 1e-4  # of the grid, or more if it would have too many points
MAX_POINTS = 2**21
TAIL = 9.0  # standard deviations of a normal loss; the rest counts as lost


def epsilon_of(gaussian: Mapping[float, int], laplace: Mapping[float, int], delta: float) -> float:
    """Return the total epsilon of all answers with noise, at a `delta`.

    Parameters
    ----------
    gaussian
        Number of answers by their z, the standard deviation over the sensitivity.
    laplace
        Number of answers by their epsilon, the sensitivity over the scale.
    """
    mu = sqrt(sum(n / z**2 for z, n in gaussian.items()))
    normal = _solve(lambda epsilon: _gaussian_delta(mu, epsilon), delta) if mu else 0.0
    added = sum(n * epsilon for epsilon, n in laplace.items())  # simple composition holds as well
    if not added:
        return normal
    return min(normal + added, _grid_epsilon(mu, laplace, delta))


def _gaussian_delta(mu: float, epsilon: float) -> float:
    far = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return float(ndtr(mu / 2 - epsilon / mu)) - exp(min(far, 0.0))


def _solve(of: Callable[[float], float], delta: float) -> float:
    """Return the smallest epsilon at which the decreasing function `of` is `delta`."""
    from scipy.optimize import brentq  # slow to import, and not every message has noise

    if of(0.0) <= delta:
        return 0.0
    high = 1.0
    while of(high) > delta:
        high *= 2
    return float(brentq(lambda epsilon: of(epsilon) - delta, 0.0, high, xtol=1e-9))


def _grid_epsilon(mu: float, laplace: Mapping[float, int], delta: float) -> float:
    reach = sum(n * epsilon for epsilon, n in laplace.items()) + mu**2 / 2 + TAIL * mu
    step = max(STEP, 2 * reach / MAX_POINTS)
    parts = [(_laplace_losses(epsilon, step), n) for epsilon, n in laplace.items()]
    lost = 0.0
    if mu:
        parts.append((_normal_losses(mu, step), 1))
        lost = float(ndtr(-TAIL))
    first = sum(n * start for (start, _), n in parts)
    size = 1 + sum(n * (len(probabilities) - 1) for (_, probabilities), n in parts)
    length = 1 << (size - 1).bit_length()
    product = np.ones(length // 2 + 1, dtype=np.complex128)
    for (_, probabilities), n in parts:
        product *= np.fft.rfft(probabilities, length) ** n
    probabilities = np.fft.irfft(product, length)[:size].clip(min=0.0)
    losses = (first + np.arange(size)) * step

    def of(epsilon: float) -> float:
        beyond = losses > epsilon
        return lost + float(probabilities[beyond] @ -np.expm1(epsilon - losses[beyond]))

    return _solve(of, delta)


def _laplace_losses(epsilon: float, step: float) -> tuple[int, np.ndarray]:
    """Return the index of the first grid point, and the probabilities of one answer's losses."""
    first, last = int(np.ceil(-epsilon / step)), int(np.ceil(epsilon / step))
    below = 0.5 * np.exp(-(epsilon - np.arange(first, last) * step) / 2)
    return first, np.diff([0.0, *below, 1.0])


def _normal_losses(mu: float, step: float) -> tuple[int, np.ndarray]:
    ends = mu**2 / 2 - TAIL * mu, mu**2 / 2 + TAIL * mu
    first, last = int(np.floor(ends[0] / step)), int(np.ceil(ends[1] / step))
    below = ndtr((np.arange(first, last + 1) * step - mu**2 / 2) / mu)
    return first, np.diff([0.0, *below])
