"""Systems are solved as PyTorch solves them, whatever others beside them are."""

from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pfedfair.methods.newton import ridges
from pfedfair.methods.newton.design import triangle

built = pytest.mark.skipif(ridges.LIBRARY is None, reason="it was not built, or is switched off")


def made(seed: int, n: int, systems: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(size=(n + 1, n)))
    more = torch.from_numpy(10.0 ** rng.uniform(-2, 4, (systems, n)))
    return x.T @ x, more, torch.from_numpy(rng.normal(size=(systems, n)))


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 20))
def test_every_system_is_solved(seed, n, systems):
    matrix, more, sides = made(seed, n, systems)
    found = ridges.solve(triangle(matrix), more, sides)
    whole = matrix + torch.diag_embed(more)
    torch.testing.assert_close(found, torch.linalg.solve(whole, sides), rtol=1e-6, atol=1e-9)


@built
def test_the_library_and_pytorch_agree():
    matrix, more, sides = made(7, 217, 7)
    matrix = triangle(matrix)
    found = ridges.solve(matrix, more, sides)
    with patch.object(ridges, "LIBRARY", None):
        torch.testing.assert_close(found, ridges.solve(matrix, more, sides), rtol=1e-9, atol=1e-12)


@built
def test_a_system_that_is_not_positive_definite_spoils_no_other():
    matrix, more, sides = made(3, 30, 7)
    matrix[11], matrix[:, 11] = 0.0, 0.0  # a column that is flat, and slightly more than flat
    matrix = triangle(matrix)
    more[2] = 1.0
    more[2, 11] = -1e-9
    _, failed = ridges._in_c(matrix, more, sides)
    assert failed.tolist() == [0, 0, 1, 0, 0, 0, 0]
    found = ridges.solve(matrix, more, sides)
    for k in range(7):
        alone = ridges.one(matrix, more[k], sides[k])
        torch.testing.assert_close(found[k], alone, rtol=1e-9, atol=1e-12)


@built
def test_a_large_matrix_is_solved_by_pytorch():
    matrix, more, sides = made(5, 12, 7)
    with patch.object(ridges, "MOST", 11), patch.object(ridges, "_in_c") as in_c:
        ridges.solve(triangle(matrix), more, sides)
    assert not in_c.called


@pytest.mark.parametrize("number", [torch.nan, -1.0])
def test_what_has_no_answer_is_no_number(number):
    matrix = torch.full((6,), number, dtype=torch.float64)
    found = ridges.solve(matrix, torch.zeros(2, 3).double(), torch.ones(2, 3).double())
    assert found.isnan().all()
