"""The library in C lays out the same inputs as PyTorch, to the last bit."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair._util import spare
from pfedfair.data.tables import unpack
from pfedfair.data.tables.piecewise import EMPTY, Numbers, Piecewise

built = pytest.mark.skipif(unpack.LIBRARY is None, reason="it was not built, or is switched off")


def encoder(seed: int) -> Piecewise:
    """Numbers with and without empty cells, one value, few values; levels, rare ones and none."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(60, 200))
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.choice([0.0, 1.0, 5.0], n)})
    frame["gap"] = np.where(rng.random(n) < 0.3, np.nan, rng.lognormal(0, 2, n))
    frame["c"] = rng.choice(["u", "v", None], n)
    frame["rare"] = rng.zipf(1.5, n).clip(max=99).astype(str)
    frame["one"], half = 3.0, np.arange(n) % 2
    names = rng.permutation(frame.columns)[: rng.integers(1, 7)].tolist()
    data = pff.from_frame(
        frame[names].assign(y=half, s=half[::-1]), "y", "s", keep=names,
        categorical=[name for name in names if name == "rare"],
    )  # fmt: skip
    return Piecewise.fit(data, np.arange(n))


@built
@given(st.integers(0, 999), st.integers(0, 30))
def test_inputs_have_the_bits_of_pytorch(seed, n):
    found, rng = encoder(seed), np.random.default_rng(seed)
    cells = rng.choice([0.0, 0.25, 1.0, 1.5, 2.0, 7.3, 60.0], (2, n, len(found.columns)))
    odd = rng.choice([EMPTY, np.nan, np.inf, -np.inf, -3.0, 1e30, -0.0], cells.shape)
    packed = torch.from_numpy(np.where(rng.random(cells.shape) < 0.3, odd, cells)).float()
    assert found._in_c.able(packed)
    in_c = found.unpack(packed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unpack, "LIBRARY", None)
        by_torch = found.unpack(packed)
    assert in_c.shape == by_torch.shape
    np.testing.assert_array_equal(in_c.numpy(), by_torch.numpy())


@built
@given(st.integers(0, 999), st.integers(0, 600), st.integers(1, 3))
def test_inputs_times_weights_need_not_be_laid_out(seed, n, outputs):
    """By loops over people and inputs, in double precision."""
    found, rng = encoder(seed), np.random.default_rng(seed)
    cells = rng.choice([0.0, 0.25, 1.0, 1.5, 2.0, 7.3, 60.0], (n, len(found.columns)))
    odd = rng.choice([EMPTY, np.inf, -np.inf, -3.0, 1e30, -0.0], cells.shape)
    packed = torch.from_numpy(np.where(rng.random(cells.shape) < 0.3, odd, cells)).float()
    weights = torch.from_numpy(rng.normal(size=(outputs, found.width))).float()
    plain = found.unpack(packed).double() @ weights.double().T
    torch.testing.assert_close(found.times(packed, weights).double(), plain, rtol=1e-5, atol=2e-5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unpack, "LIBRARY", None)
        by_torch = found.times(packed, weights).double()
    torch.testing.assert_close(by_torch, plain, rtol=1e-5, atol=1e-4)


@built
def test_weights_that_do_not_fit_are_refused():
    found = encoder(0)
    packed = torch.zeros(4, len(found.columns))
    with pytest.raises(AssertionError):
        found.times(packed, torch.zeros(1, found.width + 1))


@built
def test_rows_that_lie_apart_in_memory_are_read_in_order():
    found = encoder(0)
    packed = torch.rand(2, 40, len(found.columns)).round()
    turned = packed.movedim(0, 1)
    assert torch.equal(found.unpack(turned), found.unpack(packed).movedim(0, 1))
    assert torch.equal(found.unpack(packed[:, ::3]), found.unpack(packed)[:, ::3])


@built
def test_an_encoder_that_was_used_can_be_pickled():
    found = encoder(0)
    packed = torch.rand(9, len(found.columns)).round()
    inputs = found.unpack(packed)
    again = pickle.loads(pickle.dumps(found))
    found = None
    assert torch.equal(again.unpack(packed), inputs)


def test_other_numbers_are_left_to_pytorch():
    found = encoder(0)
    packed = torch.zeros(4, len(found.columns), dtype=torch.float64)
    assert not found._in_c.able(packed)
    assert not found._in_c.able(packed.float().requires_grad_())


def test_an_encoder_without_inputs_has_none():
    found = Piecewise({"one": Numbers((3.0,), (), 0.0)}, {})
    assert found.unpack(torch.zeros(5, 1)).shape == (5, 0)


@built
def test_inputs_that_somebody_has_are_never_written_over():
    found = encoder(0)
    packed = [torch.rand(40, len(found.columns)).round() + k % 3 for k in range(8)]
    kept = [found.unpack(cells)[1:] for cells in packed]  # views, as those of a minibatch
    arrays = [found.unpack(cells).numpy() for cells in packed]
    for cells, view, array in zip(packed, kept, arrays, strict=True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(unpack, "LIBRARY", None)
            right = found.unpack(cells)
        assert torch.equal(view, right[1:])
        np.testing.assert_array_equal(array, right.numpy())


@built
@pytest.mark.skipif(spare.holders is None, reason="PyTorch does not tell who has a tensor")
def test_memory_that_nobody_has_is_used_again():
    found, packed = encoder(0), torch.rand(40, 3).round()
    packed = packed[:, :1].expand(40, len(found.columns))
    places = {found.unpack(packed).data_ptr() for _ in range(20)}
    assert len(places) <= 3
