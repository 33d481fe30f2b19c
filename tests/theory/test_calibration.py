"""Beta calibration from counts: what it finds, against simulations and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.special import expit, log_expit, logit
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from pfedfair.theory import calibration
from pfedfair.theory.calibration import calibrate, covariance_root, fit, logit_errors

BINS = 200
SCORES = (np.arange(BINS) + 0.5) / BINS
CENTRES = np.stack([1 - SCORES, SCORES], axis=1)  # of both labels
Z = logit(SCORES)
MASS = np.diff(expit(3 * logit(np.linspace(0, 1, BINS + 1).clip(1e-9, 1 - 1e-9))))
MASS = (MASS + 0.5 / BINS) / (MASS.sum() + 0.5)  # most scores near 1/2, some everywhere


@pytest.fixture(autouse=True, scope="module")
def one_blas_thread():
    """The optimiser's matrices are tiny: on a busy machine threads wait 25 times as long."""
    with threadpool_limits(1):
        yield


def eta_of(a, b, c, z=Z):
    return expit(a * log_expit(z) - b * log_expit(-z) + c)


def calibrated(counts):
    """P(Y=1) in every bin, and the kind; P(Y=0) must be the rest."""
    eta, kind = calibrate(counts, CENTRES)
    assert eta.shape == (2, BINS)
    np.testing.assert_allclose(eta.sum(0), 1, rtol=1e-12)
    return eta[1], kind


def expected(n, eta):
    """Counts ``(2, bins)`` of labels 0 and 1, as they would be without chance."""
    return n * MASS * np.stack([1 - eta, eta])


def sample(n, eta, rng, folds=2):
    """Counts ``(folds, 2, bins)`` of n rows in each fold."""
    cells = (MASS * np.stack([1 - eta, eta])).ravel()
    return rng.multinomial(n, cells / cells.sum(), size=folds).reshape(folds, 2, BINS).astype(float)


def penalised(beta, counts):
    """The loss that `fit` minimises, written down once more."""
    eta = eta_of(*beta)
    pull = ((np.asarray(beta) - [1, 1, 0]) ** 2).sum() / 2
    return -(counts[1] * np.log(eta) + counts[0] * np.log(1 - eta)).sum() + pull


@pytest.mark.parametrize("truth", [(1.0, 1.0, 0.0), (0.5, 1.8, 0.4), (2.5, 0.7, -1.0)])
def test_beta_recovers_a_b_and_c(truth):
    exact = fit(expected(1e8, eta_of(*truth)), Z, "beta")
    np.testing.assert_allclose(exact, truth, atol=2e-3)
    rng = np.random.default_rng(0)
    errors = []
    for n in (1_000, 10_000, 100_000):
        found = [fit(k, Z, "beta") for k in sample(n, eta_of(*truth), rng, folds=10)]
        errors.append(np.abs(eta_of(*np.transpose(found)[:, :, None]) - eta_of(*truth)).mean())
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[2] < 0.003


@pytest.mark.parametrize("slope", [0.3, 1.0, 3.0])
def test_temperature_recovers_its_slope_and_keeps_the_middle(slope):
    a, b, c = fit(expected(1e8, eta_of(slope, slope, 0.0)), Z, "temperature")
    assert a == b == pytest.approx(slope, abs=2e-3)
    assert c == 0


def test_score_is_unchanged():
    np.testing.assert_array_equal(fit(expected(1e6, eta_of(2, 3, 1)), Z, "score"), [1, 1, 0])


def test_calibrated_scores_stay_as_they_are():
    rng = np.random.default_rng(1)
    kinds = []
    for counts in sample(2_000, expit(Z), rng, folds=40).reshape(20, 2, 2, BINS):
        eta, kind = calibrated(counts)
        kinds.append(kind)
        assert np.abs(eta - expit(Z)).max() < 0.15
        if kind == "score":
            np.testing.assert_allclose(eta, expit(Z), rtol=1e-12)
    assert kinds.count("score") >= 10


@pytest.mark.parametrize(
    ("truth", "kinds"),
    [((0.4, 0.4, 0.0), {"temperature", "beta"}), ((0.5, 1.8, 0.8), {"beta"})],
)
def test_the_kind_is_the_one_that_holds_on_the_other_fold(truth, kinds):
    counts = sample(20_000, eta_of(*truth), np.random.default_rng(2))
    eta, kind = calibrated(counts)
    assert kind in kinds
    assert np.abs(eta - eta_of(*truth)) @ MASS < 0.01
    losses = {
        k: sum(
            penalised(fit(counts[f], Z, k), counts[1 - f])
            - ((fit(counts[f], Z, k) - [1, 1, 0]) ** 2).sum() / 2
            for f in (0, 1)
        )
        for k in calibration.KINDS
    }
    assert min(losses, key=losses.get) == kind
    np.testing.assert_allclose(eta, eta_of(*fit(counts.sum(0), Z, kind)), rtol=1e-9)


@pytest.mark.parametrize("n", [30, 3_000, 300_000])
def test_a_fit_is_stationary_by_finite_differences(n):
    """No direction is downhill, up to what remains of the slope at the start."""
    counts = sample(n, eta_of(0.6, 1.5, -0.5), np.random.default_rng(n), folds=1)[0]
    start = approx_fprime(np.array([1.0, 1, 0]), penalised, 1e-6, counts)
    free = fit(counts, Z, "beta")
    central = [
        (penalised(free + step, counts) - penalised(free - step, counts)) / 2e-4
        for step in 1e-4 * np.eye(3)
    ]
    assert np.abs(central).max() < 1e-4 * np.abs(start).max() + 1e-4
    slope = fit(counts, Z, "temperature")[0]
    along = np.array([1.0, 1.0, 0.0])
    lone = penalised((slope + 1e-4) * along, counts) - penalised((slope - 1e-4) * along, counts)
    assert abs(lone / 2e-4) < 1e-4 * np.abs(start).max() + 1e-4


def test_beta_is_scikit_learns_logistic_regression_on_two_features():
    """Its C weighs the sum of losses against half a square: with so many rows neither counts."""
    counts = sample(1_000_000, eta_of(0.6, 1.5, -0.5), np.random.default_rng(3), folds=1)[0]
    features = np.stack([log_expit(Z), -log_expit(-Z)], axis=1)
    model = LogisticRegression(C=np.inf, tol=1e-9, max_iter=10_000)
    model.fit(np.tile(features, (2, 1)), np.repeat([0, 1], BINS), sample_weight=counts.ravel())
    reference = [*model.coef_[0], model.intercept_[0]]
    np.testing.assert_allclose(fit(counts, Z, "beta"), reference, atol=2e-3)
    np.testing.assert_allclose(eta_of(*fit(counts, Z, "beta")), eta_of(*reference), atol=2e-4)


def awkward():
    """Counts that a federation may have and a textbook does not."""
    rng = np.random.default_rng(4)
    no_rows = np.zeros((2, 2, BINS))
    one_label = sample(200, expit(Z), rng)
    one_label[:, 0] = 0
    one_fold = sample(200, expit(Z), rng)
    one_fold[1] = 0
    one_person = no_rows.copy()
    one_person[0, 1, 0] = 1
    upside_down = sample(500, expit(-Z), rng)
    apart = sample(5_000, (Z > 0).astype(float), rng)  # a perfect score
    noisy = sample(100, expit(Z), rng) + np.abs(rng.laplace(0, 2, (2, 2, BINS)))
    return {
        "nobody": no_rows,
        "one label": one_label,
        "the other": one_label[:, ::-1],
        "one fold": one_fold,
        "one person": one_person,
        "upside down": upside_down,
        "apart": apart,
        "noisy": noisy,
    }


@pytest.mark.parametrize("case", awkward())
def test_eta_is_finite_and_rises_over_the_bins(case):
    eta, kind = calibrated(awkward()[case])
    assert np.isfinite(eta).all()
    assert eta.min() >= 0
    assert eta.max() <= 1
    assert (np.diff(eta) >= 0).all()
    if case != "apart":  # there eta is 0 and 1, but for rounding
        assert (np.diff(eta) > 0).all()
    if case == "nobody":
        assert kind == "score"


def test_one_label_pulls_eta_its_way_but_not_to_the_end():
    """The prior counts as much as about one row."""
    eta = {n: calibrated(np.stack([[0 * MASS, n * MASS]] * 2))[0] for n in (1, 100)}
    assert (eta[1] > expit(Z)).all()
    assert (eta[100] > eta[1]).all()
    assert eta[1][0] < 0.2
    assert 0.9 < eta[100] @ MASS < 1


@given(st.integers(0, 10**6), st.integers(1, 5), st.sampled_from([0, 3, 60, 5000]))
@settings(deadline=None, max_examples=40)
def test_many_at_once_are_each_of_them(seed, groups, rows):
    """Each takes its own steps, to the last bit."""
    rng = np.random.default_rng(seed)
    shapes = rng.dirichlet(np.full(BINS * 2, 0.3), (groups, 2)).reshape(groups, 2, 2, BINS)
    counts = np.array([[rng.multinomial(rows, p.ravel() / p.sum()) for p in one]
                       for one in shapes]).reshape(shapes.shape) + 0.0  # fmt: skip
    for kind in calibration.KINDS:
        for found, each in zip(fit(counts, Z, kind), counts, strict=True):
            np.testing.assert_array_equal(found, [fit(one, Z, kind) for one in each])
    stacked = calibration.calibrate_each(counts, CENTRES)
    for (eta, kind), each in zip(stacked, counts, strict=True):
        single, its_kind = calibrate(each, CENTRES)
        assert kind == its_kind
        np.testing.assert_array_equal(eta, single)


def test_errors_of_the_logit_are_those_of_the_bootstrap():
    """Their standard deviation by bin, where the score itself is right."""
    rng = np.random.default_rng(0)
    centres = (np.arange(50) + 0.5) / 50
    z = logit(centres)
    rows = rng.integers(40, 80, 50)
    logits = []
    for _ in range(300):
        ones = rng.binomial(rows, centres)
        abc = fit(np.stack([rows - ones, ones]).astype(float), z, "beta")
        logits.append(abc @ np.stack([np.log(centres), -np.log1p(-centres), np.ones(50)]))
    counts = np.stack([rows * (1 - centres), rows * centres])[None, None]
    both = np.stack([1 - centres, centres], axis=1)
    errors = logit_errors(covariance_root(counts, centres[None], both), both)[0]
    inside = slice(3, -3)
    found, expected = np.sqrt((errors**2).sum(0))[inside], np.std(logits, axis=0)[inside]
    np.testing.assert_allclose(found, expected, rtol=0.2)
