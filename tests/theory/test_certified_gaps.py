"""Certificates: the test's level at every rate, by brute force; the path; the choice."""

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import binom, norm

from pfedfair.theory import certificates, fair_rule
from pfedfair.theory.certificates import Line, Plan, certified, choose, enough_rows, limits, path_of
from pfedfair.theory.rule import aware_tilt, gap

BINS = 100
CENTRES = (np.arange(BINS) + 0.5) / BINS
ETA = np.tile(CENTRES, (2, 1))
SIZES = [(20, 180), (180, 20), (60, 45), (5, 95), (1, 1), (150, 400)]


def shapes(*tilts):
    """Score distributions, the higher the tilt the higher the scores."""
    mass = np.array([CENTRES ** (3 * t) * (1 - CENTRES) ** 4 for t in tilts])
    return mass / mass.sum(1, keepdims=True)


def drawn(n, mass, rng):
    return [
        np.repeat(logit(CENTRES), rng.multinomial(m, of)) for m, of in zip(n, mass, strict=True)
    ]


def chance(found, n1, n0, p1, p0):
    """The chance of a rejection, by a sum over all counts of group 0."""
    counts = np.arange(n0 + 1)
    each = binom.pmf(counts, n0, p0[:, None]) * binom.cdf(found, n1, p1[:, None])
    return each.sum(1)


@pytest.mark.parametrize("slope", [1.0, 0.4, 2.5])
@pytest.mark.parametrize("sizes", SIZES)
def test_the_level_holds_at_every_rate(sizes, slope):
    n1, n0 = sizes
    for margin, level in ((0.05, 0.04), (0.2, 0.001)):
        found = limits(n1, n0, margin, level, slope)
        p0 = np.linspace(0, min(1, (1 - margin) / slope), 2001)
        p1 = np.minimum(slope * p0 + margin, 1)
        assert (np.diff(found) >= 0).all()
        assert chance(found, n1, n0, p1, p0).max() <= level
        farther = np.minimum(p1 + 0.03, 1)
        assert (chance(found, n1, n0, farther, p0) <= level).all()


def test_the_bound_on_a_cell_is_no_less_than_any_chance_in_it():
    n1, n0, line = 80, 300, Line(1.0, 0.05)
    found = limits(n1, n0, 0.05, 0.02)
    ends = line.grid(30)
    bound = certificates.largest_error(n1, n0, line, ends)(found)
    for part in (0.0, 0.3, 1.0):
        p0 = ends[:-1] + part * np.diff(ends)
        exact = chance(found, n1, n0, p0 + 0.05, p0)
        assert (exact <= bound).all()
    wide = certificates.chances(n1, ends + 0.05, n0, ends)(found)
    np.testing.assert_allclose(wide, chance(found, n1, n0, ends + 0.05, ends), atol=1e-9)


@pytest.mark.parametrize("sizes", [(400, 2000), (2000, 400), (1500, 1500), (6000, 6000)])
def test_the_power_is_almost_that_of_a_normal_test(sizes):
    n1, n0 = sizes
    found = limits(n1, n0, 0.05, 0.01)
    error = (0.2 * 0.8 * (1 / n1 + 1 / n0)) ** 0.5
    power = chance(found, n1, n0, np.array([0.2]), np.array([0.2]))[0]
    assert power == pytest.approx(norm.cdf(0.05 / error - norm.isf(0.01)), abs=0.06)


def test_limits_of_extreme_questions():
    assert (limits(7, 5, 1.0, 0.01) == 7).all()  # no gap is larger than 1
    assert (limits(0, 5, 0.1, 0.01) == -1).all()
    assert limits(5, 0, 0.1, 0.01).tolist() == [-1]
    assert (limits(50, 50, 0.1, 0.0) == -1).all()


@pytest.mark.parametrize("share", [0.02, 0.3, 0.8])
@pytest.mark.parametrize("tilts", [(0.3, 0.8), (0.9, 0.2), (2.0, 2.6)])
def test_a_path_holds_the_best_rule_of_every_target(share, tilts):
    mass, shares = shapes(*tilts), np.array([1 - share, share])
    path = path_of(ETA, mass, shares)
    above = [logit(CENTRES) >= path.thresholds[:, [z]] for z in (0, 1)]
    rates = np.stack([above[z] @ mass[z] for z in (0, 1)], axis=1)
    assert (np.diff(rates[:, 0]) >= -1e-12).all()
    assert (np.diff(rates[:, 1]) <= 1e-12).all()
    accuracy = sum(shares[z] * np.where(above[z], CENTRES, 1 - CENTRES) @ mass[z] for z in (0, 1))
    gaps = np.abs(np.diff(rates, axis=1)[:, 0])
    s, eta = np.repeat([0, 1], BINS), ETA.ravel()
    tilt, rows = aware_tilt(s, share), (shares[:, None] * mass).ravel()
    for target in (0.02, 0.05, 0.2):
        rule = fair_rule(eta, tilt, rows, target).positive(eta, tilt)
        assert abs(gap(rule, tilt, rows)) <= target + 1e-9
        best = (rows * np.where(rule > 0, rule * eta + (1 - rule) * (1 - eta), 1 - eta)).sum()
        assert accuracy[gaps <= target + 0.02].max() >= best - 1e-3


@pytest.mark.parametrize("tilts", [(0.3, 0.8), (2.0, 2.6)])
def test_gains_are_accuracy_over_the_usual_decision(tilts):
    mass, shares = shapes(*tilts), np.array([0.4, 0.6])
    path = path_of(ETA, mass, shares)
    positive = (shares[:, None] * mass * ETA).sum()
    assert path.usual == (positive > 0.5)
    above = logit(CENTRES) >= path.thresholds[:, [0]]
    accuracy = shares[0] * np.where(above, CENTRES, 1 - CENTRES) @ mass[0]
    usual = shares[0] * mass[0] @ (CENTRES if path.usual else 1 - CENTRES)
    np.testing.assert_allclose(accuracy - usual, path.gains[:, 0], atol=0.01)
    np.testing.assert_allclose((above != path.usual) @ mass[0], path.rates[:, 0], atol=0.03)


@pytest.mark.parametrize("randomised", [0.0, 1.0])
@pytest.mark.parametrize("tilts", [(0.3, 0.8), (0.9, 0.2), (2.0, 2.6)])
def test_chosen_rules_are_within_the_target_but_for_the_level(tilts, randomised):
    """The site's distributions are not those of its path, and every set of rows chooses a rule."""
    rng, level, n = np.random.default_rng(0), 0.2, (700, 300)
    path = path_of(ETA, shapes(*tilts), np.array([0.7, 0.3]))
    mass = shapes(tilts[0] * 1.1, tilts[1] * 0.9)
    false = certified_ = 0
    for _ in range(300):
        found = choose(path, drawn(n, mass, rng), 0.06, level, randomised)
        if found.rule is None:
            continue
        other = [(logit(CENTRES) >= path.thresholds[found.rule, z]) != path.usual for z in (0, 1)]
        rates = [part * of @ m for part, of, m in zip(found.parts, other, mass, strict=True)]
        certified_ += 1
        false += abs(rates[1] - rates[0]) > 0.06
    assert certified_ > 150
    assert false / 300 <= level + 2 * (level * (1 - level) / 300) ** 0.5


def test_certified_rules_are_one_piece_of_the_path():
    path = path_of(ETA, shapes(0.3, 0.8), np.array([0.5, 0.5]))
    rng, rows = np.random.default_rng(1), np.array([3000, 3000])
    scores = drawn(rows, shapes(0.3, 0.8), rng)
    counts = np.stack(
        [[(scores[z] >= at).sum() for at in path.thresholds[:, z]] for z in (0, 1)], axis=1
    )
    good = certified(counts, rows, 0.05, Plan((1.0, 1.0), 0.008, 0.002))
    assert good.any()
    assert (np.diff(np.flatnonzero(good)) == 1).all()
    observed = np.diff(counts / rows, axis=1)[good, 0]
    assert np.abs(observed).max() < 0.05 - 2 * (2 * 0.1 / 3000) ** 0.5 * 0.5


def test_a_site_without_a_group_has_no_certificate():
    path = path_of(ETA, shapes(0.3, 0.8), np.array([0.5, 0.5]))
    found = choose(path, [np.zeros(50), np.zeros(0)], 0.05, 0.01, 1.0)
    assert found.rule is None
    assert found.enough == np.inf


def test_enough_rows_give_a_certificate_about_every_other_time():
    mass, shares = shapes(0.3, 0.8), np.array([0.8, 0.2])
    path = path_of(ETA, mass, shares)
    fair = path.rates[np.abs(np.diff(path.rates, axis=1)[:, 0]).argmin()]
    enough = enough_rows(fair, shares, 0.05, 0.05)
    rng = np.random.default_rng(2)
    certified_ = {}
    for part in (0.6, 1.0, 1.6):
        rows = np.rint(part * enough * shares).astype(int)
        found = [choose(path, drawn(rows, mass, rng), 0.05, 0.05, 0.0).rule for _ in range(60)]
        certified_[part] = np.mean([rule is not None for rule in found])
    assert certified_[0.6] < 0.1
    assert 0.25 < certified_[1.0] < 0.75
    assert certified_[1.6] > 0.85
