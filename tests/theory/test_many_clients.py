"""Many clients at once are each of them only, to the last bit: a site has but one."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pfedfair.data.task import Task
from pfedfair.methods.transport import counts as counting
from pfedfair.theory import effects, tilts
from pfedfair.theory.belief import Belief
from pfedfair.theory.shrinkage import (
    FLAT,
    KAPPAS,
    kappa_posterior,
    own_weight,
    posterior_mean,
    spread,
)


def some(seed, clients, groups, bins, rows):
    """Counts of clients and of all rows else; some groups are no row's, or no row else's."""
    rng = np.random.default_rng(seed)
    shapes = rng.dirichlet(np.full(bins, 0.5), (clients, groups))
    counts = np.array([[rng.multinomial(rows, q) for q in one] for one in shapes], dtype=float)
    counts *= rng.random((clients, groups, 1)) < 0.8
    pooled = 0.7 * rng.multinomial(20 * rows, shapes.mean((0, 1)), (clients, groups))
    pooled *= rng.random((clients, groups, 1)) < 0.8
    return counts, pooled


def population(groups, none, seed):
    rng = np.random.default_rng(seed)
    size = 2 * groups
    root = rng.normal(0, 0.15, (size, 2 * size))
    ways = rng.dirichlet(np.ones(1 + 2 * size))
    return effects.Effects(none, rng.normal(0, 0.1, size), root @ root.T, ways, 7.0)


CASES = st.tuples(
    st.integers(0, 10**6), st.integers(1, 30), st.integers(2, 4), st.sampled_from([10, 37, 500]),
    st.sampled_from([1, 20, 700]),
)  # fmt: skip


@given(CASES, st.sampled_from([0.0, 0.4, 1.0]), st.sampled_from([None, 0.0, 30.0]))
@settings(deadline=None, max_examples=60)
def test_what_many_clients_believe_and_tell(case, none, kappa):
    seed, clients, groups, _, _ = case
    counts, pooled = some(*case)
    prior = np.random.default_rng(seed).dirichlet(np.ones(len(KAPPAS)))
    known = {"prior": prior, "kappa": kappa, "population": population(groups, none, seed)}
    stacked = Belief(
        counts=0.6 * counts, pooled=0.6 * pooled, all_counts=counts, all_pooled=pooled, **known
    )
    sent = counting.likeness(stacked, silent=False)
    for i in range(clients):
        single = Belief(
            counts=0.6 * counts[i], pooled=0.6 * pooled[i], all_counts=counts[i],
            all_pooled=pooled[i], **known,
        )  # fmt: skip
        for name in ("slope", "curve", "constant"):
            np.testing.assert_array_equal(
                getattr(stacked.likelihood, name)[i], getattr(single.likelihood, name)
            )
        np.testing.assert_array_equal(stacked.centres[i], single.centres)
        np.testing.assert_array_equal(stacked.shapes[i], single.shapes)
        np.testing.assert_array_equal(stacked[i].shapes, single.shapes)
        if kappa != 0:  # of no row nothing could be drawn
            drawn = [one.draws(3, np.random.default_rng(i)) for one in (stacked[i], single)]
            np.testing.assert_array_equal(*drawn)
        site = Belief(
            counts=0.6 * counts[i : i + 1], pooled=0.6 * pooled[i : i + 1],
            all_counts=counts[i : i + 1], all_pooled=pooled[i : i + 1], **known,
        )  # fmt: skip
        for name, own in counting.likeness(site, silent=False).items():
            assert torch.equal(own[0], sent[name][i])


def test_a_client_holds_on_to_nothing_of_the_others():
    counts, pooled = some(0, 5, 2, 10, 20)
    one = Belief(counts=counts, pooled=pooled, prior=FLAT, population=population(2, 0.4, 0))[3]
    assert all(array.base is None for array in (one.counts, one.pooled, one.shapes))
    assert one.all_counts is None


@given(CASES)
@settings(deadline=None, max_examples=40)
def test_peaks_of_many_likelihoods(case):
    """Each group takes its own number of steps."""
    counts, pooled = some(*case)
    stacked = tilts.likelihood(counts, spread(pooled))
    for i in range(len(counts)):
        single = tilts.likelihood(counts[i], spread(pooled[i]))
        for name in ("slope", "curve", "constant"):
            np.testing.assert_array_equal(getattr(stacked, name)[i], getattr(single, name))


def test_a_likelihood_has_a_block_for_each_group():
    counts, pooled = some(3, 4, 3, 40, 300)
    counts[:, 1] = 0
    found = tilts.likelihood(counts, spread(pooled))
    assert found.slope.shape == (4, 6)
    block = np.kron(np.eye(3), np.ones((2, 2))) > 0
    assert (found.curve[:, ~block] == 0).all()
    assert (found.curve[:, 2:4] == 0).all()
    for z in (0, 2):
        of_group = tilts.likelihood(counts[:, z : z + 1], spread(pooled[:, z : z + 1]))
        at = slice(2 * z, 2 * z + 2)
        np.testing.assert_array_equal(found.slope[:, at], of_group.slope)
        np.testing.assert_array_equal(found.curve[:, at, at], of_group.curve)
        np.testing.assert_array_equal(found.constant[:, z], of_group.constant[:, 0])


@pytest.mark.parametrize("bins", [3, 16, 500])
def test_cells_without_mass_say_nothing(bins):
    """One bin may hold more than a cell's mass; the cells that it skips are left out."""
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.full(bins, 0.05), 6) + 1e-9
    q /= q.sum(1, keepdims=True)
    counts = np.array([rng.multinomial(80, p) for p in q], dtype=float)
    found = kappa_posterior(counts, q)
    for n, p, ours in zip(counts, q, found, strict=True):
        middle = np.cumsum(p) - p / 2
        cells = [np.minimum(middle * 16, 15).astype(int) == k for k in range(16)]
        pairs = [(n[cell].sum(), p[cell].sum()) for cell in cells if p[cell].sum() > 0]
        likelihood = sum(
            torch.lgamma(torch.from_numpy(KAPPAS * mass + own))
            - torch.lgamma(torch.from_numpy(KAPPAS * mass))
            for own, mass in pairs
        )
        total = torch.lgamma(torch.from_numpy(KAPPAS)) - torch.lgamma(torch.from_numpy(KAPPAS + 80))
        np.testing.assert_allclose(ours, torch.softmax(likelihood + total, 0), rtol=1e-6)
    weight = own_weight(counts, q)
    np.testing.assert_allclose(weight, found @ (80 / (80 + KAPPAS)))
    mean = posterior_mean(counts, q, weight)
    np.testing.assert_allclose(mean[0], weight[0] * counts[0] / 80 + (1 - weight[0]) * q[0])


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_with_noise_a_lone_client_has_no_other_rows(classes):
    """What it has sent and what the server has added up cancel to the last bit."""
    rng = np.random.default_rng(classes)
    cells = counting.cells_for(40, Task(2, classes, True)).number
    own = {
        "held": torch.from_numpy(rng.poisson(2, (1, 2, 2, classes, cells)) + 0.0),
        "trained": torch.from_numpy(rng.poisson(5, (1, 2, cells)) + 0.0),
    }
    sent = {name: x + torch.from_numpy(rng.laplace(0, 1, x.shape)) for name, x in own.items()}
    kept = own | {f"{counting.SENT}{name}": x for name, x in sent.items()}
    found = counting.beliefs(counting.learn(sent, 40), kept, None)
    assert found.without_pool.all()
    np.testing.assert_array_equal(found.prior, FLAT)
