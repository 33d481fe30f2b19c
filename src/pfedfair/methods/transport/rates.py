"""Groups' rates of decisions over draws of their distributions, and the gaps between them."""

from collections.abc import Iterator

import numpy as np

from pfedfair.metrics.criteria import CRITERIA


def weighted(shapes: np.ndarray, eta: np.ndarray, criterion: str) -> Iterator[np.ndarray]:
    """Yield the rows that each compared rate is among, ``(groups, draws, cells)``.

    Parameters
    ----------
    shapes
        The groups' distributions over the cells, ``(groups, draws, cells)``.
    eta
        P(Y) by group, draw and cell, ``(groups, draws or 1, classes, cells)``.
    """
    for label, _ in CRITERIA[criterion].comparisons(eta.shape[2]):
        yield shapes if label is None else shapes * eta[:, :, label]


def of_groups(
    chances: np.ndarray, shapes: np.ndarray, eta: np.ndarray, criterion: str
) -> np.ndarray:
    """Return the groups' rates by draw, ``(rates compared, groups, draws)``."""
    found = []
    decisions = [decision for _, decision in CRITERIA[criterion].comparisons(eta.shape[2])]
    for among, decision in zip(weighted(shapes, eta, criterion), decisions, strict=True):
        hits = [one @ chances[min(z, len(chances) - 1), :, decision] for z, one in enumerate(among)]
        found.append(np.stack(hits) / among.sum(-1).clip(min=1e-300))
    return np.array(found)


def worst_gaps(
    chances: np.ndarray, shapes: np.ndarray, eta: np.ndarray, criterion: str
) -> np.ndarray:
    """Return the largest gap of decisions by draw, ``(draws,)``."""
    return np.asarray(np.ptp(of_groups(chances, shapes, eta, criterion), axis=1).max(0))


def half_width(rates: np.ndarray) -> float:
    """Return the half-width of a gap's 95 % interval, by draws ``(compared, groups, draws)``."""
    mean = rates.mean(2)
    high, low = (
        np.take_along_axis(rates, end(mean, 1)[:, None, None], axis=1)[:, 0]
        for end in (np.argmax, np.argmin)
    )
    return float(1.96 * (high - low).std(1).max())
