"""The passes through small perceptrons in C, where the library was built: see ``kernel.c``."""

import ctypes
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from pfedfair import _native

INTERFACE = 5  # the same number as in kernel.c
MOST_LANES = 32  # as in kernel.c
PIECE = 512  # rows that are scored at a time


Buffers = dict[str, Tensor]


class Stack(ctypes.Structure):
    """`struct stack` of kernel.c."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("models", "n", "layers")),
        ("widths", ctypes.POINTER(ctypes.c_int64)),
        *((name, ctypes.c_int64) for name in ("features", "groups", "saved", "widest")),
        ("scratch", ctypes.c_void_p),
    )


def load(folder: Path = _native.FOLDER) -> ctypes.CDLL | None:
    """Return the library, if it was built and is not switched off."""
    library = _native.load(folder, "_kernel", INTERFACE)
    if library is None:
        return None
    stack, memory, number = ctypes.POINTER(Stack), ctypes.c_void_p, ctypes.c_int64
    passes = library.pfedfair_forward, library.pfedfair_backward
    passes[0].argtypes = [stack, memory, number, *[memory] * 4]
    passes[1].argtypes = [stack, memory, number, *[memory] * 3, number]
    for function in passes:
        function.restype = None
    return library


LIBRARY = load()


def usable(w: Tensor, x: Tensor, s: Tensor) -> bool:
    """Return whether the library exists and can read these: single precision on the CPU."""
    return (
        LIBRARY is not None
        and w.dtype is x.dtype is torch.float32
        and s.dtype is torch.int64
        and w.is_cpu
        and not (w.requires_grad or x.requires_grad)
    )


def buffer(buffers: Buffers, name: str, size: int) -> Tensor:
    """Return `size` uninitialised floats of the buffer of this name, which grows if it must."""
    if name not in buffers or len(buffers[name]) < size:
        buffers[name] = torch.empty(size)
    return buffers[name][:size]


class Forward:
    """The forward pass of a stack of models, each on its own rows, and what it saves.

    Parameters
    ----------
    widths
        The inputs, with those for S, and every layer's outputs.
    groups
        Whether S is an input: 0, or the number of groups.
    w, x, s
        Models ``(models, p)``, inputs ``(models, n, ...)`` and groups ``(models, n)``.
    buffers
        Memory to reuse once this pass and its gradient are no longer needed.
    """

    def __init__(
        self,
        widths: Sequence[int],
        groups: int,
        w: Tensor,
        x: Tensor,
        s: Tensor,
        buffers: Buffers | None = None,
    ) -> None:
        if not usable(w, x, s) or LIBRARY is None:
            raise TypeError("the library reads models and inputs in single precision only")
        self.library, self.w = LIBRARY, w if w.stride(1) == 1 else w.contiguous()
        x, s = x.flatten(2).contiguous(), s.contiguous()
        models, n, features = x.shape
        inputs = features + {0: 0, 2: 1}.get(groups, groups)
        size = sum((i + 1) * o for i, o in pairwise(widths))
        if inputs != widths[0] or (groups and s.shape != (models, n)) or w.shape != (models, size):
            shapes = ", ".join(str(tuple(one.shape)) for one in (w, x, s))
            raise ValueError(f"shapes {shapes} do not fit a perceptron {tuple(widths)}")
        if n == 0 or min(widths) < 1:
            raise ValueError("a perceptron needs rows, inputs and units")
        widest = max(widths)
        saved = sum((n + 1) * width + 1 for width in widths[:-1])
        scratch = max(n, widest) * MOST_LANES + 2 * n * widest + (widest + 1) * widest
        buffers = {} if buffers is None else buffers
        self.saved = buffer(buffers, "saved", models * saved)
        self.scratch = buffer(buffers, "scratch", scratch)
        self.logits = buffer(buffers, "logits", models * n * widths[-1]).view(models, n, -1)
        self.stack = Stack(
            models, n, len(widths) - 1, (ctypes.c_int64 * len(widths))(*widths),
            features, groups, saved, widest, self.scratch.data_ptr(),
        )  # fmt: skip
        self.library.pfedfair_forward(
            self.stack, self.w.data_ptr(), self.w.stride(0), x.data_ptr(), s.data_ptr(),
            self.saved.data_ptr(), self.logits.data_ptr(),
        )  # fmt: skip

    def backward(self, slope: Tensor) -> Tensor:
        """Return d(loss)/d(w), ``(models, p)``, from d(loss)/d(logits)."""
        if slope.shape != self.logits.shape:
            shape = tuple(self.logits.shape)
            raise ValueError(f"the slope has the shape {tuple(slope.shape)}, not {shape}")
        slope = slope.float().contiguous()
        grad = torch.empty(self.w.shape)
        self.library.pfedfair_backward(
            self.stack, self.w.data_ptr(), self.w.stride(0), self.saved.data_ptr(),
            slope.data_ptr(), grad.data_ptr(), grad.stride(0),
        )  # fmt: skip
        return grad


def logits(widths: Sequence[int], groups: int, w: Tensor, x: Tensor, s: Tensor) -> Tensor:
    """Return the logits ``(models, n, outputs)``, a block of rows at a time."""
    s = s if groups else x.new_zeros(x.shape[:2], dtype=torch.int64)  # which is not read
    pieces = zip(torch.split(x, PIECE, 1), torch.split(s, PIECE, 1), strict=True)
    return torch.cat([Forward(widths, groups, w, *piece).logits for piece in pieces], dim=1)


def words() -> str:
    """Say whether the library is in use, for benchmarks."""
    return "kernel in C" if LIBRARY else "PyTorch"
