r"""Scores to probabilities, from counts alone.

Beta calibration (Kull, Silva Filho and Flach, AISTATS 2017): with score p,

.. math:: \operatorname{logit} \eta = a \log p - b \log(1 - p) + c, \qquad a, b > 0

which is temperature scaling (Guo et al., ICML 2017) for a = b, c = 0, and the score itself for
a = b = 1. It is fitted to counts of labels in bins of the score, so a server can fit it to the sum
of many clients' counts.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

KINDS = ("score", "temperature", "beta")
RIDGE = 1.0  # pulls towards the score itself, as strongly as about one person


def calibrate(counts: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, str]:
    """Return eta = P(Y=1) in every bin, and which kind of calibration it is.

    The kind with the least loss on the other fold is fitted to both folds.

    Parameters
    ----------
    counts
        People by fold, label and bin, ``(2, 2, bins)``.
    z
        Logits of the bins' scores, ``(bins,)``.
    """
    losses = {kind: sum(_loss(fit(counts[k], z, kind), counts[1 - k], z) for k in (0, 1))
              for kind in KINDS}  # fmt: skip
    best = min(KINDS, key=lambda kind: losses[kind])
    return expit(_logit(fit(counts.sum(0), z, best), z)), best


def fit(counts: np.ndarray, z: np.ndarray, kind: str) -> np.ndarray:
    """Return a, b and c for counts ``(2, bins)`` of labels 0 and 1."""
    start = np.array([1.0, 1.0, 0.0])
    if kind == "score":
        return start
    spread = np.array([[1.0, 1.0, 0.0]]) if kind == "temperature" else np.eye(3)

    def value(free: np.ndarray) -> tuple[float, np.ndarray]:
        beta = free @ spread
        slope = counts.sum(0) * expit(_logit(beta, z)) - counts[1]
        ridge = RIDGE * (beta - start)
        total = _loss(beta, counts, z) + ridge @ (beta - start) / 2
        return float(total), np.asarray(spread @ (_features(z) @ slope + ridge))

    bounds = [(1e-3, None), (1e-3, None), (None, None)][: len(spread)]
    found = minimize(value, start[: len(spread)], jac=True, bounds=bounds, method="L-BFGS-B")
    return np.asarray(found.x @ spread)


def _features(z: np.ndarray) -> np.ndarray:
    return np.stack([log_expit(z), -log_expit(-z), np.ones_like(z)])


def _logit(beta: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.asarray(beta @ _features(z))


def _loss(beta: np.ndarray, counts: np.ndarray, z: np.ndarray) -> float:
    logit = _logit(beta, z)
    return float(-(counts[1] * log_expit(logit) + counts[0] * log_expit(-logit)).sum())
