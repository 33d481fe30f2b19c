"""What chunks of clients hand over, put together without keeping more than is needed.

Messages that are large in all are added up as they come, where the server needs only their sums;
one model for all clients is kept once; and a stack of models that is larger than `LIMIT` lies in a
file without a name, mapped into memory, so that the machine may take its memory back.
"""

import mmap
import os
import tempfile
from collections.abc import Mapping
from math import prod

import numpy as np
import torch
from torch import Tensor

from pfedfair._util.errors import InputError
from pfedfair.methods import State

LIMIT = 2**30  # bytes of a stack that is kept in memory
SUMMED = 2**28  # bytes of all clients' messages; more are added up as they come
WRITTEN = 2**28  # bytes that are written to a file before memory is given back


class Messages:
    """What the clients of a round send: a row each, or their sums where that is much less.

    `sums` says how each tensor is added up, see `Phase.sums`.
    """

    def __init__(self, sums: Mapping[str, str], sizes: Tensor, limit: int | None = None) -> None:
        self.sums, self.sizes, self.limit = sums, sizes, limit
        self.names: tuple[str, ...] = ()
        self.bytes = 0  # that one client sent
        self.whole: State = {}
        self.kinds: dict[str, torch.dtype] = {}
        self.adding = False

    def add(self, ids: Tensor, sent: State) -> None:
        """Take some clients' messages."""
        if not self.names:
            self.names = tuple(sent)
            self.bytes = sum(rows[0].numel() * rows.element_size() for rows in sent.values())
            many = self.bytes * len(self.sizes) > (SUMMED if self.limit is None else self.limit)
            self.adding = many and set(sent) <= set(self.sums)
        for name, rows in sent.items():
            if self.adding:
                self._sum(name, ids, rows)
            else:
                put(self.whole, name, ids, rows, len(self.sizes))

    def _sum(self, name: str, ids: Tensor, rows: Tensor) -> None:
        if self.sums[name] == "size":
            part = torch.tensordot(self.sizes[ids].double(), rows.double(), dims=1)
        else:
            part = rows.sum(0, dtype=torch.float64)
        if name in self.whole:
            self.whole[name] += part
        else:
            self.whole[name], self.kinds[name] = part[None], rows.dtype

    def taken(self) -> tuple[State, Tensor]:
        """What the server gets, and the sizes of those that it is from.

        Sums are as if one client had sent them. They are given away, not kept.
        """
        whole, self.whole = self.whole, {}
        if not self.adding:
            return whole, self.sizes
        total = self.sizes.sum()
        part = {"sum": 1.0, "uniform": float(len(self.sizes)), "size": float(total)}
        found = {name: (tensor / part[self.sums[name]]).to(self.kinds[name])
                 for name, tensor in whole.items()}  # fmt: skip
        return found, total[None]


class Models:
    """The clients' models ``(clients, p)``: one row for all, as long as all have the same."""

    def __init__(self, clients: int, limit: int | None = None) -> None:
        self.clients, self.limit = clients, limit
        self.one: Tensor | None = None
        self.stack: ModelStack | None = None
        self.done: list[Tensor] = []  # who has the one model so far

    def add(self, ids: Tensor, theta: Tensor) -> None:
        if self.stack is None:
            if self.one is None:
                self.one = theta[0].clone()
            if all(torch.equal(row, self.one) for row in theta):
                self.done.append(ids)
                return
            shape = (self.clients, *theta.shape[1:])
            self.stack = ModelStack(shape, theta.dtype, LIMIT if self.limit is None else self.limit)
            for before in self.done:
                self.stack.write(before, self.one.expand(len(before), -1))
        self.stack.write(ids, theta)

    def taken(self) -> Tensor:
        """All clients' models; one for all is a view that repeats it, see `shared`."""
        if self.stack is not None:
            return self.stack.tensor
        assert self.one is not None
        return self.one.expand(self.clients, -1)


def shared(theta: Tensor) -> bool:
    """Whether models are one that is kept once."""
    return len(theta) == 1 or theta.stride(0) == 0


class ModelStack:
    """New memory for a stack; above `limit` bytes it is a file in the temporary folder, mapped."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, limit: int) -> None:
        size = prod(shape) * dtype.itemsize
        self.written = 0
        self.mapped: mmap.mmap | None = None
        if size <= limit:
            self.tensor = torch.empty(shape, dtype=dtype)
            return
        folder = tempfile.gettempdir()
        try:
            with tempfile.TemporaryFile(dir=folder) as file:  # it has no name, and ends with us
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, size)  # or a full disk would kill us later
                else:
                    file.truncate(size)
                self.mapped = mmap.mmap(file.fileno(), size)
        except OSError as error:
            raise InputError(
                f"The clients' models take {size / 1e9:.1f} GB, and {folder} has no space for them "
                f"({error.strerror}): set TMPDIR to a folder on a larger disk."
            ) from error
        numbers = torch.from_numpy(np.frombuffer(self.mapped, dtype=np.uint8))
        self.tensor = numbers.view(dtype).view(shape)

    def write(self, ids: Tensor, rows: Tensor) -> None:
        """Write some rows; from time to time, let the machine have the memory back."""
        self.tensor[ids] = rows
        self.written += rows.nbytes
        if self.mapped is not None and self.written > WRITTEN:
            self.mapped.flush()
            if hasattr(mmap, "MADV_DONTNEED"):
                self.mapped.madvise(mmap.MADV_DONTNEED)
            self.written = 0


def put(whole: State, name: str, ids: Tensor, rows: Tensor, n: int) -> None:
    """Write some clients' rows into the stack of all clients' rows; all of them are that stack."""
    if len(ids) == n and torch.equal(ids, torch.arange(n)):
        whole[name] = rows
        return
    if name not in whole:
        whole[name] = rows.new_empty((n, *rows.shape[1:]))
    whole[name][ids] = rows
