"""From packed cells to a network's inputs, by a library in C where it could be built.

``unpack.c`` is built with the package, see `native`. It takes a third of the time that PyTorch
takes, and gives the same bits. Inputs times weights need not be laid out at all.
"""

from __future__ import annotations

import ctypes
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfedfair import _native
from pfedfair._util.spare import new

INTERFACE = 2  # the same number as in unpack.c
DTYPES = {
    "ramps": np.int64, "means": np.float32, "scales": np.float32, "levels": np.int64,
    "many": np.int64, "flags": np.int64, "shares": np.float32,
}  # fmt: skip


class Told(ctypes.Structure):
    """`struct encoder` of unpack.c."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("numbers", "categories", "width")),
        ("empty", ctypes.c_float),
        *((name, ctypes.c_void_p) for name in DTYPES),
    )


def load(folder: Path) -> ctypes.CDLL | None:
    """Return the library in this folder, if it is there."""
    library = _native.load(folder, "_unpack", INTERFACE)
    if library is not None:
        encoder, memory = ctypes.POINTER(Told), ctypes.c_void_p
        library.pfedfair_unpack.argtypes = [encoder, ctypes.c_int64, memory, memory]
        number = ctypes.c_int64
        library.pfedfair_times.argtypes = [encoder, number, memory, number, *(memory,) * 3]
        library.pfedfair_unpack.restype = library.pfedfair_times.restype = None
    return library


LIBRARY = load(_native.FOLDER)


class Unpacker:
    """Lays out the inputs of packed cells; see `Piecewise.unpack` for what they are."""

    def __init__(
        self, numbers: int, categories: int, width: int, empty: float, **lists: np.ndarray
    ) -> None:
        self.given: tuple[Any, ...] = (numbers, categories, width, empty), lists
        self.columns, self.width = numbers + categories, width
        assert len(lists["shares"]) == width
        assert len(lists["means"]) == len(lists["scales"]) == lists["ramps"][-1]
        self.arrays = [np.ascontiguousarray(lists[name], dtype=DTYPES[name]) for name in DTYPES]
        pointers = (array.ctypes.data for array in self.arrays)
        self.told = Told(numbers, categories, width, empty, *pointers)

    def __reduce__(self) -> tuple[Any, ...]:  # pointers are good in this process alone
        numbers, lists = self.given
        return partial(Unpacker, **lists), numbers

    def able(self, packed: Tensor) -> bool:
        """Whether the library is to work on these: numbers as it can read them."""
        return (
            LIBRARY is not None
            and packed.dtype is torch.float32
            and packed.is_cpu
            and packed.shape[-1] == self.columns
            and not packed.requires_grad
        )

    def __call__(self, packed: Tensor) -> Tensor:
        assert LIBRARY is not None
        cells = packed.contiguous()
        found = new((*cells.shape[:-1], self.width), cells.dtype)
        if found.numel():
            n = prod(cells.shape[:-1])
            LIBRARY.pfedfair_unpack(self.told, n, cells.data_ptr(), found.data_ptr())
        return found

    def times(self, packed: Tensor, weights: Tensor) -> Tensor:
        """Inputs times weights ``(outputs, width)``, which are not laid out for it."""
        assert LIBRARY is not None
        assert weights.shape[1] == self.width
        assert weights.dtype is torch.float32
        cells, weights = packed.contiguous(), weights.contiguous()
        found = cells.new_empty(*cells.shape[:-1], len(weights))
        room = new((self.width + 3,), torch.float64)
        n, memory = prod(cells.shape[:-1]), (weights.data_ptr(), found.data_ptr(), room.data_ptr())
        LIBRARY.pfedfair_times(self.told, n, cells.data_ptr(), len(weights), *memory)
        return found
