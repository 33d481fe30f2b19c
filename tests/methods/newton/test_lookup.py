"""The library in C gives what plain loops give, and nobody misses it where it is not."""

import pickle
from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pfedfair.data.tables.piecewise import EMPTY
from pfedfair.data.tables.places import RANGE, Ranges
from pfedfair.methods.newton import lookup
from pfedfair.methods.newton.design import Dense, Lines, whole
from pfedfair.methods.newton.likelihood import PARTS
from pfedfair.methods.newton.lookup import Compiled

built = pytest.mark.skipif(lookup.LIBRARY is None, reason="it was not built, or is switched off")


def made(rng: np.random.Generator) -> Ranges:
    """Some columns: with levels, or with ramps between places; each input a few whole numbers."""
    starts, between, each = [0], [], []
    for _ in range(rng.integers(1, 5)):
        places, start = int(rng.integers(1, 7)), starts[-1]
        between.append(int(places > 2 and rng.random() < 0.5))
        starts.append(start + places)
        for _ in range(rng.integers(0, 5)):
            low, high = np.sort(rng.integers(start, starts[-1] + 1, 2))
            first, last = np.sort(rng.integers(start, starts[-1] + 1, 2))
            each.append((low, high, first, last, rng.integers(-2, 3), rng.integers(1, 4)))
    return Ranges(np.array(starts), np.array(between, dtype=np.int64), np.array(each, RANGE))


def laid_out(cells: np.ndarray, more: np.ndarray, columns: Ranges) -> np.ndarray:
    """The design, by loops over people, columns, places and inputs."""
    rows = []
    for person, others in zip(cells, more, strict=True):
        there = np.zeros(columns.starts[-1])
        for k, cell in enumerate(person):
            start, end = columns.starts[k : k + 2]
            if cell == EMPTY:
                there[end - 1] = 1
            elif columns.between[k]:
                low = min(int(cell), end - start - 3)
                there[start + low], there[start + low + 1] = 1 - (cell - low), cell - low
            else:
                there[start + int(cell)] = 1
        rows.append([
            scale * (there[low:high].sum() + factor * there[first:last].sum())
            for low, high, first, last, factor, scale in columns.each
        ] + list(others))  # fmt: skip
    return np.array(rows)


@built
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 3), st.integers(1, 3))
def test_products_are_those_of_loops_to_the_last_bit(seed, n, points, outputs):
    """With cells at halves, and whole numbers elsewhere, all sums are exact."""
    rng = np.random.default_rng(seed)
    columns = made(rng)
    most = [max(end - start - 2, 0) for start, end in pairwise(columns.starts)]
    cells = np.array([[rng.integers(0, 2 * top + 1) / 2 for top in most] for _ in range(n)])
    cells = np.where(columns.between, cells, np.floor(cells))
    cells[rng.random(cells.shape) < 0.2] = EMPTY
    more = rng.integers(-1, 2, (n, rng.integers(0, 3))).astype(float)
    x = laid_out(cells, more, columns)
    design = Compiled(torch.from_numpy(cells).float(), torch.from_numpy(more), columns)
    some = rng.integers(-3, 4, (points, outputs, x.shape[1])).astype(float)
    slopes = rng.integers(-3, 4, (points, n, outputs)).astype(float)
    weight = rng.integers(0, 4, n).astype(float)
    for lines in (slice(n), slice(n // 2, n)):
        part, own = design.part(lines), x[lines]
        scores = part.scores(torch.from_numpy(some)).numpy()
        np.testing.assert_array_equal(scores, np.einsum("nq,poq->pno", own, some))
        pulled = part.pull(torch.from_numpy(slopes)[:, lines]).numpy()
        np.testing.assert_array_equal(pulled, np.einsum("nq,pno->poq", own, slopes[:, lines]))
        square = whole(part.square(torch.from_numpy(weight)[lines])).numpy()
        np.testing.assert_array_equal(square, own.T @ (weight[lines, None] * own))


@built
@pytest.mark.parametrize("cell", [np.nan, np.inf, -np.inf, 1e30, -1e30, -7.0])
def test_no_cell_leads_out_of_its_column(cell):
    """Whatever a cell is, another column's sums do not feel it."""
    columns = Ranges(
        np.array([0, 4, 7]), np.array([1, 0]),
        np.array([(1, 3, 0, 3, 0.0, 1.0), (4, 5, 4, 4, 0.0, 1.0), (5, 6, 5, 5, 0.0, 1.0)], RANGE),
    )  # fmt: skip
    cells = torch.tensor([[0.5, 1.0], [cell, 0.0], [1.5, cell]])
    design = Compiled(cells, torch.ones(3, 1), columns)
    square = whole(design.square(torch.ones(3, dtype=torch.float64))).numpy()
    assert square[1, 1] + square[2, 2] <= 3
    assert square[1, 2] == 0
    assert square[3, 3] == 3


@built
def test_it_can_be_copied_and_pickled():
    columns = made(np.random.default_rng(0))
    design = Compiled(torch.zeros(3, len(columns.between)), torch.ones(3, 1), columns)
    weight = torch.ones(3, dtype=torch.float64)
    for again in (pickle.loads(pickle.dumps(design)), deepcopy(design)):
        assert again.columns.each is not columns.each
        assert torch.equal(again.square(weight), design.square(weight))


@built
def test_shapes_that_do_not_fit_are_refused():
    columns = made(np.random.default_rng(0))
    design = Compiled(torch.zeros(3, len(columns.between)), torch.ones(3, 1), columns)
    wide = len(columns.each) + 2
    with pytest.raises(AssertionError):
        design.scores(torch.zeros(1, 1, wide, dtype=torch.float64))
    with pytest.raises(AssertionError):
        design.pull(torch.zeros(4, 1, dtype=torch.float64))
    with pytest.raises(AssertionError):
        design.square(torch.zeros(4, dtype=torch.float64))
    with pytest.raises(AssertionError):
        Compiled(torch.zeros(3, 99), torch.ones(3, 1), columns)


def drawn(seed: int, n: int) -> tuple[Compiled, Dense]:
    """People of made-up columns, looked up and laid out."""
    rng = np.random.default_rng(seed)
    columns = made(rng)
    most = [max(end - start - 2, 0) for start, end in pairwise(columns.starts)]
    cells = (rng.random((n, len(most))) * most).astype(np.float32)
    cells = np.where(columns.between, cells, np.floor(cells))
    cells[rng.random(cells.shape) < 0.2] = EMPTY
    more = rng.normal(size=(n, 2))
    x = torch.from_numpy(laid_out(cells.astype(float), more, columns)).view(
        n, len(columns.each) + 2
    )
    return Compiled(torch.from_numpy(cells).float(), torch.from_numpy(more), columns), Dense(x)


@built
@given(
    st.integers(0, 10**6), st.integers(0, 40), st.sampled_from([0.0, 0.1, 3.0, 400.0]),
    st.booleans(), st.integers(1, 4), st.integers(1, 2), st.integers(1, 3),
)  # fmt: skip
def test_sums_in_one_call_are_those_of_products(seed, n, size, weighted, parts, outputs, sets):
    """Gradient, Hessian and losses on the way, of models near and far, by PyTorch's functions."""
    compiled, dense = drawn(seed, n)
    rng = torch.Generator().manual_seed(seed)
    points = size * torch.randn(2, outputs, compiled.q, generator=rng, dtype=torch.float64)
    shift = torch.randn(parts, 2, outputs, generator=rng, dtype=torch.float64)
    y = torch.randint(0, 2, (n,), generator=rng).float()
    much = torch.randint(0, 3, (n,), generator=rng).double() if weighted else None
    ends = [n * k // parts for k in range(parts + 1)]
    ways = [design.sums(points, shift, Lines(y, much), ends) for design in (compiled, dense)]
    for one, other, close in zip(ways[0][1:], ways[1][1:], (1e-11, 2e-7), strict=True):
        scale = 1 + float(other.abs().max())  # Hessians are in single precision
        torch.testing.assert_close(one, other, rtol=close, atol=close * scale)
    softplus = {"rtol": 1e-11, "atol": 5e-9 * (n + 1)}  # PyTorch's is 0 where it is below exp(-20)
    torch.testing.assert_close(ways[0].loss, ways[1].loss, **softplus)
    tries = torch.cat([points, points / 3]) / torch.arange(1, sets + 1).view(-1, 1, 1, 1)
    lost = [design.losses(tries, shift[:, 0], Lines(y, much), ends) for design in (compiled, dense)]
    assert lost[0].shape == (parts, 4)
    torch.testing.assert_close(*lost, **softplus)


@built
def test_losses_of_thousands_are_added_up_without_overflow():
    """Products of 1 + exp(-|m|) are turned into sums in time."""
    columns = Ranges(np.array([0, 2]), np.array([0]), np.array([(0, 1, 0, 0, 0.0, 1.0)], RANGE))
    n = 5000
    design = Compiled(torch.zeros(n, 1), torch.zeros(n, 1), columns)
    none = torch.zeros(2, 1, 2, dtype=torch.float64)
    people = Lines(torch.ones(n))
    loss = design.sums(none, none[None, ..., 0], people, [0, n]).loss[0]
    assert loss.tolist() == pytest.approx([n * np.log(2)] * len(PARTS), rel=1e-13)
    lost = design.losses(none[None], none[:1, :, 0], people, [0, n])[0]
    assert lost.tolist() == pytest.approx([n * np.log(2)] * 2)
