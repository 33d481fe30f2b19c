"""Copies of images: planted ones are found, and no others."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfedfair._util.errors import InputError
from pfedfair.data.images.faces import load
from pfedfair.data.images.faces.copies import Copies, copies, crossing, words
from shared_faces import FACES, needs_faces

module = sys.modules["pfedfair.data.images.faces.copies"]  # its function has its name


def by_hand(array, limit):
    """All pairs above the limit, by the definition of a cosine."""
    unit = array.astype(float)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    return {(i, j) for i, j in np.argwhere(unit @ unit.T > limit).tolist() if i < j}


def as_set(pairs):
    return set(map(tuple, pairs.tolist()))


@given(st.integers(2, 60), st.integers(1, 300), st.integers(0, 2**32 - 1), st.booleans())
def test_pairs_are_those_of_the_definition(rows, width, seed, offset):
    """Also beyond 2 x SKETCH numbers, where most pairs are left out unseen."""
    rng = np.random.default_rng(seed)
    array = rng.standard_normal((rows, width)).astype(np.float16) + 2 * offset
    array[rng.integers(rows)] = array[0]  # an exact copy, perhaps of itself
    array[rng.integers(rows)] = array[0] * np.float16(1.001) + np.float16(0.01)
    found = copies(array, near=0.9)
    same = {(i, j) for i in range(rows) for j in range(i) if np.array_equal(array[i], array[j])}
    assert as_set(found.exact) == {(j, i) for i, j in same}
    assert as_set(found.near) == by_hand(array, 0.9) - as_set(found.exact)


def test_no_pair_is_lost_at_the_limit_or_between_blocks(monkeypatch):
    """Pairs whose cosines are just above and below the limit, most of them in different blocks."""
    monkeypatch.setattr(module, "BLOCK", 64)
    rng = np.random.default_rng(0)
    base = rng.standard_normal((500, 700))
    base /= np.linalg.norm(base, axis=1, keepdims=True)
    other = rng.standard_normal(base.shape)
    other -= (other * base).sum(1, keepdims=True) * base
    other /= np.linalg.norm(other, axis=1, keepdims=True)
    cosine = 0.97 + np.tile([1e-6, -1e-6, 1e-3, -1e-3], 125)[:, None]
    array = np.concatenate([base, cosine * base + np.sqrt(1 - cosine**2) * other])
    found = copies(array, near=0.97)
    expected = {(i, i + 500) for i in range(500) if i % 2 == 0}
    assert as_set(found.near) == expected
    assert found.cosine == pytest.approx(cosine[::2, 0], abs=1e-9)


def test_many_alike_rows_are_looked_at_together_and_no_more_are_kept_than_fit(monkeypatch):
    rng = np.random.default_rng(0)
    array = (10 + rng.standard_normal((80, 250))).astype(np.float16)  # all cosines are high
    assert as_set(copies(array, near=0.97).near) == by_hand(array, 0.97)
    monkeypatch.setattr(module, "MOST_PAIRS", 100)
    few = copies(np.concatenate([array, np.ones((30, 250), np.float16)]), near=0.97)
    assert few.more
    assert len(few.near) <= len(few.exact) == 100
    assert words(few, "mine").startswith("Among 110 rows of mine there are at least 100 pairs")


def test_images_with_one_hash_are_copies_and_pixels_are_compared_by_bytes():
    array = np.eye(3, 4)
    found = copies(array, sha256=["a", "b", "a"])
    assert as_set(found.exact) == {(0, 2)}
    assert len(copies(array, sha256=["a", None, float("nan")]).exact) == 0
    pixels = np.zeros((4, 3, 8, 8), np.uint8)
    pixels[2] = 1
    found = copies(pixels)
    assert as_set(found.exact) == {(0, 1), (0, 3), (1, 3)}
    assert words(found, "mine") == (
        "Among 4 rows of mine there are 3 pairs of equal images; near copies were not looked for."
    )


def test_beyond_many_rows_only_exact_copies_are_looked_for(monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 3)
    found = copies(np.array([[1, 2.0], [1, 2], [1, 2.01], [5, 1]]))
    assert as_set(found.exact) == {(0, 1)}
    assert len(found.near) == 0
    assert "not looked for, as there are more than 3 rows" in words(found, "mine")


def test_rows_of_zeros_are_near_to_nothing():
    found = copies(np.array([[0, 0.0], [1, 0], [0, 1]]))
    assert len(found.near) == len(found.exact) == 0


def test_a_limit_is_a_cosine():
    with pytest.raises(InputError, match="near is a cosine between 0 and 1, got 97"):
        copies(np.eye(2), near=97)


def test_pairs_across_train_and_test_are_counted():
    pairs = np.array([[0, 1], [2, 9], [3, 8], [8, 9]])
    train, test = np.arange(5), np.array([8, 9])
    assert crossing(pairs, train, test) == crossing(pairs, test, train) == 2
    none = np.empty((0, 2), np.int64)
    assert crossing(none, train, test) == 0
    found = Copies(pairs[:1], pairs[1:], np.ones(3), 0.97, 10)
    assert words(found, "mine", train, test) == (
        "Among 10 rows of mine there are 1 pair of equal images (0 across train and test) and "
        "3 pairs with a cosine above 0.97 (2 across train and test)."
    )


@needs_faces
def test_the_copies_of_celeba_that_are_known():
    data = load("celeba", FACES)
    found = copies(data.array)
    assert len(found.exact) == 0
    assert len(found.near) == 12
    train, test = np.flatnonzero(~data.held), np.flatnonzero(data.held)
    assert crossing(found.near, train, test) == 2
    across = [p for p in found.near if crossing(p[None], train, test)]
    names = {frozenset(data.frame["file"].iloc[p]) for p in across}
    assert names == {
        frozenset({"156807.jpg", "082834.jpg"}),
        frozenset({"082765.jpg", "147580.jpg"}),
    }


@needs_faces
def test_the_copies_of_utkface_that_are_known():
    data = load("utkface", FACES, encoder="facenet512")
    other = load("utkface", FACES, encoder="dinov2s")
    found = copies(data.array).exact
    assert np.array_equal(found, copies(other.array).exact)  # equal to both encoders
    first, second = found.T
    # 105 copies of 99 files are known by their bytes; to both encoders one more pair is equal.
    assert len(np.unique(second)) == 106
    assert len(np.setdiff1d(first, second)) == 100


def test_hashes_that_are_not_known_are_not_equal():
    array = np.eye(6, dtype=np.float16)
    found = copies(array, sha256=["", "", None, None, "a", "a"])
    assert as_set(found.exact) == {(4, 5)}
