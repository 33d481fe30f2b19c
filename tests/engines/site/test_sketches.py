"""Sketches: linear modulo 2^64, as long as their numbers on average, and few."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfedfair.engines.site.masking import mask, pair_masks
from pfedfair.engines.site.sketches import (
    COUNT,
    MIN_NUMBERS,
    MOST,
    NUMBERS,
    commitment,
    find_liars,
    seed_of,
    sketch,
)

SEED = seed_of("who is in the sum", {0: "a", 1: "b"})


@given(sizes=st.lists(st.integers(1, 300), min_size=1, max_size=4))
def test_at_most_one_number_in_sixteen_is_told_and_of_few_none(sizes):
    shapes = tuple((f"t{k}", (size,)) for k, size in enumerate(sizes))
    (found,) = sketch([np.zeros(1 + sum(sizes), dtype=np.int64)], shapes, SEED)
    for name, (size,) in shapes:
        assert len(found[name]) <= min(MOST, size / NUMBERS)
        assert (len(found[name]) > 0) == (size >= MIN_NUMBERS)


@given(key=st.binary(min_size=32, max_size=32))
def test_masks_come_off_a_sketch_exactly(key):
    """Modulo 2^64, whatever the masks are."""
    shapes = (("w", (8, 8)), ("few", (3,)), ("v", (40,)))
    numbers = np.arange(1 + 64 + 3 + 40)
    masked = numbers + pair_masks(0, {1: key}, len(numbers)) + mask(key[::-1], len(numbers))
    parts = [mask(key, len(numbers)), mask(key[::-1], len(numbers))]
    told = sketch([masked, *parts, numbers], shapes, SEED)
    for name in (COUNT, *(name for name, _ in shapes)):
        np.testing.assert_array_equal(told[0][name] - told[1][name] - told[2][name], told[3][name])


def test_a_sketch_is_a_sum_with_signs_of_even_odds():
    shapes, numbers = (("w", (320,)),), np.zeros(321, dtype=np.int64)
    signs = []
    for k in range(320):
        one = numbers.copy()
        one[1 + k] = 1
        signs.append(sketch([one], shapes, SEED)[0]["w"])
    signs = np.array(signs)
    assert set(np.unique(signs)) == {-1, 1}
    assert abs(signs.mean()) < 0.06  # 3 standard errors of 5,120 signs are .042
    assert np.abs(np.corrcoef(signs.T) - np.eye(MOST)).max() < 0.25
    whole = sketch([np.arange(321)], shapes, SEED)[0]["w"]
    np.testing.assert_array_equal(whole, signs.T @ np.arange(1, 321))


def honest(rng, sites=5, size=640):
    usual = rng.normal(size=size)
    return [usual + 0.5 * rng.normal(size=size) for _ in range(sites)]


def sketches(vectors, seed):
    shapes = (("w", (len(vectors[0]),)),)
    steps = [np.rint(np.append(1, v) * 2**20).astype(np.int64) for v in vectors]
    found = sketch(steps, shapes, seed_of(str(seed), {}))
    return {i: {"w": one["w"]} for i, one in enumerate(found)}


@pytest.mark.parametrize("factor", [-1.4, -1, -10, 10, 1000, 0])
def test_a_liar_is_named_and_nobody_else(factor):
    for seed in range(20):
        vectors = honest(np.random.default_rng(seed))
        vectors[2] = factor * vectors[2]
        assert set(find_liars(sketches(vectors, seed))) == {2}


def test_honest_sites_are_not_named():
    for seed in range(200):
        assert not find_liars(sketches(honest(np.random.default_rng(seed)), seed))


def test_zeros_in_few_sums_are_chance():
    """Two rows counted in two of 40 cells: both sums are 0 in one sketch of four."""
    few = {i: {"held": np.array([5, -3])} for i in range(4)} | {4: {"held": np.array([0, 0])}}
    assert not find_liars(few)


def test_signs_depend_on_every_sites_number_and_on_who_is_in_the_sum():
    seeds = {seed_of("a", {0: "x", 1: "y"}), seed_of("a", {0: "x", 1: "z"}),
             seed_of("a", {0: "x"}), seed_of("b", {0: "x", 1: "y"})}  # fmt: skip
    assert len(seeds) == 4
    assert commitment("x") != commitment("y")
