"""The noise floor: against many draws, the order statistics of normals, and its edges."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, norm

from pfedfair import metrics
from pfedfair.metrics.noise_floor import noise_floors
from pfedfair.metrics.weights import moments_of


def floors(counts, apart=None):
    return noise_floors(moments_of(np.asarray(counts)), apart)


def counts_of(rows, rate, classes=2):
    """Groups with rows of the first label only, all with one rate; about integer."""
    counts = np.zeros((1, len(rows), classes, classes), dtype=np.int64)
    counts[0, :, 0, 1] = np.rint(np.array(rows) * rate)
    counts[0, :, 0, 0] = rows - counts[0, :, 0, 1]
    return counts


@pytest.mark.parametrize("rows", [(40,) * 10, (400, 100, 25), (10, 20, 40, 80)])
def test_the_floor_is_the_expected_range(rows):
    """E max - E min of independent binomials, in closed form."""
    rate, x = 0.3, np.linspace(0, 1, 20_001)
    below = np.array([binom.cdf(np.floor(n * x + 1e-9), n, rate) for n in rows])
    expected = np.trapezoid(1 - below.prod(0) - (1 - below).prod(0), x)
    assert floors(counts_of(rows, rate))["ddp_floor"][0] == pytest.approx(expected, rel=0.05)


def test_ten_equal_groups_have_the_range_of_ten_normals():
    """3.08 standard deviations: with 400 rows each and a rate of one half, a gap of 0.077."""

    def spread(x):
        return 1 - norm.cdf(x) ** 10 - (1 - norm.cdf(x)) ** 10

    width = quad(spread, -9, 9)[0]
    assert width == pytest.approx(3.078, abs=1e-3)
    found = floors(counts_of((400,) * 10, 0.5))["ddp_floor"][0]
    assert found == pytest.approx(width * 0.5 / 20, rel=0.03)


@pytest.mark.parametrize("criterion", ["ddp", "eo", "eopp"])
def test_without_gaps_the_mean_of_the_largest_is_the_floor(criterion):
    """Three labels, four groups: all rates are those of every group."""
    rng = np.random.default_rng(0)
    rows = np.array([[30, 20, 25], [60, 10, 30], [15, 40, 20], [50, 50, 50]])
    chances = np.array([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
    if criterion == "ddp":  # among all rows: the labels must not matter either
        chances[:] = chances[0]
    drawn = np.stack([rng.multinomial(rows, chances) for _ in range(2000)])
    truth = metrics.measure(drawn)[criterion].mean()
    found = floors(drawn[:100])[f"{criterion}_floor"].mean()
    assert found == pytest.approx(truth, rel=0.05)


def test_two_groups_have_no_floor_and_groups_set_apart_do_not_count():
    two = counts_of((50, 60), 0.4)
    assert all(np.isnan(value).all() for value in floors(two).values())
    empty = np.concatenate([two, np.zeros_like(two)[:, :1]], axis=1)
    assert np.isnan(floors(empty)["ddp_floor"]).all()
    few = counts_of((50, 60, 70, 3), 0.4)
    apart = metrics.set_apart(few)
    assert apart["ddp"].sum() == 1
    np.testing.assert_array_equal(floors(few, apart)["ddp_floor"], floors(few[:, :3])["ddp_floor"])
    assert floors(few)["ddp_floor"] > floors(few, apart)["ddp_floor"]


def test_equal_clients_have_equal_floors_and_weights_raise_them():
    counts = counts_of((50, 60, 70), 0.4)
    both = floors(np.concatenate([counts, counts]))["ddp_floor"]
    assert both[0] == both[1] == floors(counts)["ddp_floor"][0]
    heavy = np.stack([counts, counts, 4 * counts])  # a quarter of the rows
    assert noise_floors(heavy)["ddp_floor"] == pytest.approx(2 * both[0], rel=0.05)
