"""Embeddings are scaled by moments that clients add up; pixels are left as they are."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from pfedfair._util.errors import InputError
from pfedfair.data.tables import arrays, encoder
from pfedfair.data.tables.arrays import EmbeddingScaler, Moments, Pixels, moments

RNG = np.random.default_rng(0)
MIX = RNG.standard_normal((12, 12)) * np.arange(1, 13)
ARRAY = (RNG.standard_normal((300, 12)) @ MIX / 10 + np.arange(12)).astype(np.float16)
CLIENTS = [np.arange(0, 7), np.arange(7, 120), np.arange(120, 200)]
TRAIN = np.arange(200)


def test_standardised_as_scikit_learn_does():
    theirs = StandardScaler().fit(ARRAY[TRAIN].astype(np.float64))
    ours = EmbeddingScaler.fit(ARRAY, CLIENTS)
    assert ours.width == 12
    expected = theirs.transform(ARRAY.astype(np.float64))
    np.testing.assert_allclose(ours.transform(ARRAY), expected, atol=1e-5)


@given(cuts=st.lists(st.integers(0, 200), max_size=6), products=st.booleans())
def test_moments_of_clients_add_up_to_those_of_everybody(cuts, products):
    parts = np.split(TRAIN, sorted(cuts))
    first, *others = (moments(ARRAY, part, products) for part in parts)
    total: Moments = sum(others, first)
    x = ARRAY[TRAIN].astype(np.float64)
    assert total.n == 200
    np.testing.assert_allclose(total.total, x.sum(0))
    np.testing.assert_allclose(total.square, x.T @ x if products else (x**2).sum(0))


def test_moments_do_not_hang_on_how_many_rows_are_taken_at_once(monkeypatch):
    whole = moments(ARRAY, TRAIN, True)
    scaled = EmbeddingScaler.of(whole).transform(ARRAY)
    monkeypatch.setattr(arrays, "AT_ONCE", 9)
    np.testing.assert_allclose(moments(ARRAY, TRAIN, True).square, whole.square)
    np.testing.assert_allclose(EmbeddingScaler.of(whole).transform(ARRAY), scaled, atol=1e-6)


def test_whitened_numbers_are_uncorrelated_and_shrunk():
    fitted = EmbeddingScaler.fit(ARRAY, CLIENTS, "whiten")
    turned = fitted.transform(ARRAY[TRAIN]).astype(np.float64)
    size = np.linalg.eigvalsh(np.corrcoef(ARRAY[TRAIN].astype(np.float64).T))
    np.testing.assert_allclose(turned.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(np.cov(turned.T, ddof=0), np.diag(size / (size + 1)), atol=1e-5)


def test_a_direction_without_variance_is_left_out_by_whitening():
    twice = np.concatenate([ARRAY, ARRAY[:, :3]], axis=1)
    assert EmbeddingScaler.fit(twice, [TRAIN], "whiten").width == 12
    few_rows = EmbeddingScaler.fit(twice[:5], [np.arange(5)], "whiten")
    assert few_rows.width == 4  # five rows span so many


@pytest.mark.parametrize("scaling", arrays.SCALINGS)
@pytest.mark.parametrize("value", [0.0, 0.1, 1000.0])
def test_a_constant_number_does_not_explode(scaling, value):
    array = np.concatenate([ARRAY, np.full((300, 1), value, np.float16)], axis=1)
    array[299, -1] = value + 1
    fitted = EmbeddingScaler.fit(array, CLIENTS, scaling)
    turned = fitted.transform(array)
    assert np.abs(turned).max() < 100
    same = EmbeddingScaler.fit(ARRAY, CLIENTS, scaling).transform(ARRAY[TRAIN])
    np.testing.assert_allclose(np.abs(turned[TRAIN][:, : same.shape[1]]), np.abs(same), atol=1e-4)


def test_large_inputs_are_kept_in_half_precision(monkeypatch):
    fitted = EmbeddingScaler.fit(ARRAY, CLIENTS)
    full = fitted.transform(ARRAY)
    assert full.dtype == np.float32
    monkeypatch.setattr(arrays, "LARGE", full.nbytes - 1)
    half = fitted.transform(ARRAY)
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half, full.astype(np.float16))


def test_a_table_with_a_column_of_embeddings_is_the_same():
    fitted = EmbeddingScaler.fit(ARRAY, CLIENTS)
    frame = pd.DataFrame({"file": range(300), "embedding": list(ARRAY)})
    np.testing.assert_array_equal(fitted.transform(frame), fitted.transform(ARRAY))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ARRAY[:, :5], r"The model takes embeddings of 12 numbers, these have 5: make them with"),
        (ARRAY[0], r"takes embeddings of 12 numbers, these have \?"),
        (pd.DataFrame({"file": ["a"]}), "The rows lack the column 'embedding', the input"),
        (np.where(np.arange(300)[:, None] == 7, np.nan, ARRAY), "row 7 has numbers that are not"),
    ],
)
def test_refusals(rows, message):
    with pytest.raises(InputError, match=message):
        EmbeddingScaler.fit(ARRAY, CLIENTS).transform(rows)


def test_an_unknown_scaling_is_refused_with_the_nearest():
    with pytest.raises(InputError, match=r"Unknown scaling 'whitn': did you mean 'whiten'\?"):
        EmbeddingScaler.fit(ARRAY, CLIENTS, "whitn")


@pytest.mark.parametrize("scaling", arrays.SCALINGS)
def test_made_again_from_what_it_says(scaling):
    fitted = EmbeddingScaler.fit(ARRAY, CLIENTS, scaling)
    again = encoder.from_dict(json.loads(json.dumps(fitted.to_dict())), fitted.tensors())
    np.testing.assert_array_equal(again.transform(ARRAY), fitted.transform(ARRAY))


def test_pixels_are_bytes_of_one_shape():
    images = RNG.integers(0, 256, (5, 3, 8, 6), np.uint8)
    taken = Pixels((3, 8, 6))
    assert taken.width == 144
    assert taken.transform(images) is images
    assert encoder.from_dict(json.loads(json.dumps(taken.to_dict())), taken.tensors()) == taken
    for bad in (images / 255, images[:, :, :4]):
        with pytest.raises(InputError, match=r"takes images \(3, 8, 6\) of bytes, these are \("):
            taken.transform(bad)
