"""One map from positions in columns to inputs: as plain loops have it, laid out or looked up."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.data.tables.basis import MISSING
from pfedfair.data.tables.piecewise import Numbers, Piecewise


def encoder(seed: int) -> Piecewise:
    """Numbers with missing values, one value, few values; categories, rare and missing."""
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


def positions(found: Piecewise, n: int, seed: int) -> np.ndarray:
    """Positions that cells may have, ``(n, columns)``."""
    rng = np.random.default_rng(seed)
    last = [len(number.knots) - 1 for number in found.numbers.values()]
    numbers = [rng.choice([0, end, *rng.uniform(0, end, 4)], n) for end in last]
    last = [len(column.names) for column in found.categories.values()]
    cells = np.column_stack([*numbers, *(rng.integers(0, end + 1, n) for end in last)])
    return np.where(rng.random(cells.shape) < 0.2, MISSING, cells).astype(np.float32)


def by_hand(found: Piecewise, row: np.ndarray) -> list[float]:
    """The inputs of one row, by loops over columns and inputs: segments, then indicators."""
    segments, flags = [], []
    cells = dict(zip(found.columns, row.tolist(), strict=True))
    for name, number in found.numbers.items():
        for j, mean in enumerate(number.means):
            rise = min(max(cells[name] - j, 0.0), 1.0)
            segments.append(0.0 if cells[name] == MISSING else (rise - mean) * number.scale)
        flags += [float(cells[name] == MISSING)] * (number.empty > 0)
    for name, column in found.categories.items():
        nowhere = cells[name] == MISSING or cells[name] >= column.inputs
        flags += [s if nowhere else float(cells[name] == j) for j, s in enumerate(column.shares)]
        flags += [float(cells[name] == MISSING)] * (column.empty > 0)
    return segments + flags


@given(st.integers(0, 999), st.integers(0, 30))
def test_inputs_are_those_of_loops(seed, n):
    found = encoder(seed)
    cells = positions(found, n, seed)
    expected = np.array([by_hand(found, row) for row in cells]).reshape(n, found.width)
    dense = found.unpack(torch.from_numpy(cells))
    np.testing.assert_allclose(dense, expected, atol=1e-5)


@given(st.integers(0, 999), st.integers(0, 300), st.integers(1, 3))
def test_looked_up_products_are_those_of_dense_inputs(seed, n, outputs):
    found, rng = encoder(seed), np.random.default_rng(seed)
    basis, cells = found.basis, torch.from_numpy(positions(found, n, seed))
    x = found.unpack(cells).double()
    weights = torch.from_numpy(rng.normal(size=(outputs, found.width))).float()
    close = {"rtol": 1e-5, "atol": 2e-5}
    torch.testing.assert_close(
        basis.times(cells, weights).double(), x @ weights.double().T, **close
    )
    slopes = torch.from_numpy(rng.normal(size=(n, outputs)))
    lines, parts = basis.lookup(cells)
    sums = torch.zeros(int(basis.ends[-1]), outputs).double()
    for k in range(lines.shape[1]):
        sums.index_add_(0, lines[:, k], parts[:, k, None] * slopes)
    torch.testing.assert_close(basis.pull(sums), x.T @ slopes, **close)


def test_a_table_has_a_line_of_inputs_for_each_position():
    data = {"a": [0.0, 1.0, np.nan] * 20, "c": ["u", "v", None] * 20, "b": [1.0, 2.0] * 30}
    frame = pd.DataFrame(data).assign(y=np.arange(60) % 2, s=np.arange(60) // 2 % 2)
    made = pff.from_frame(frame, "y", "s", keep=["a", "b", "c"])
    found = Piecewise.fit(made, np.arange(60))
    tables = dict(zip(found.columns, found.basis.tables, strict=True))
    every = sorted(k for table in tables.values() for k in table.inputs.tolist())
    assert every == list(range(found.width))
    sizes = {name: (table.known, *table.values.shape) for name, table in tables.items()}
    assert sizes == {"a": (0, 3, 2), "b": (0, 3, 1), "c": (2, 2, 3)}
    assert tables["c"].values.tolist() == [[0.5, 0.5, 0.0], [0.5, 0.5, 1.0]]  # unknown, missing
    assert tables["a"].values[2].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("cell", [np.nan, np.inf, -np.inf, 1e30, -1e30, -7.0, 7.0])
def test_no_cell_leads_out_of_its_column(cell):
    found = encoder(0)
    cells = torch.full((3, len(found.columns)), float(cell))
    lines, parts = found.basis.lookup(cells)
    ends, columns = found.basis.ends, len(found.columns)
    assert (lines.numpy()[:, :columns] >= ends[:-1]).all()
    assert (lines.numpy()[:, :columns] < ends[1:]).all()
    assert np.isnan(cell) or ((parts >= 0) & (parts <= 1)).all()


def test_rows_that_lie_apart_in_memory_are_read_in_order():
    found = encoder(0)
    packed = torch.rand(2, 40, len(found.columns)).round()
    turned = packed.movedim(0, 1)
    assert torch.equal(found.unpack(turned), found.unpack(packed).movedim(0, 1))
    assert torch.equal(found.unpack(packed[:, ::3]), found.unpack(packed)[:, ::3])


def test_an_encoder_that_was_used_can_be_pickled():
    found = encoder(0)
    packed = torch.rand(9, len(found.columns)).round()
    again = pickle.loads(pickle.dumps(found))
    assert torch.equal(again.unpack(packed), found.unpack(packed))


def test_an_encoder_without_inputs_has_none():
    found = Piecewise({"one": Numbers((3.0,), (), 0.0)}, {})
    assert found.unpack(torch.zeros(5, 1)).shape == (5, 0)
    assert found.basis.times(torch.zeros(5, 1), torch.zeros(2, 0)).tolist() == [[0.0] * 2] * 5
