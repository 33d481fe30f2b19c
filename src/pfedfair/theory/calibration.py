r"""Scores to probabilities, from counts alone.

Beta calibration (Kull, Silva Filho and Flach, AISTATS 2017): with score p,

.. math:: \operatorname{logit} \eta = a \log p - b \log(1 - p) + c, \qquad a, b > 0

which is temperature scaling (Guo et al., ICML 2017) for a = b, c = 0, and the score itself for
a = b = 1. It is fitted to counts of labels in bins of the score, so a server can fit it to the sum
of many clients' counts. With more than two classes every class c has its own
:math:`a_c \log p_c + b_c`, a softmax of which is eta (vector scaling, Guo et al.); a
temperature is one a for all of them.
"""

import numpy as np
from scipy.special import expit, log_expit, log_softmax, logit, softmax

KINDS = ("score", "temperature", "beta")
LEAST = 1e-3  # of a and b
STEPS, SMALL = 100, 1e-10  # of Newton's method: at the most, and the last
RIDGE = 1.0  # pulls towards the score itself, as strongly as about one person


def calibrate(counts: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, str]:
    """Return eta = P(Y=c) in every cell, ``(classes, cells)``, and the kind of calibration.

    The kind with the least loss on the other fold is fitted to both folds.

    Parameters
    ----------
    counts
        People by fold, label and cell, ``(2, classes, cells)``.
    centres
        The cells' scores, ``(cells, classes)``.
    """
    if centres.shape[1] > 2:
        return _many(counts, np.log(centres))
    z = logit(centres[:, 1])
    features = _features(z)
    losses = {kind: sum(_lost(fit(counts[k], z, kind) @ features, counts[1 - k]) for k in (0, 1))
              for kind in KINDS}  # fmt: skip
    best = min(KINDS, key=lambda kind: losses[kind])
    positive = expit(fit(counts.sum(0), z, best) @ features)
    return np.stack([1 - positive, positive]), best


def fit(counts: np.ndarray, z: np.ndarray, kind: str) -> np.ndarray:
    """Return a, b and c for counts ``(2, bins)`` of labels 0 and 1, by Newton's method."""
    start = np.array([1.0, 1.0, 0.0])
    if kind == "score":
        return start
    spread = np.array([[1.0, 1.0, 0.0]]) if kind == "temperature" else np.eye(3)
    least = np.array([LEAST, LEAST, -np.inf])[: len(spread)]
    features, people = spread @ _features(z), counts.sum(0)

    def value(free: np.ndarray) -> float:
        off = free @ spread - start
        return _lost(free @ features, counts) + float(RIDGE * (off @ off) / 2)

    free = start[: len(spread)]
    now = value(free)
    for _ in range(STEPS):
        eta = expit(free @ features)
        slope = features @ (people * eta - counts[1]) + RIDGE * spread @ (free @ spread - start)
        curve = (features * (people * eta * (1 - eta))) @ features.T + RIDGE * spread @ spread.T
        moves = (free > least) | (slope < 0)  # the others would go beyond their least value
        step = np.zeros_like(free)
        step[moves] = np.linalg.solve(curve[np.ix_(moves, moves)], slope[moves])
        after = np.maximum(free - step, least)
        while (then := value(after)) > now + SMALL * abs(now):
            step /= 2
            after = np.maximum(free - step, least)
        far, free, now = np.abs(after - free).max(), after, then
        if far < SMALL:
            break
    return np.asarray(free @ spread)


def _features(z: np.ndarray) -> np.ndarray:
    return np.stack([log_expit(z), -log_expit(-z), np.ones_like(z)])


def _lost(logit: np.ndarray, counts: np.ndarray) -> float:
    return float(-(counts[1] @ log_expit(logit) + counts[0] @ log_expit(-logit)))


def _many(counts: np.ndarray, logs: np.ndarray) -> tuple[np.ndarray, str]:
    """`calibrate` for more than two classes; `logs` are those of the scores."""
    kinds = ("score", "temperature", "vector")

    def loss(fitted: np.ndarray, people: np.ndarray) -> float:
        return float(-(people.T * log_softmax(fitted[0] * logs + fitted[1], axis=1)).sum())

    losses = [sum(loss(fit_many(counts[k], logs, kind), counts[1 - k]) for k in (0, 1))
              for kind in kinds]  # fmt: skip
    best = kinds[int(np.argmin(losses))]
    a, b = fit_many(counts.sum(0), logs, best)
    return np.asarray(softmax(a * logs + b, axis=1).T), best


def fit_many(counts: np.ndarray, logs: np.ndarray, kind: str) -> np.ndarray:
    """Return a and b of every class, ``(2, classes)``, for counts ``(classes, cells)``."""
    from scipy.optimize import minimize  # takes long to load

    classes = logs.shape[1]
    start = np.stack([np.ones(classes), np.zeros(classes)])
    if kind == "score":
        return start

    def unfold(free: np.ndarray) -> np.ndarray:
        return np.stack([np.full(classes, free[0]), start[1]]) if len(free) == 1 else (
            free.reshape(2, classes))  # fmt: skip

    def value(free: np.ndarray) -> tuple[float, np.ndarray]:
        a, b = unfold(free)
        log_eta = log_softmax(a * logs + b, axis=1)
        off = counts.sum(0)[:, None] * np.exp(log_eta) - counts.T  # slope of the loss in the logits
        ridge = RIDGE * (unfold(free) - start)
        slope = np.stack([(off * logs).sum(0), off.sum(0)]) + ridge
        total = -(counts.T * log_eta).sum() + (ridge**2).sum() / (2 * RIDGE)
        return float(total), slope[0].sum(keepdims=True) if len(free) == 1 else slope.ravel()

    first = start[0, :1] if kind == "temperature" else start.ravel()
    scales = 1 if kind == "temperature" else classes
    bounds = [(LEAST if i < scales else None, None) for i in range(len(first))]
    return unfold(minimize(value, first, jac=True, bounds=bounds, method="L-BFGS-B").x)
