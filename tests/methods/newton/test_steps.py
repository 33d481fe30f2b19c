"""Linear systems that differ by their diagonals."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pfedfair.methods.newton.steps import solve


@given(st.integers(0, 10**6), st.integers(1, 40))
def test_a_system_is_solved(seed, n):
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(size=(n + 1, n)))
    matrix, diagonal = x.T @ x, torch.from_numpy(10.0 ** rng.uniform(-2, 4, n))
    side = torch.from_numpy(rng.normal(size=n))
    right = torch.linalg.solve(matrix + torch.diag(diagonal), side)
    torch.testing.assert_close(solve(matrix, diagonal, side), right, rtol=1e-6, atol=1e-9)


def test_a_column_that_is_slightly_less_than_flat_is_lifted():
    rng = np.random.default_rng(3)
    x = torch.from_numpy(rng.normal(size=(31, 30)))
    matrix, diagonal = x.T @ x, torch.ones(30).double()
    matrix[11], matrix[:, 11] = 0.0, 0.0
    diagonal[11] = -1e-9
    side = torch.from_numpy(rng.normal(size=30))
    side[11] = 0.0
    found, diagonal[11] = solve(matrix, diagonal, side), 1.0
    right = torch.linalg.solve(matrix + torch.diag(diagonal), side)
    torch.testing.assert_close(found, right, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("number", [torch.nan, -1.0])
def test_what_has_no_answer_is_no_number(number):
    matrix = torch.full((3, 3), number, dtype=torch.float64)
    assert solve(matrix, torch.zeros(3).double(), torch.ones(3).double()).isnan().all()
