"""Solve linear systems that differ by their diagonals: one matrix, one or several ridges.

By a library in C where it could be built (``ridges.c``, see `native`): some hundred rows are too
few for PyTorch's to be quick. Large matrices, and those that are not quite positive definite, are
left to PyTorch.
"""

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from pfedfair import _native
from pfedfair._util.spare import new
from pfedfair.methods.newton.design import whole

INTERFACE = 3  # the same number as in ridges.c
LIFTS = 0.0, *(10.0**k for k in range(-10, 1))  # of the diagonal, until there is a factor
MOST = 512  # rows of a matrix: larger ones do not stay in the processor's cache


def load(folder: Path) -> ctypes.CDLL | None:
    """Return the library in this folder, if it is there."""
    library = _native.load(folder, "_ridges", INTERFACE)
    if library is not None:
        number, memory = ctypes.c_int64, ctypes.c_void_p
        library.pfedfair_room.argtypes, library.pfedfair_room.restype = [number], number
        library.pfedfair_ridges.argtypes = [number, number, *(memory,) * 5]
        library.pfedfair_ridges.restype = None
    return library


LIBRARY = load(_native.FOLDER)


def solve(matrix: Tensor, more: Tensor, sides: Tensor) -> Tensor:
    """Solve ``(matrix + diag(more[k])) x = sides[k]`` for every k: all are ``(systems, n)``.

    The matrix is symmetric, in double precision; given is its upper triangle, row by row.
    """
    if LIBRARY is None or sides.shape[1] > MOST:
        return torch.stack([one(matrix, *each) for each in zip(more, sides, strict=True)])
    found, failed = _in_c(matrix, more, sides)
    for k in failed.nonzero()[:, 0].tolist():
        found[k] = one(matrix, more[k], sides[k])
    return found


def one(matrix: Tensor, more: Tensor, side: Tensor) -> Tensor:
    """Solve one system, by PyTorch."""
    curved = whole(matrix)
    curved.diagonal().add_(more)
    lifted = curved.diagonal().mean() * torch.eye(len(curved), dtype=curved.dtype)
    for lift in LIFTS:  # rounding in the products may leave what is almost flat below 0
        factor, failed = torch.linalg.cholesky_ex(curved + lift * lifted if lift else curved)
        if not failed:
            return torch.cholesky_solve(side[:, None], factor)[:, 0]
    return torch.full_like(side, torch.nan)  # nothing that was added up from people


def _in_c(matrix: Tensor, more: Tensor, sides: Tensor) -> tuple[Tensor, Tensor]:
    """The answers, and which of the systems have none."""
    assert LIBRARY is not None
    systems, n = sides.shape
    assert more.shape == (systems, n)
    assert matrix.shape == (n * (n + 1) // 2,)
    assert matrix.dtype == more.dtype == sides.dtype == torch.float64
    found, failed = sides.clone(memory_format=torch.contiguous_format), torch.empty(systems).long()
    room = new((LIBRARY.pfedfair_room(n),), torch.float64)
    given = matrix.contiguous(), more.contiguous(), found, failed, room
    LIBRARY.pfedfair_ridges(systems, n, *(tensor.data_ptr() for tensor in given))
    return found, failed
