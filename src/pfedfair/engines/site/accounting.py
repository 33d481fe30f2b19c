r"""An upper bound on the total privacy cost of many noisy answers, by Rényi divergences.

The Rényi divergence of order :math:`\alpha` between a site's answers with and without a row (or of
two tables) adds up over answers, also if the server chooses each question by the answers before
(Feldman and Zrnic, 2021, arXiv:2008.11193). Of one answer it is at most

.. math:: \frac{\alpha}{2 z^2}, \qquad
    \frac{\log(p^\alpha q^{1 - \alpha} + q^\alpha p^{1 - \alpha})}{\alpha - 1}, \quad
    p = 1 - q = \frac{1}{1 + e^{-\varepsilon}}

for discrete Gaussian noise with a standard deviation of z times the sensitivity (Canonne, Kamath
and Steinke, 2020, arXiv:2004.00010: concentrated privacy, which adds up over coordinates), and for
discrete Laplace noise: the likelihood ratio of two counts that differ by 1 is
:math:`e^{\pm\varepsilon}`, with these probabilities. A total of R gives, for each order (page 13 of
version 3 there),

.. math:: \varepsilon = R + \log\Bigl(1 - \frac1\alpha\Bigr)
    - \frac{\log(\alpha \delta)}{\alpha - 1}.
"""

from collections.abc import Mapping
from math import exp, log1p, sqrt

import numpy as np

ORDERS = 1 + np.geomspace(1e-3, 1e7, 4000)  # any order gives a bound


def epsilon_of(gaussian: Mapping[float, int], laplace: Mapping[float, int], delta: float) -> float:
    """Return a bound on the total epsilon of all answers with noise, at a `delta`.

    Parameters
    ----------
    gaussian
        Number of answers by their z, the standard deviation over the sensitivity.
    laplace
        Number of answers by their epsilon, the sensitivity over the scale.
    """
    total = sum(n / (2 * z**2) for z, n in gaussian.items()) * ORDERS
    for epsilon, n in laplace.items():
        total += n * _laplace_divergence(epsilon)
    found = float((total + _conversion(delta)).min())
    if not gaussian:  # the order infinity
        found = min(found, sum(n * epsilon for epsilon, n in laplace.items()))
    return max(found, 0.0)


def relative_noise(epsilon: float, delta: float) -> float:
    """Return the z of one answer with Gaussian noise that costs `epsilon` at most, at `delta`."""
    rho = float(((epsilon - _conversion(delta)) / ORDERS).max())
    return (1 + 1e-9) / sqrt(2 * rho)  # more than the rounding errors


def _conversion(delta: float) -> np.ndarray:
    return np.asarray(np.log1p(-1 / ORDERS) - np.log(ORDERS * delta) / (ORDERS - 1))


def _laplace_divergence(epsilon: float) -> np.ndarray:
    log_p = -log1p(exp(-epsilon))
    log_q = log_p - epsilon
    a = ORDERS * log_p + (1 - ORDERS) * log_q
    b = ORDERS * log_q + (1 - ORDERS) * log_p
    return np.asarray(np.logaddexp(a, b) / (ORDERS - 1))
