"""The best pair of thresholds, against all pairs by brute force on the draws themselves."""

import itertools

import numpy as np
import pytest

from pfedfair.theory.pairs import best_pair


def problem(seed, draws, bins=12, spread=80.0):
    rng = np.random.default_rng(seed)
    shapes = [rng.dirichlet(spread * rng.dirichlet(np.full(bins, 2.0)), draws) for _ in range(2)]
    eta = np.sort(rng.random((2, bins)), axis=1)
    mean = np.stack([each.mean(0) for each in shapes]) * [[0.3], [0.7]]
    return mean * (2 * eta - 1), np.stack(shapes)


def gaps(positive, shapes):
    return np.abs(shapes[1] @ positive[1] - shapes[0] @ positive[0])


def by_brute_force(right, shapes, target, confidence):
    bins, best = right.shape[1], -np.inf
    at = np.arange(bins)
    for edges in itertools.product(range(bins + 1), repeat=2):
        positive = (at >= np.array(edges)[:, None]).astype(float)
        if np.quantile(gaps(positive, shapes), confidence) <= target + 1e-12:
            best = max(best, float((right * positive).sum()))
    return best


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("target", "confidence"), [(0.05, 0.95), (0.2, 0.8), (0.4, 0.95)])
def test_it_is_the_best_of_all_pairs_but_for_the_normal_approximation(seed, target, confidence):
    right, shapes = problem(seed, draws=2000)

    def enough(positive):
        return np.quantile(gaps(positive, shapes), confidence) <= target

    found = best_pair(right, [shapes], target, confidence, enough)
    assert enough(found)
    assert set(np.unique(found)) <= {0.0, 1.0}
    assert (np.diff(found, axis=1) >= 0).all()
    best = by_brute_force(right, shapes, target, confidence)
    assert best - 0.03 <= (right * found).sum() <= best + 1e-12


@pytest.mark.parametrize("seed", range(8))
def test_of_known_shapes_it_is_exactly_the_best(seed):
    right, shapes = problem(seed, draws=1)
    found = best_pair(right, [shapes], 0.15, 1.0, lambda positive: True)
    assert (right * found).sum() == pytest.approx(by_brute_force(right, shapes, 0.15, 1.0))


def test_no_threshold_is_above_the_first_allowed_edges():
    right, shapes = problem(0, draws=1)
    free = (right > 0).astype(float)
    first = (free == 0).sum(1)
    found = best_pair(right, [shapes], 0.1, 1.0, lambda positive: True, first)
    assert (found >= free).all()


def test_several_rates_are_compared_together():
    right, shapes = problem(3, draws=1)
    other = shapes[:, :, ::-1].copy()
    found = best_pair(right, [shapes, other], 0.1, 1.0, lambda positive: True)
    assert max(gaps(found, shapes)[0], gaps(found, other)[0]) <= 0.1 + 1e-9
