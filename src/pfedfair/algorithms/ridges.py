"""Solve linear systems that differ by their diagonals: one matrix, several ridges.

By a library in C where it could be built, all of them side by side (``ridges.c``, see `native`):
eight take twice the time of one by PyTorch. Large matrices, and those that are not quite positive
definite, are solved one by one.
"""

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from pfedfair import native
from pfedfair.algorithms.design import whole
from pfedfair.spare import new

INTERFACE = 2  # the same number as in ridges.c
LANES, SIDE = 8, 4  # systems side by side; rows of a block
MOST = 512  # rows of a matrix: larger ones do not stay in the processor's cache
FEW = 3  # systems that are quicker one by one


def load(folder: Path) -> ctypes.CDLL | None:
    """Return the library in this folder, if it is there."""
    library = native.load(folder, "_ridges", INTERFACE)
    if library is not None:
        library.pfedfair_ridges.argtypes = [ctypes.c_int64, *(ctypes.c_void_p,) * 5]
        library.pfedfair_ridges.restype = ctypes.c_int64
    return library


LIBRARY = load(Path(__file__).parent)


def solve(matrix: Tensor, more: Tensor, sides: Tensor) -> Tensor:
    """Solve ``(matrix + diag(more[k])) x = sides[k]`` for every k: all are ``(systems, n)``.

    The matrix is symmetric, in double precision; given is its upper triangle, row by row.
    """
    number, n = sides.shape
    if LIBRARY is None or number <= FEW or n > MOST:
        return torch.stack([one(matrix, *each) for each in zip(more, sides, strict=True)])
    found = torch.empty_like(sides)
    for start in range(0, number, LANES):
        some = slice(start, start + LANES)
        found[some], failed = _side_by_side(matrix, more[some], sides[some])
        for k in range(start, min(start + LANES, number)):
            if failed >> (k - start) & 1:
                found[k] = one(matrix, more[k], sides[k])
    return found


def one(matrix: Tensor, more: Tensor, side: Tensor) -> Tensor:
    """Solve one system, by PyTorch."""
    curved = whole(matrix)
    curved.diagonal().add_(more)
    factor, failed = torch.linalg.cholesky_ex(curved)
    lift = 1e-10
    while failed:  # rounding in the products may leave what is almost flat below 0
        lifted = curved.diagonal().mean() * torch.eye(len(curved), dtype=curved.dtype)
        factor, failed = torch.linalg.cholesky_ex(curved + lift * lifted)
        lift *= 10
    return torch.cholesky_solve(side[:, None], factor)[:, 0]


def _side_by_side(matrix: Tensor, more: Tensor, sides: Tensor) -> tuple[Tensor, int]:
    """Up to `LANES` systems at once, and a bit for each that could not be solved."""
    assert LIBRARY is not None
    number, n = sides.shape
    assert more.shape == (number, n)
    assert matrix.shape == (n * (n + 1) // 2,)
    assert matrix.dtype == more.dtype == sides.dtype == torch.float64
    matrix = matrix.contiguous()
    idle = [number - 1] * (LANES - number)  # lanes do the last one again
    given = [each[[*range(number), *idle]].T.contiguous() for each in (more, sides)]
    found, strips = torch.empty_like(given[0]), -(-n // SIDE)
    room = new(
        (LANES * (SIDE**2 * strips * (strips + 1) // 2 + 2 * (n + SIDE) + 1),), torch.float64
    )
    start = room.data_ptr() + -room.data_ptr() % (8 * LANES)
    memory = [each.data_ptr() for each in (matrix, *given, found)]
    return found[:, :number].T, LIBRARY.pfedfair_ridges(n, *memory, start)
