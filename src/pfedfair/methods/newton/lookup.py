"""Products with a design that is looked up, by a library in C where it could be built.

``lookup.c`` is built with the package, see `native`. It reads encoded cells as they are: nothing is
laid out, and the Hessian of a table of 14 columns takes an eighth of the time of a matrix product.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfedfair import _native
from pfedfair._util.spare import new
from pfedfair.data.tables.piecewise import EMPTY
from pfedfair.data.tables.places import Ranges
from pfedfair.methods.newton.design import PRECISION, Design, Lines, Sums
from pfedfair.methods.newton.likelihood import PARTS

INTERFACE = 5  # the same number as in lookup.c
MOST, VECTOR = 64, 8  # models whose losses are added up in one call; numbers side by side


class Told(ctypes.Structure):
    """`struct design` of lookup.c."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("columns", "places", "inputs", "more")),
        *((name, ctypes.c_void_p) for name in ("starts", "ranges", "order", "firsts")),
        *((name, ctypes.c_void_p) for name in ("people", "at", "much")),
    )


def load(folder: Path) -> ctypes.CDLL | None:
    """Return the library in this folder, if it is there."""
    library = _native.load(folder, "_lookup", INTERFACE)
    if library is None:
        return None
    design, memory, number = ctypes.POINTER(Told), ctypes.c_void_p, ctypes.c_int64
    real = ctypes.c_double
    library.pfedfair_places.argtypes = [*(number,) * 3, memory, memory, real, *(memory,) * 5]
    library.pfedfair_scores.argtypes = [design, number, number, *(memory,) * 3]
    library.pfedfair_pull.argtypes = [design, number, number, *(memory,) * 3]
    library.pfedfair_square.argtypes = [design, number, number, *(memory,) * 3]
    library.pfedfair_sums.argtypes = [design, *(number,) * 3, *(memory,) * 9]
    library.pfedfair_losses.argtypes = [design, *(number,) * 3, *(memory,) * 7]
    library.pfedfair_room.argtypes, library.pfedfair_room.restype = [design, number], number
    for name in ("places", "scores", "pull", "square", "sums", "losses"):
        getattr(library, f"pfedfair_{name}").restype = None
    return library


LIBRARY = load(_native.FOLDER)


class Compiled(Design):
    """A design that is looked up: `packed` cells ``(n, columns)``, and `more` inputs behind.

    Person i is at the places ``at[people[i]]`` to ``at[people[i + 1]]``, so `much` at each.
    """

    def __init__(self, packed: Tensor, more: Tensor, columns: Ranges) -> None:
        assert LIBRARY is not None
        assert packed.dtype is torch.float32
        assert packed.is_cpu
        assert packed.shape[1] == len(columns.between)
        assert len(packed) == len(more)
        self.columns, self.more = columns, more.shape[1]
        self.size = int(columns.starts[-1]) + self.more  # places, and `more`
        self.q = len(columns.each) + self.more
        self.order, self.firsts = columns.by_column()
        sizes = *np.diff(columns.starts), *np.diff(self.firsts), self.more
        self.tall = int(max(sizes))  # places or inputs of a column
        cells, others, n = packed.contiguous(), more.double().contiguous(), len(packed)
        most = n * (2 * packed.shape[1] + self.more)
        people = torch.empty(n + 1, dtype=torch.int64)
        at, much = new((most,), torch.int32), new((most,), torch.float64)
        known = (array.ctypes.data for array in (columns.starts, columns.between))
        given = (tensor.data_ptr() for tensor in (cells, others, people, at, much))
        LIBRARY.pfedfair_places(n, packed.shape[1], self.more, *known, EMPTY, *given)
        end = int(people[-1])
        self.people, self.at, self.much = people, at[:end].clone(), much[:end].clone()
        self.told: Told | None = None

    def __getstate__(self) -> dict[str, Any]:  # pointers are good in this process alone
        return self.__dict__ | {"told": None}

    def __len__(self) -> int:
        return len(self.people) - 1

    def scores(self, coefficients: Tensor) -> Tensor:
        flat = self._checked(coefficients.flatten(0, 1).T)
        found = flat.new_empty(len(self), flat.shape[1])
        self._call("scores", len(self), flat.shape[1], flat, found, self._beside(flat.shape[1]))
        return found.view(len(self), *coefficients.shape[:2]).movedim(1, 0)

    def pull(self, slopes: Tensor) -> Tensor:
        flat = slopes.movedim(-2, 0).double().flatten(1).contiguous()
        assert len(flat) == len(self)
        found = flat.new_empty(self.q, flat.shape[1])
        self._call("pull", *flat.shape, flat, found, self._room(self.tall + 2, flat.shape[1]))
        return found.T.view(*slopes.shape[:-2], slopes.shape[-1], -1)

    def square(self, weight: Tensor) -> Tensor:
        weight = weight.double().contiguous()
        assert weight.shape == (len(self),)
        found = weight.new_empty(self.q * (self.q + 1) // 2)
        self._call("square", len(self), self.tall, weight, found, self._squares())
        return found

    def sums(
        self, points: Tensor, shift: Tensor, people: Lines, ends: Sequence[int], exact: bool = False
    ) -> Sums:
        if points.shape[1] > 1:
            return super().sums(points, shift, people, ends, exact)
        flat, own, parts = self._checked(points[:, 0].T), shift.double().contiguous(), len(ends) - 1
        assert len(points) == 2
        assert own.shape == (parts, 2, 1)
        assert 0 <= min(ends) <= max(ends) <= len(self)
        found = Sums(flat.new_empty(parts, len(PARTS)), flat.new_empty(parts, 1, self.q),
                     new((parts, self.q * (self.q + 1) // 2), PRECISION[exact]))  # fmt: skip
        given = torch.tensor(ends), flat, own, *self._people(people)
        self._call("sums", parts, self.tall, exact, *given, *found, self._squares(3 * self.size))
        return found

    def losses(
        self, coefficients: Tensor, shift: Tensor, people: Lines, ends: Sequence[int]
    ) -> Tensor:
        (sets, width), parts = coefficients.shape[:2], len(ends) - 1
        if coefficients.shape[2] > 1 or width > MOST:
            return super().losses(coefficients, shift, people, ends)
        flat, own = self._checked(coefficients[:, :, 0].mT), shift.double().contiguous()
        assert own.shape == (parts, 1)
        assert 0 <= min(ends) <= max(ends) <= len(self)
        given, found = (flat, own, *self._people(people)), flat.new_empty(parts, width)
        ends_of = torch.tensor(ends)
        self._call("losses", parts, width, sets, ends_of, *given, found, self._beside(width))
        return found

    def part(self, lines: slice) -> Compiled:
        start, stop, _ = lines.indices(len(self))
        found = object.__new__(Compiled)
        found.__dict__ |= self.__dict__
        found.people, found.told = self.people[start : max(start, stop) + 1], None
        return found

    def _checked(self, flat: Tensor) -> Tensor:
        """Coefficients ``(..., q, width)`` as the library takes them."""
        assert flat.shape[-2] == self.q
        assert flat.dtype is torch.float64
        return flat.contiguous()

    def _people(self, people: Lines) -> tuple[Tensor, Tensor | None]:
        """Labels and weights as the library takes them."""
        labels, much = people.y.float().contiguous(), people.much
        much = None if much is None else much.double().contiguous()
        assert all(one is None or one.shape == (len(self),) for one in (labels, much))
        return labels, much

    def _beside(self, width: int) -> Tensor:
        """Room for so many models side by side."""
        return self._room(1, -(-width // VECTOR) * VECTOR)

    def _squares(self, more: int = 0) -> Tensor:
        """Room for a Hessian."""
        assert LIBRARY is not None
        return new((more + LIBRARY.pfedfair_room(self._told(), self.tall),), torch.float64)

    def _room(self, more: int, width: int) -> Tensor:
        """Where the library works: so many numbers for every place, and for some `more`."""
        return new((self.size + more, width), torch.float64)

    def _call(self, name: str, *given: float | Tensor | None) -> None:
        """Let the library work."""
        memory = (one.data_ptr() if isinstance(one, Tensor) else one for one in given)
        getattr(LIBRARY, f"pfedfair_{name}")(self._told(), *memory)

    def _told(self) -> Told:
        """What the library is told of this design."""
        if self.told is None:
            starts, _, each = self.columns
            sizes = len(starts) - 1, self.size - self.more, len(each), self.more
            known = (array.ctypes.data for array in (starts, each, self.order, self.firsts))
            own = (tensor.data_ptr() for tensor in (self.people, self.at, self.much))
            self.told = Told(*sizes, *known, *own)
        return self.told
