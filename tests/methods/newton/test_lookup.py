"""The library in C gives what NumPy gives, and it is not missed where it was not built."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.data.tables.basis import MISSING, Basis
from pfedfair.data.tables.piecewise import Piecewise
from pfedfair.methods.newton import lookup
from pfedfair.methods.newton.design import symmetric

built = pytest.mark.skipif(lookup.LIBRARY is None, reason="it was not built, or is switched off")


def drawn(seed: int, n: int) -> tuple[Basis, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A basis, positions, two numbers behind, and weights of rows."""
    rng, rows = np.random.default_rng(seed), 80
    frame = pd.DataFrame({
        "a": np.where(rng.random(rows) < rng.random() / 2, np.nan, rng.normal(size=rows)),
        "b": rng.choice([0.0, 1.0, 5.0], rows), "one": np.full(rows, 3.0),
        "c": rng.choice(["u", "v", None], rows), "d": rng.zipf(1.5, rows).astype(str),
    })  # fmt: skip
    names = rng.permutation(frame.columns)[: rng.integers(1, 6)].tolist()
    half = np.arange(rows) % 2
    data = pff.from_frame(frame[names].assign(y=half, s=half), "y", "s", keep=names)
    basis = Piecewise.fit(data, np.arange(rows)).basis
    cells = rng.random((n, len(basis.sizes))) * np.maximum(basis.sizes - 1, 0)
    cells = np.where(basis.interpolated & (rng.random(cells.shape) < 0.7), cells, cells.round())
    cells = np.where(rng.random(cells.shape) < 0.2, MISSING, cells)
    dense = torch.from_numpy(rng.integers(-1, 2, (n, 2)).astype(float))
    return basis, torch.from_numpy(cells).float(), dense, torch.from_numpy(rng.random(n))


@built
@given(st.integers(0, 10**6), st.integers(0, 60), st.integers(1, 4))
def test_squares_are_those_of_the_laid_out_design(seed, n, parts):
    basis, cells, dense, weight = drawn(seed, n)
    ends = [n * k // parts for k in range(parts + 1)]
    found = lookup.squares(basis, basis.lookup(cells), dense, weight, ends)
    x = torch.cat([basis.dense(cells).double(), dense], dim=1)
    for square, start, stop in zip(symmetric(found), ends[:-1], ends[1:], strict=True):
        own = x[start:stop]
        right = own.T @ (weight[start:stop, None] * own)
        torch.testing.assert_close(square.double(), right, rtol=1e-5, atol=1e-4)


@built
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": torch.ones(4).double()}, "do not match 5 rows"),
        ({"dense": torch.ones(6, 2)}, "do not match 5 rows"),
        ({"ends": [0, 6]}, r"parts \[0, 6\] do not match"),
        ({"ends": [-1, 5]}, "do not match"),
        ({"ends": [0, 4, 2]}, "do not match"),
        ({"lines": 10**6}, "no such lines"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(change, message):
    basis, cells, dense, weight = drawn(0, 5)
    lines, parts = basis.lookup(cells)
    given = {"dense": dense, "weight": weight, "ends": [0, 5]} | change
    lines = lines + given.pop("lines", 0)
    with pytest.raises(ValueError, match=message):
        lookup.squares(basis, (lines, parts), **given)
