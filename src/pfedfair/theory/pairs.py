r"""The best pair of thresholds without random draws, where the score distributions are uncertain.

For two groups whose scores are counted in bins, a threshold is an edge between bins. Let G be the
difference between the groups' rates by a pair of edges. Over draws of the distributions it has a
mean m and a standard deviation v, which follow for all pairs at once from the draws' means and
covariances. The pair is feasible at a confidence level if, for a normal G,

.. math:: P(|G| \le \epsilon) = \Phi\Bigl(\frac{\epsilon - m}{v}\Bigr)
          - \Phi\Bigl(\frac{-\epsilon - m}{v}\Bigr) \ge \text{confidence}

and the best one has the highest accuracy. With several rates that are compared (equalised odds) the
probabilities of failure add up. One decision for all rows is always feasible.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import ndtr

TRIES, STRICTER = 12, 0.95  # of tighter limits, if the draws are not normal; each by this factor
SMALL = 1e-12


def best_pair(
    right: np.ndarray,
    rates: Sequence[np.ndarray],
    target: float,
    confidence: float,
    enough: Callable[[np.ndarray], bool],
    first: np.ndarray | None = None,
) -> np.ndarray:
    """Return the chances of a positive decision in each bin, 0 or 1, ``(2, bins)``.

    Parameters
    ----------
    right
        The probability that a row is of the group and in the bin, and its label is positive, less
        the same of negative labels, ``(2, bins)``.
    rates
        For each rate that is compared, the distribution over bins by group and draw,
        ``(2, draws, bins)``.
    target
        The largest difference between the groups' rates.
    confidence
        The part of the draws that must be within the target; 1 if there is one draw only.
    enough
        Whether decisions meet the target by the draws themselves.
    first
        The largest edge of each group, ``(2,)``; by default all edges are allowed.
    """
    bins = right.shape[1]
    gain = [_from_edge(one) for one in right]  # accuracy by edge, less that of no positive decision
    total = gain[0][:, None] + gain[1]
    if first is not None:
        edges = np.arange(bins + 1)
        total[edges > first[0]] = total[:, edges > first[1]] = -np.inf
    moments = [_moments(one) for one in rates]
    chosen = bins, bins
    for _ in range(TRIES):
        failure = sum(_failure(mean, sd, target) for mean, sd in moments)
        feasible = np.where(failure <= 1 - confidence + SMALL, total, -np.inf)
        chosen = np.unravel_index(int(feasible.argmax()), feasible.shape)  # type: ignore[assignment]
        found = (np.arange(bins) >= np.array(chosen)[:, None]).astype(float)
        if enough(found):
            break
        target *= STRICTER
    return found


def _from_edge(x: np.ndarray) -> np.ndarray:
    """Return the sums from each edge on, ``(..., bins)`` to ``(..., bins + 1)``."""
    sums = np.cumsum(x[..., ::-1], -1)[..., ::-1]
    return np.concatenate([sums, np.zeros_like(sums[..., :1])], -1)


def _moments(drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of the groups' difference by pairs of edges."""
    zero, one = (_from_edge(each) for each in drawn)  # (draws, edges)
    mean = one.mean(0) - zero.mean(0)[:, None]
    off = [each - each.mean(0) for each in (zero, one)]
    variance = [np.mean(each**2, 0) for each in off]
    both = off[0].T @ off[1] / len(zero)
    return mean, np.sqrt(np.maximum(variance[0][:, None] + variance[1] - 2 * both, 0.0))


def _failure(mean: np.ndarray, sd: np.ndarray, target: float) -> np.ndarray:
    """Return the probability that a normal number is not within plus and minus the target."""
    certain = sd < SMALL
    sd = np.where(certain, 1.0, sd)
    failure = 1 - (ndtr((target - mean) / sd) - ndtr((-target - mean) / sd))
    return np.asarray(np.where(certain, np.abs(mean) > target + SMALL, failure))
