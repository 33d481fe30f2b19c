"""The linear program against brute force, a plainer program, Proposition 2 and fairlearn."""

import itertools

import numpy as np
import pytest
from fairlearn.postprocessing import ThresholdOptimizer
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits
from tilts import accuracy, blind_tilt

from pfedfair.theory import fair_rule, rule
from pfedfair.theory.program import fair_program, largest_gap

CRITERIA = ("dp", "eo", "eopp")


@pytest.fixture(autouse=True, scope="module")
def one_blas_thread():
    with threadpool_limits(1):
        yield


# --- what is to be solved, in loops ------------------------------------------------------------


def rates(mass, criterion, chances):
    """Lists of what must be alike: of each (label and) decision, the rates of the groups."""
    groups, classes, cells = mass.shape
    labels = {"dp": [range(classes)], "eo": [[y] for y in range(classes)], "eopp": [[classes - 1]]}
    decisions = [classes - 1] if criterion == "eopp" else range(classes)
    found = []
    for label in labels[criterion]:
        for c in decisions:
            each = []
            for z in range(groups):
                total = sum(mass[z, y, k] for y in label for k in range(cells))
                table = chances[z if len(chances) > 1 else 0]
                hits = sum(mass[z, y, k] * table[k, c] for y in label for k in range(cells))
                if total > 0:
                    each.append(hits / total)
            found.append(each)
    return found


def gap(mass, criterion, chances):
    return max((np.ptp(each) for each in rates(mass, criterion, chances) if each), default=0.0)


def right(mass, chances):
    groups, classes, cells = mass.shape
    return sum(
        mass[z, y, k] * chances[z if len(chances) > 1 else 0, k, y]
        for z in range(groups)
        for y in range(classes)
        for k in range(cells)
    )


def plain_optimum(mass, criterion, epsilon, aware):
    """Dense, no windows: every rate of every pair of groups differs by epsilon at the most."""
    groups, classes, cells = mass.shape
    tables = groups if aware else 1
    size = tables * cells * classes
    unit = np.eye(size).reshape(size, tables, cells, classes)
    limits = []
    for each in zip(*(rates(mass, criterion, chances) for chances in unit), strict=True):
        rows = np.array(each).T  # (groups, variables)
        limits += [a - b for a, b in itertools.permutations(rows, 2)]
    whole = [unit[:, z, k].sum(-1) for z in range(tables) for k in range(cells)]
    found = linprog(
        [-right(mass, chances) for chances in unit],
        A_ub=np.array(limits) if limits else None,
        b_ub=np.full(len(limits), epsilon) if limits else None,
        A_eq=np.array(whole),
        b_eq=np.ones(len(whole)),
        bounds=(0, 1),
    )
    assert found.success
    return -found.fun


def draw(seed, groups, classes, cells, empty=0.0):
    """P(group, label, cell); a part `empty` of the entries is 0."""
    rng = np.random.default_rng(seed)
    mass = rng.gamma(0.7, size=(groups, classes, cells)) + 1e-3
    mass[rng.random(mass.shape) < empty] = 0
    if mass.sum() == 0:
        mass[...] = 1
    return mass / mass.sum()


# --- against brute force and a plainer program -------------------------------------------------

STEP = 0.1
GRID = np.arange(11) * STEP


def best_on_a_grid(mass, criterion, limits, choices, aware):
    """The best accuracy within each limit, over all chances from `choices` in each cell."""
    groups, classes, cells = mass.shape
    tables = groups if aware else 1
    every = np.array(list(itertools.product(range(len(choices)), repeat=tables * cells)))
    chances = np.asarray(choices)[every].reshape(-1, tables, cells, classes)
    table = np.broadcast_to(chances, (len(every), groups, cells, classes))
    got = np.einsum("nzkc,zck->n", table, mass)
    if criterion == "dp":
        among = [mass.sum(1)]
    else:
        among = [mass[:, y] for y in (range(classes) if criterion == "eo" else [classes - 1])]
    worst = np.zeros(len(every))
    for part in among:
        rate = np.einsum("nzkc,zk->nzc", table, part / part.sum(1, keepdims=True))
        rate = rate[..., -1:] if criterion == "eopp" else rate
        worst = np.maximum(worst, np.ptp(rate, axis=1).max(-1))
    return [got[worst <= limit + 1e-12].max() for limit in limits]


def thirds():
    """Chances of three decisions, in fifths."""
    return [(a / 5, b / 5, 1 - (a + b) / 5) for a in range(6) for b in range(6 - a)]


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("epsilon", [0.0, 0.07, 0.3])
@pytest.mark.parametrize(
    ("groups", "classes", "cells", "aware"), [(2, 2, 2, True), (3, 2, 3, False), (2, 3, 3, False)]
)
def test_no_point_of_a_grid_is_better(groups, classes, cells, aware, criterion, epsilon):
    """A grid's best is no better; and as good, if it may round the best chances."""
    choices = [(1 - g, g) for g in GRID] if classes == 2 else thirds()
    rounded = STEP / 2 if classes == 2 else 0.4 / 3  # how far a chance is from the grid
    for seed in range(3):
        mass = draw(seed, groups, classes, cells)
        chances = fair_program(mass, criterion, epsilon, aware)
        found = right(mass, chances)
        limits = (epsilon, epsilon + 2 * rounded)
        within, wider = best_on_a_grid(mass, criterion, limits, choices, aware)
        assert within - 1e-7 <= found <= wider + rounded
        assert gap(mass, criterion, chances) <= epsilon + 1e-7


cases = given(
    groups=st.integers(2, 4),
    classes=st.integers(2, 4),
    cells=st.integers(1, 6),
    criterion=st.sampled_from(CRITERIA),
    aware=st.booleans(),
    empty=st.sampled_from([0.0, 0.0, 0.4]),
    seed=st.integers(0, 9999),
)


@cases
@settings(deadline=None, max_examples=80)
def test_optimum_is_that_of_the_simplest_program(
    groups, classes, cells, criterion, aware, empty, seed
):
    mass = draw(seed, groups, classes, cells, empty)
    for epsilon in (0.0, 0.04, 0.25):
        chances = fair_program(mass, criterion, epsilon, aware)
        expected = plain_optimum(mass, criterion, epsilon, aware)
        assert right(mass, chances) == pytest.approx(expected, abs=1e-7)


@cases
@settings(deadline=None, max_examples=80)
def test_limit_is_kept_and_a_wider_one_costs_less(
    groups, classes, cells, criterion, aware, empty, seed
):
    mass = draw(seed, groups, classes, cells, empty)
    constant = mass.sum((0, 2)).max()
    before = constant
    for epsilon in (0.0, 0.01, 0.05, 0.2, 0.6, 1.0):
        chances = fair_program(mass, criterion, epsilon, aware)
        assert chances.shape == (groups if aware else 1, cells, classes)
        assert (chances >= 0).all()
        np.testing.assert_allclose(chances.sum(-1), 1)
        got = right(mass, chances)
        assert largest_gap(mass, criterion, chances) == pytest.approx(
            gap(mass, criterion, chances), abs=1e-12
        )
        assert gap(mass, criterion, chances) <= epsilon + 1e-7
        assert got >= before - 1e-7  # at first, than one decision for all rows
        before = got
    free = mass.max(1).sum() if aware else mass.sum(0).max(0).sum()  # the likeliest label
    assert before == pytest.approx(free, abs=1e-7)


@cases
@settings(deadline=None, max_examples=30)
def test_equalised_odds_is_the_strictest_and_names_do_not_matter(
    groups, classes, cells, criterion, aware, empty, seed
):
    mass = draw(seed, groups, classes, cells, empty)
    both = [right(mass, fair_program(mass, c, 0.03, aware)) for c in ("eo", "eopp")]
    assert both[0] <= both[1] + 1e-7
    rng = np.random.default_rng(seed)
    mixed = mass[rng.permutation(groups)][:, :, rng.permutation(cells)]
    if criterion != "eopp":  # which asks for the last label
        mixed = mixed[:, rng.permutation(classes)]
    values = [right(m, fair_program(m, criterion, 0.03, aware)) for m in (mass, mixed)]
    assert values[0] == pytest.approx(values[1], abs=1e-7)


def test_a_group_without_rows_limits_nothing():
    mass = draw(0, 3, 3, 5)
    mass[1] = 0
    mass /= mass.sum()
    for criterion in CRITERIA:
        for aware in (True, False):
            chances = fair_program(mass, criterion, 0.02, aware)
            two = mass[[0, 2]]
            single = right(two, fair_program(two, criterion, 0.02, aware))
            assert right(mass, chances) == pytest.approx(single, abs=1e-7)


def test_one_group_gets_its_likeliest_labels():
    mass = draw(1, 1, 3, 6)
    for criterion in CRITERIA:
        chances = fair_program(mass, criterion, 0.0)
        assert right(mass, chances) == pytest.approx(mass[0].max(0).sum())


def sparse_clients(seed, groups, classes, cells=200, full=20, faint=1e-6):
    """What `transport` asks for: most rows in few cells, a millionth of them in all."""
    rng = np.random.default_rng(seed)
    shapes = np.zeros((groups, cells))
    shapes[:, :full] = rng.dirichlet(np.ones(full), groups)
    shapes = (1 - faint) * shapes + faint / cells
    eta = rng.dirichlet(np.ones(classes), (groups, cells)).transpose(0, 2, 1)
    return shapes[:, None] * eta / groups


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("aware", [True, False])
@pytest.mark.parametrize(("groups", "classes"), [(2, 2), (3, 2), (2, 3), (3, 3)])
def test_cells_with_hardly_anybody_are_no_obstacle(groups, classes, aware, criterion):
    """One decision for all rows keeps any limit, so there is always a solution."""
    for seed in range(3):
        mass = sparse_clients(seed, groups, classes)
        for epsilon in (0.0, 0.02):
            chances = fair_program(mass, criterion, epsilon, aware)
            assert largest_gap(mass, criterion, chances) <= epsilon + 2e-6
            assert right(mass, chances) >= mass.sum((0, 2)).max() - 1e-6


# --- against Proposition 2 ---------------------------------------------------------------------


@given(
    cells=st.integers(2, 12),
    share=st.floats(0.1, 0.9),
    epsilon=st.sampled_from([0.0, 0.02, 0.1, 0.4]),
    seed=st.integers(0, 9999),
)
@settings(deadline=None, max_examples=80)
def test_aware_is_proposition_2(cells, share, epsilon, seed):
    rng = np.random.default_rng(seed)
    eta = rng.random((2, cells)).round(2)
    joint = np.array([[1 - share], [share]]) * rng.dirichlet(np.ones(cells), 2)
    tilt = rule.aware_tilt(np.repeat([0, 1], cells), share)
    closed = fair_rule(eta.ravel(), tilt, joint.ravel(), epsilon).positive(eta.ravel(), tilt)
    mass = np.stack([joint * (1 - eta), joint * eta], axis=1)
    chances = fair_program(mass, "dp", epsilon)
    expected = accuracy(closed, eta.ravel(), joint.ravel())
    assert right(mass, chances) == pytest.approx(expected, abs=1e-7)
    assert abs(rule.gap(chances[..., 1].ravel(), tilt, joint.ravel())) <= epsilon + 1e-7


@given(
    cells=st.integers(2, 12),
    epsilon=st.sampled_from([0.0, 0.02, 0.1, 0.4]),
    seed=st.integers(0, 9999),
)
@settings(deadline=None, max_examples=80)
def test_blind_is_proposition_2(cells, epsilon, seed):
    """Y and S are independent in a cell, where eta is P(Y=1) of both groups."""
    rng = np.random.default_rng(seed)
    eta, p_s1 = rng.random((2, cells)).round(2)
    joint = rng.dirichlet(np.ones(cells))
    share = float(joint @ p_s1)
    assume(0.05 < share < 0.95)
    tilt = blind_tilt(p_s1, share)
    closed = fair_rule(eta, tilt, joint, epsilon).positive(eta, tilt)
    by_group = joint * np.stack([1 - p_s1, p_s1])
    mass = np.stack([by_group * (1 - eta), by_group * eta], axis=1)
    chances = fair_program(mass, "dp", epsilon, aware=False)
    assert right(mass, chances) == pytest.approx(accuracy(closed, eta, joint), abs=1e-7)
    assert abs(rule.gap(chances[0, :, 1], tilt, joint)) <= epsilon + 1e-7


# --- against fairlearn -------------------------------------------------------------------------


class Score(BaseEstimator):
    """A fitted estimator whose prediction is its first input."""

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return np.asarray(X)[:, 0]


def sample(groups, seed, bins=12):
    """Rows in bins of a score; the rate of labels rises with it, unlike in each group."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(20, 120, (groups, bins))
    ends = np.linspace([0.02, 0.7], [0.3, 0.98], groups).T
    ones = np.rint(counts * np.linspace(*ends, bins).T).astype(int)
    s, place = np.indices(counts.shape).reshape(2, -1).repeat(counts.ravel(), axis=1)
    y = np.concatenate([np.arange(n) < k for n, k in zip(counts.flat, ones.flat, strict=True)])
    mass = np.stack([counts - ones, ones], axis=1) / counts.sum()
    return (place + 0.5) / bins, y.astype(int), s, place, mass


NAMES = {
    "dp": "demographic_parity",
    "eo": "equalized_odds",
    "eopp": "true_positive_rate_parity",
}


@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_at_epsilon_0_it_is_no_worse_than_fairlearns(criterion, groups):
    costs = []
    for seed in range(3):
        score, y, s, place, mass = sample(groups, seed)
        reference = ThresholdOptimizer(
            estimator=Score(), constraints=NAMES[criterion], objective="accuracy_score",
            prefit=True, predict_method="predict", grid_size=2000,
        ).fit(score[:, None], y, sensitive_features=s)  # fmt: skip
        positive = reference._pmf_predict(score[:, None], sensitive_features=s)[:, 1]
        their_right = np.where(y == 1, positive, 1 - positive).mean()
        chances = fair_program(mass, criterion, 0.0)
        ours = chances[s, place, 1]
        our_right = np.where(y == 1, ours, 1 - ours).mean()
        assert our_right == pytest.approx(right(mass, chances))
        assert our_right >= their_right - 1e-6
        assert (
            our_right <= their_right + 2e-3
        )  # thresholds with random draws are as good, but for a grid
        assert gap(mass, criterion, chances) < 1e-7
        costs.append(mass.max(1).sum() - our_right)
    assert max(costs) > 5e-4  # fairness costs something
