"""Products with a design that is looked up, by a library in C where it could be built.

``lookup.c`` is built with the package, see `native`. It reads encoded cells as they are: nothing is
laid out, and the Hessian of a table of 14 columns takes an eighth of the time of a matrix product.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pfedfair import native
from pfedfair.algorithms.design import Design
from pfedfair.data.piecewise import EMPTY
from pfedfair.data.places import Ranges

INTERFACE = 1  # the same number as in lookup.c


class Told(ctypes.Structure):
    """`struct design` of lookup.c."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("columns", "places", "inputs", "more")),
        *((name, ctypes.c_void_p) for name in ("starts", "between", "ranges")),
        ("empty", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("cells", "others")),
    )


def load(folder: Path) -> ctypes.CDLL | None:
    """Return the library in this folder, if it is there."""
    library = native.load(folder, "_lookup", INTERFACE)
    if library is None:
        return None
    design, memory, number = ctypes.POINTER(Told), ctypes.c_void_p, ctypes.c_int64
    library.pfedfair_scores.argtypes = [design, number, number, *(memory,) * 4]
    library.pfedfair_pull.argtypes = [design, number, number, *(memory,) * 4]
    library.pfedfair_square.argtypes = [design, number, *(memory,) * 4]
    for name in ("scores", "pull", "square"):
        getattr(library, f"pfedfair_{name}").restype = None
    return library


LIBRARY = load(Path(__file__).parent)


class Compiled(Design):
    """A design that is looked up: `packed` cells ``(n, columns)``, and `more` inputs behind."""

    def __init__(self, packed: Tensor, more: Tensor, columns: Ranges) -> None:
        assert LIBRARY is not None
        assert packed.dtype is torch.float32
        assert packed.is_cpu
        assert packed.shape[1] == len(columns.between)
        assert len(packed) == len(more)
        self.library, self.columns = LIBRARY, columns  # whose memory `form` points to
        self.packed, self.more = packed.contiguous(), more.double().contiguous()
        self.places, self.inputs = int(columns.starts[-1]), len(columns.each)
        self.most = 2 * packed.shape[1] + more.shape[1]  # places of a person
        pointers = (array.ctypes.data for array in (columns.starts, columns.between, columns.each))
        self.form = packed.shape[1], self.places, self.inputs, more.shape[1], *pointers, EMPTY

    def scores(self, coefficients: Tensor) -> Tensor:
        flat = coefficients.flatten(0, 1).T.contiguous()
        assert flat.shape[0] == self.inputs + self.more.shape[1]
        assert flat.dtype is torch.float64
        width = flat.shape[1]
        found, room = flat.new_empty(len(self.packed), width), self._room((self._size + 1) * width)
        self._call("scores", width, flat, found, room)
        return found.view(len(found), *coefficients.shape[:2]).movedim(1, 0)

    def pull(self, slopes: Tensor) -> Tensor:
        flat = slopes.movedim(-2, 0).double().flatten(1).contiguous()
        assert len(flat) == len(self.packed)
        width = flat.shape[1]
        found = flat.new_empty(self.inputs + self.more.shape[1], width)
        self._call("pull", width, flat, found, self._room(2 * (self._size + 1) * width))
        return found.T.view(*slopes.shape[:-2], slopes.shape[-1], -1)

    def square(self, weight: Tensor) -> Tensor:
        weight, q = weight.double().contiguous(), self.inputs + self.more.shape[1]
        assert weight.shape == self.packed.shape[:1]
        found = weight.new_empty(q * (q + 1) // 2)
        self._call("square", None, weight, found, self._room(3 * (max(self._size, q) + 1) ** 2))
        return found

    def part(self, lines: slice) -> Compiled:
        found = object.__new__(Compiled)
        found.__dict__ |= self.__dict__
        found.packed, found.more = self.packed[lines].contiguous(), self.more[lines].contiguous()
        return found

    def __reduce__(self) -> tuple[Any, ...]:  # pointers are good in this process alone
        return Compiled, (self.packed, self.more, self.columns)

    @property
    def _size(self) -> int:
        return self.places + self.more.shape[1]

    def _room(self, numbers: int) -> Tensor:
        return torch.empty(numbers + self.most, dtype=torch.float64)

    def _call(
        self, name: str, width: int | None, given: Tensor, found: Tensor, room: Tensor
    ) -> None:
        """Let the library work."""
        told = Told(*self.form, self.packed.data_ptr(), self.more.data_ptr())
        at = torch.empty(self.most, dtype=torch.int64)
        numbers = [len(self.packed)] if width is None else [len(self.packed), width]
        memory = (tensor.data_ptr() for tensor in (given, found, room, at))
        getattr(self.library, f"pfedfair_{name}")(told, *numbers, *memory)
