"""Whole numbers and masks of a secure sum, against plain sums."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

import pfedfair as pff
from pfedfair.engines.site.masking import (
    BITS,
    Scale,
    dequantise,
    length_of,
    mask,
    max_integer,
    min_threshold,
    pair_masks,
    quantise,
    shapes_of,
)

HOW = {"w": "size", "counts": "sum", "part": "uniform"}


def messages(rng, weights, server):
    return [
        {
            "w": server["w"] + torch.from_numpy(rng.normal(size=5)).float(),
            "counts": torch.from_numpy(rng.integers(0, 10**6, (2, 3)).astype(float)),
            "part": torch.from_numpy(rng.normal(size=())),
        }
        for _ in weights
    ]


@given(
    weights=st.lists(st.integers(1, 10**6), min_size=3, max_size=20), seed=st.integers(0, 2**32 - 1)
)
def test_sums_are_exact_and_means_within_a_step(weights, seed):
    rng = np.random.default_rng(seed)
    server = {"w": torch.from_numpy(rng.normal(size=5)).float()}
    sent = messages(rng, weights, server)
    scale = Scale(HOW, ("w",))
    total = sum(
        quantise(one, server, scale, n, len(weights)) for one, n in zip(sent, weights, strict=True)
    )
    found = dequantise(total, shapes_of(sent[0]), server, scale, weights)
    counts = torch.stack([one["counts"] for one in sent]).sum(0)
    assert torch.equal(found["counts"], counts)
    w = torch.stack([one["w"].double() for one in sent])
    mean = np.average(w.numpy(), axis=0, weights=weights)
    assert found["w"].dtype == torch.float32
    np.testing.assert_allclose(found["w"], mean, atol=5e-7)
    part = torch.stack([one["part"] for one in sent]).mean()
    assert abs(float(found["part"] - part)) <= 2.0 ** -BITS["uniform"]


@pytest.mark.parametrize("how", BITS)
def test_a_number_is_wrong_by_half_a_step_at_the_most(how):
    x = {"x": torch.from_numpy(np.random.default_rng(0).normal(size=1000))}
    scale, step = Scale({"x": how}, ()), 2.0 ** -BITS[how]
    found = dequantise(quantise(x, {}, scale, 1, 3), shapes_of(x), {}, scale, [1])
    error = (found["x"] - x["x"]).abs().max()
    assert 0.4 * step < error <= 0.5 * step


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 2.0**40])
def test_what_does_not_fit_is_not_sent(bad):
    with pytest.raises(pff.InputError, match="'counts' has numbers that are too large"):
        quantise({"counts": torch.tensor([1.0, bad])}, {}, Scale(HOW, ()), 1, 3)


def test_the_largest_numbers_that_fit_add_up_without_running_over():
    scale, large = Scale(HOW, ()), float(max_integer(20)) / 2.0 ** BITS["sum"]
    one = {"counts": torch.tensor([large, -large], dtype=torch.float64)}
    total = sum(quantise(one, {}, scale, 1, 20) for _ in range(20))
    found = dequantise(total, shapes_of(one), {}, scale, [1] * 20)
    torch.testing.assert_close(found["counts"], 20 * one["counts"])


@pytest.mark.parametrize("spoil", [lambda t: t + 2**62, lambda t: t * 0])
def test_a_sum_that_cannot_be_is_refused(spoil):
    one = {"counts": torch.tensor([1.0, 2.0])}
    total = spoil(3 * quantise(one, {}, Scale(HOW, ()), 1, 3))
    with pytest.raises(pff.InputError, match="The sum cannot be"):
        dequantise(total, shapes_of(one), {}, Scale(HOW, ()), [1, 1, 1])


def test_shared_masks_are_gone_in_the_sum_and_hide_before():
    rng, n, length = np.random.default_rng(0), 5, 4000
    key = {(i, j): rng.bytes(32) for i in range(n) for j in range(i)}
    each = [
        pair_masks(i, {j: key[max(i, j), min(i, j)] for j in range(n) if j != i}, length)
        for i in range(n)
    ]
    assert (sum(each) == 0).all()
    for one in each:
        seen = np.bincount(one.view(np.uint8), minlength=256)
        assert chisquare(seen).pvalue > 1e-4
    assert (sum(each[:-1]) != 0).mean() > 0.99


def test_masks_are_those_of_aes_and_depend_on_every_bit_of_the_key():
    from Crypto.Cipher import AES  # another implementation

    key = bytes(range(32))
    other = AES.new(key, AES.MODE_CTR, nonce=b"", initial_value=0).encrypt(bytes(80))
    assert mask(key, 10).tobytes() == other
    for bit in range(256):
        changed = (int.from_bytes(key) ^ (1 << bit)).to_bytes(32)
        assert (mask(changed, 10) != mask(key, 10)).all()


def test_the_length_is_that_of_the_vector():
    one = {"w": torch.zeros(4), "a": torch.zeros(2, 3), "b": torch.zeros(())}
    scale = Scale({"w": "uniform", "a": "sum", "b": "sum"}, ())
    assert len(quantise(one, {}, scale, 1, 3)) == length_of(shapes_of(one)) == 12


@pytest.mark.parametrize("sites", range(3, 40))
def test_two_lists_of_survivors_do_not_both_get_enough_signatures(sites):
    """A site signs one list, and one colluding site signs both."""
    least = min_threshold(sites)
    assert least <= sites
    assert 2 * least > sites + 1
    assert least - 1 >= 2  # beside a colluding site, there are two in a sum
    assert 2 * (least - 1) <= sites + 1  # no more than needed
