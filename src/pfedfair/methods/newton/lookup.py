"""Squares of a design that is looked up, by a library in C where it could be built.

``lookup.c`` is built with the package, see `_native`. A million rows of 14 columns train in a third
of NumPy's time, ten thousand clients in half of it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pfedfair import _native
from pfedfair.data.tables.basis import MISSING, Basis

INTERFACE = 7  # the same number as in lookup.c
SIZES = ("columns", "lines", "width", "more", "slots")
ARRAYS = (
    *((name, np.int64) for name in ("first", "segments", "flags", "known", "line", "order")),
    *((name, np.float64) for name in ("mean", "scale", "share")),
)


class BasisInC(ctypes.Structure):
    """`struct basis` of lookup.c: its fields in their order."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in SIZES),
        *((name, ctypes.c_void_p) for name, _ in ARRAYS),
    )


def load(folder: Path) -> ctypes.CDLL | None:
    """Return the library in a folder, if it exists."""
    library = _native.load(folder, "_lookup", INTERFACE)
    if library is not None:
        basis, number, memory = ctypes.POINTER(BasisInC), ctypes.c_int64, ctypes.c_void_p
        library.pfedfair_room.argtypes, library.pfedfair_room.restype = [basis], number
        library.pfedfair_squares.argtypes = [basis, number, *(memory,) * 7]
        library.pfedfair_squares.restype = None
    return library


LIBRARY = load(_native.FOLDER)


def squares(
    basis: Basis, lookup: tuple[Tensor, Tensor], dense: Tensor, weight: Tensor, ends: Sequence[int]
) -> Tensor:
    """Return each part's weighted sum of rows' products with themselves: triangles.

    Rows are what `Basis.lookup` returned, followed by `dense` numbers; see `Design` for parts.
    """
    if LIBRARY is None:
        raise RuntimeError("the library was not built")
    (n, slots), cuts = lookup[0].shape, torch.tensor(ends)
    doubles = [each.double().contiguous() for each in (lookup[1], dense, weight)]
    shapes = [each.shape for each in doubles]
    if shapes != [(n, slots), (n, dense.shape[1]), (n,)]:
        raise ValueError(f"{shapes} do not match {n} rows of {slots} lines")
    if int(cuts[0]) < 0 or int(cuts[-1]) > n or bool((cuts.diff() < 0).any()):
        raise ValueError(f"parts {ends} do not match {n} rows")
    lines = lookup[0].int().contiguous()
    if n and not 0 <= int(lines.min()) <= int(lines.max()) < basis.ends[-1]:
        raise ValueError("there are no such lines")
    described = describe(basis)
    arrays = [np.ascontiguousarray(described[name], kind) for name, kind in ARRAYS]
    sizes = len(basis.sizes), int(basis.ends[-1]), basis.width, dense.shape[1], slots
    in_c = BasisInC(*sizes, *(array.ctypes.data for array in arrays))
    q = basis.width + dense.shape[1]
    found = torch.empty(len(ends) - 1, q * (q + 1) // 2)
    scratch = torch.empty(LIBRARY.pfedfair_room(in_c), dtype=torch.float64)
    memory = (each.data_ptr() for each in (lines, *doubles, found, scratch))
    LIBRARY.pfedfair_squares(in_c, len(found), cuts.data_ptr(), *memory)
    return found


def describe(basis: Basis) -> dict[str, np.ndarray]:
    """Return a basis as lookup.c reads it: lines are numbered through all columns."""
    first, segments, columns = basis.ends, len(basis.mean), np.arange(len(basis.sizes) + 1)
    column, known = basis.column.numpy(), basis.known.numpy()
    of_flag, start = column[segments:], basis.start[segments:].numpy()
    return {
        "first": first,
        "segments": np.searchsorted(column[:segments], columns),
        "flags": segments + np.searchsorted(of_flag, columns),
        "known": np.where(known == np.inf, first[1:], first[:-1] + np.minimum(known, 1e9)),
        "line": first[of_flag] + np.where(start == MISSING, basis.sizes[of_flag], start),
        "order": np.argsort(
            np.concatenate([columns[:-1], np.flatnonzero(basis.interpolated)]), kind="stable"
        ),
        "mean": basis.mean.numpy(),
        "scale": basis.scale.numpy(),
        "share": basis.share.numpy(),
    }
