r"""Calibration of scores to probabilities, from counts.

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
STEPS, SMALL = 100, 1e-10  # of Newton's method: their maximal number, and the size at which to stop
RIDGE = 1.0  # towards the score itself, with about the weight of one row


def calibrate(counts: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, str]:
    """Return eta = P(Y=c) in every cell, ``(classes, cells)``, and the kind of calibration.

    The kind with the least loss on the other fold is fitted to both folds.

    Parameters
    ----------
    counts
        Rows by fold, label and cell, ``(2, classes, cells)``.
    centres
        The cells' scores, ``(cells, classes)``.
    """
    return calibrate_each(counts[None], centres)[0]


def calibrate_each(counts: np.ndarray, centres: np.ndarray) -> list[tuple[np.ndarray, str]]:
    """Calibrate each group's scores by counts ``(groups, 2, classes, cells)``, all in one fit."""
    if centres.shape[1] > 2:
        return [_many(each, np.log(centres)) for each in counts]
    z = logit(centres[:, 1])
    features = _features(z)
    parts = np.concatenate([counts, counts.sum(1, keepdims=True)], axis=1)  # each fold, and both
    fits = {kind: fit(parts, z, kind) for kind in KINDS}
    others = counts[:, ::-1].reshape(-1, 2, len(z))
    losses = [_loss(_logits(abc[:, :2].reshape(-1, 3), features), others)
              for abc in fits.values()]  # fmt: skip
    best = np.reshape(losses, (len(KINDS), -1, 2)).sum(-1).argmin(0)
    found = []
    for group, kind in enumerate(KINDS[k] for k in best):
        positive = expit(fits[kind][group, 2] @ features)
        found.append((np.stack([1 - positive, positive]), kind))
    return found


def covariance_root(counts: np.ndarray, positive: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return a root of the covariance of each group's a, b and c, ``(groups, 3, 3)``.

    It is the inverse of the likelihood's curvature at P(Y=1) `positive` ``(groups, cells)``; counts
    are as in `calibrate_each`.
    """
    features = _features(logit(centres[:, 1]))
    weight = counts.sum((1, 2)) * positive * (1 - positive)
    curve = (features * weight[:, None]) @ features.T + RIDGE * np.eye(3)
    return np.asarray(np.linalg.cholesky(np.linalg.inv(curve)))


def logit_errors(root: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return independent directions in which the logit of P(Y=1) may err, ``(groups, 3, cells)``.

    Each is one standard deviation, by a `covariance_root`.
    """
    return np.asarray(root.swapaxes(1, 2) @ _features(logit(centres[:, 1])))


def fit(counts: np.ndarray, z: np.ndarray, kind: str) -> np.ndarray:
    """Return a, b and c for counts of labels 0 and 1 by bin, by Newton's method.

    For each of many counts, ``(..., 2, bins)``, until it has converged.
    """
    start = np.array([1.0, 1.0, 0.0])
    if kind == "score":
        return np.broadcast_to(start, (*counts.shape[:-2], 3))
    spread = np.array([[1.0, 1.0, 0.0]]) if kind == "temperature" else np.eye(3)
    least = np.array([LEAST, LEAST, -np.inf])[: len(spread)]
    features = spread @ _features(z)

    def value(free: np.ndarray, counts: np.ndarray) -> np.ndarray:
        off = free @ spread - start
        ridge = RIDGE * np.vecdot(off, off) / 2
        return np.asarray(_loss(_logits(free, features), counts) + ridge)

    def newton(free: np.ndarray, counts: np.ndarray) -> np.ndarray:
        eta, rows = expit(_logits(free, features)), counts.sum(1)
        slope = (features @ (rows * eta - counts[:, 1])[..., None])[..., 0]
        slope += RIDGE * (free @ spread - start) @ spread.T
        curve = (features * (rows * eta * (1 - eta))[:, None]) @ features.T
        curve += RIDGE * spread @ spread.T
        # Parameters at their least value that would go below it stay there.
        moves = (free > least) | (slope < 0)
        if not moves.all():
            curve = np.where(moves[:, :, None] & moves[:, None], curve, np.eye(len(spread)))
        step = np.linalg.solve(curve, np.where(moves, slope, 0.0)[..., None])
        return np.asarray(step[..., 0])

    going = counts.reshape(-1, 2, len(z))  # those that have not converged
    rows = np.arange(len(going))
    free = np.tile(start[: len(spread)], (len(going), 1))
    found, now = free.copy(), value(free, going)
    for _ in range(STEPS):
        step = newton(free, going)
        after = np.maximum(free - step, least)
        then = value(after, going)
        while (worse := then > now + SMALL * np.abs(now)).any():
            step[worse] /= 2
            after[worse] = np.maximum(free - step, least)[worse]
            then[worse] = value(after[worse], going[worse])
        found[rows] = after
        moved = np.abs(after - free).max(1) >= SMALL
        if not moved.any():
            break
        rows, free, now, going = (each[moved] for each in (rows, after, then, going))
    return np.asarray(found @ spread).reshape(*counts.shape[:-2], 3)


def _logits(free: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Return the logits in all bins, ``(n, bins)``, each by a product that depends on no other."""
    return np.asarray((free[:, None] @ features)[:, 0])


def _features(z: np.ndarray) -> np.ndarray:
    return np.stack([log_expit(z), -log_expit(-z), np.ones_like(z)])


def _loss(logit: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the losses ``(n,)`` of logits ``(n, bins)``; faster than by two `log_expit`."""
    zeros, ones = counts[:, 0], counts[:, 1]
    wrong = np.vecdot(zeros, np.maximum(logit, 0.0)) + np.vecdot(ones, np.maximum(-logit, 0.0))
    return np.asarray(wrong + np.vecdot(zeros + ones, np.log1p(np.exp(-np.abs(logit)))))


def _many(counts: np.ndarray, logs: np.ndarray) -> tuple[np.ndarray, str]:
    """Calibrate scores of more than two classes; `logs` are their logarithms."""
    kinds = ("score", "temperature", "vector")

    def loss(fitted: np.ndarray, rows: np.ndarray) -> float:
        return float(-(rows.T * log_softmax(fitted[0] * logs + fitted[1], axis=1)).sum())

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
