"""The passes through perceptrons by a library in C, where it could be built.

``kernel.c`` is built with the package, see `native`.
"""

import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from threading import local

import torch
from torch import Tensor

from pfedfair import _native
from pfedfair.data import task
from pfedfair.models.base import CrossEntropy

INTERFACE = 3  # the same number as in kernel.c
MOST_LAYERS = 16  # as in kernel.c
SMALL = 2**22  # numbers of a model times its people, up to which all models go in one call
MOST = 2**28  # up to which the library works out gradients
PIECE = 512  # people whose logits are worked out at a time
KINDS = ("none", "AVX2", "AVX-512")  # of vectors that the processor has


class Plan(ctypes.Structure):
    """`struct plan` of kernel.c."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("kind", "models", "n", "features", "groups")),
        ("layers", ctypes.c_int64),
        ("widths", ctypes.c_int64 * (MOST_LAYERS + 1)),
        ("room", ctypes.c_void_p),
        ("logits", ctypes.c_void_p),
    )


class Descent(ctypes.Structure):
    """`struct descent` of kernel.c."""

    _fields_ = (
        ("steps", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("x", "s", "y", "weight", "rows")),
        *((name, ctypes.c_int64) for name in ("x_model", "x_person", "s_model", "y_model")),
        *((name, ctypes.c_int64) for name in ("weight_model", "rows_model", "adam", "made")),
        *((name, ctypes.c_double) for name in ("lr", "ridge", "beta1", "beta2", "eps")),
        *((name, ctypes.c_void_p) for name in ("m", "v")),
        ("gamma", ctypes.c_double),
        ("centre", ctypes.c_void_p),
        ("centre_model", ctypes.c_int64),
    )


def load(folder: Path) -> ctypes.CDLL | None:
    """Return the library in this folder, if it is there and of use on this machine."""
    library = _native.load(folder, "_kernel", INTERFACE)
    if library is None:
        return None
    library.pfedfair_best.restype = ctypes.c_int64
    return _typed(library) if library.pfedfair_best() else None


def _typed(library: ctypes.CDLL) -> ctypes.CDLL:
    plan, memory, number = ctypes.POINTER(Plan), ctypes.c_void_p, ctypes.c_int64
    library.pfedfair_room.argtypes, library.pfedfair_room.restype = [plan], ctypes.c_int64
    library.pfedfair_lay_out.argtypes = [plan, memory, number, number, memory, number]
    library.pfedfair_forth.argtypes = [plan, memory, number]
    library.pfedfair_back.argtypes = [plan, memory, number, memory, memory, number]
    library.pfedfair_both.argtypes = [plan, *(memory, number) * 4]
    library.pfedfair_descend.argtypes = [
        plan,
        ctypes.POINTER(Descent),
        *(number, number, memory),
        number,
    ]
    for name in ("lay_out", "forth", "back", "both", "descend"):
        getattr(library, f"pfedfair_{name}").restype = None
    return library


LIBRARY = load(_native.FOLDER)
KIND = LIBRARY.pfedfair_best() if LIBRARY else 0


def words() -> str:
    """Say whether the library is in use, for benchmarks."""
    return f"kernel in C with {KINDS[KIND]}" if LIBRARY else "PyTorch alone"


def able(w: Tensor, x: Tensor, s: Tensor, layers: int) -> bool:
    """Whether the library can work on these: numbers as it can read them."""
    return (
        LIBRARY is not None
        and w.dtype is x.dtype is torch.float32
        and s.dtype is torch.int64
        and w.is_cpu
        and x.is_cpu
        and w.stride(1) == s.stride(1) == 1
        and (x if x.dim() == 3 else x.flatten(2)).stride(2) == 1
        and not (w.requires_grad or x.requires_grad)
        and layers <= MOST_LAYERS
    )


def quick(w: Tensor, x: Tensor) -> bool:
    """Whether the library is to work out gradients, which take one thread for each model.

    For very large ones several threads of PyTorch may be faster; how many there are must not
    matter, as it would change the rounding.
    """
    return w.shape[1] * x.shape[1] <= MOST


def knows(loss: CrossEntropy) -> bool:
    """Whether the library can work out this slope, too: numbers as it can read them."""
    return (
        loss.y.dtype is loss.weight.dtype is torch.float32
        and loss.y.is_cpu
        and loss.weight.is_cpu
        and loss.y.stride(1) == loss.weight.stride(1) == 1
    )


class Passes:
    """The two passes of `models` through a perceptron, with `n` people for each."""

    def __init__(self, widths: Sequence[int], groups: int, models: int, n: int) -> None:
        assert LIBRARY is not None
        self.library = LIBRARY
        features = widths[0] - task.inputs(groups)
        self.plan = Plan(KIND, models, n, features, groups, len(widths) - 1)
        self.plan.widths[: len(widths)] = widths
        self.room = torch.empty(self.library.pfedfair_room(self.plan), dtype=torch.float32)
        self.logits = torch.empty(models, n, widths[-1], dtype=torch.float32)
        self.plan.room, self.plan.logits = self.room.data_ptr(), self.logits.data_ptr()
        self.people = models, n
        self.shape = models, sum((i + 1) * o for i, o in pairwise(widths))

    def lay_out(self, x: Tensor, s: Tensor) -> Tensor:
        """Put inputs and S into the room."""
        flat = x if x.dim() == 3 else x.flatten(2)
        assert flat.shape == (*self.people, self.plan.features)
        assert s.shape == self.people or not self.plan.groups  # nobody reads it then
        self.library.pfedfair_lay_out(
            self.plan, flat.data_ptr(), flat.stride(0), flat.stride(1), s.data_ptr(), s.stride(0)
        )
        return self.room

    def forth(self, w: Tensor) -> Tensor:
        """The logits on the people that were laid out last, in memory that is used again."""
        assert w.shape == self.shape
        self.library.pfedfair_forth(self.plan, w.data_ptr(), w.stride(0))
        return self.logits

    def back(self, w: Tensor, slope: Tensor, grad: Tensor) -> None:
        """From d(loss)/d(logits) to d(loss)/d(w), into `grad`."""
        assert slope.shape == self.logits.shape
        if slope.dtype is not torch.float32 or not slope.is_contiguous():
            slope = slope.float().contiguous()
        self.library.pfedfair_back(
            self.plan, w.data_ptr(), w.stride(0), slope.data_ptr(), grad.data_ptr(), grad.stride(0)
        )

    def both(self, w: Tensor, loss: CrossEntropy, grad: Tensor) -> None:
        """Both passes for this loss, into `grad`; model by model, while all of it is at hand."""
        assert w.shape == self.shape
        assert loss.y.shape == loss.weight.shape == self.people
        assert self.logits.shape[2] == 1
        y, weight = loss.y, loss.weight
        self.library.pfedfair_both(
            self.plan, w.data_ptr(), w.stride(0), y.data_ptr(), y.stride(0),
            weight.data_ptr(), weight.stride(0), grad.data_ptr(), grad.stride(0),
        )  # fmt: skip


class Apart:
    """The same for models with much work: each by itself, in as many threads as PyTorch has."""

    def __init__(self, widths: Sequence[int], groups: int, models: int, n: int) -> None:
        self.each = [Passes(widths, groups, 1, n) for _ in range(models)]
        self.logits = torch.empty(models, n, widths[-1], dtype=torch.float32)
        for one, own in zip(self.each, self.logits, strict=True):
            one.logits, one.plan.logits = own[None], own.data_ptr()

    def lay_out(self, x: Tensor, s: Tensor) -> Tensor:
        assert len(x) == len(s) == len(self.each)
        for one, own, groups in zip(self.each, torch.split(x, 1), torch.split(s, 1), strict=True):
            one.lay_out(own, groups)
        return x

    def forth(self, w: Tensor) -> Tensor:
        assert len(w) == len(self.each)
        in_threads(Passes.forth, self.each, torch.split(w, 1))
        return self.logits

    def back(self, w: Tensor, slope: Tensor, grad: Tensor) -> None:
        assert slope.shape == self.logits.shape
        in_threads(
            Passes.back, self.each, torch.split(w, 1), torch.split(slope, 1), torch.split(grad, 1)
        )

    def both(self, w: Tensor, loss: CrossEntropy, grad: Tensor) -> None:
        losses = [
            CrossEntropy(*own)
            for own in zip(torch.split(loss.y, 1), torch.split(loss.weight, 1), strict=True)
        ]
        in_threads(Passes.both, self.each, torch.split(w, 1), losses, torch.split(grad, 1))


def passes(widths: Sequence[int], groups: int, models: int, n: int) -> Passes | Apart:
    """Return the passes of so many models, with `n` people for each."""
    size = sum((i + 1) * o for i, o in pairwise(widths))
    kind = Apart if size * n > SMALL and models > 1 else Passes
    return kind(widths, groups, models, n)


def logits(widths: Sequence[int], groups: int, w: Tensor, x: Tensor, s: Tensor) -> Tensor:
    """The outputs of every model on its own people, some of them at a time."""
    models, n = x.shape[:2]
    found = torch.empty(models, n, widths[-1], dtype=torch.float32)
    pieces = [(i, k) for i in range(models) for k in range(0, n, PIECE)]

    def work(piece: tuple[int, int]) -> None:
        i, k = piece
        one, some = slice(i, i + 1), slice(k, k + PIECE)
        room = ROOMS.of(widths, groups, min(PIECE, n - k))
        room.lay_out(x[one, some], s[one, some])
        found[one, some] = room.forth(w[one])

    in_threads(work, pieces)
    return found


class _Rooms(local):
    """Rooms for the logits of some people; threads have their own."""

    def __init__(self) -> None:
        self.of = lru_cache(maxsize=4)(self._make)

    @staticmethod
    def _make(widths: Sequence[int], groups: int, n: int) -> Passes:
        return Passes(widths, groups, 1, n)


ROOMS = _Rooms()


def in_threads(work: Callable[..., object], *each: Sequence[object]) -> None:
    """Do each part of the work, in as many threads as PyTorch has; a new one rounds as this one."""
    threads = min(len(each[0]), torch.get_num_threads())
    if threads <= 1:
        for one in zip(*each, strict=True):
            work(*one)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, *each))
