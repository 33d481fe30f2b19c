"""Collect messages and models from chunks of clients, in little memory.

Messages that are large in total are summed as they arrive, if the server needs only their sums. If
all clients have the same model, it is stored once. A stack of models larger than `LIMIT` is stored
in an unnamed file, mapped into memory, so that the operating system can reclaim its memory.
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

LIMIT = 2**30  # bytes of a stack that is stored in memory
SUMMED = 2**28  # bytes of all clients' messages; more are summed as they arrive
WRITTEN = 2**28  # bytes that are written to a file before its memory is released


class Messages:
    """The messages of a round: one row for each client, or their sums where these are much smaller.

    `sums` says how each tensor is summed, see `Phase.sums`.
    """

    def __init__(self, sums: Mapping[str, str], sizes: Tensor, limit: int | None = None) -> None:
        self.sums, self.sizes, self.limit = sums, sizes, limit
        self.names: tuple[str, ...] = ()
        self.bytes = 0  # that one client sent
        self.tensors: State = {}
        self.kinds: dict[str, torch.dtype] = {}
        self.is_summing = False

    def add(self, ids: Tensor, sent: State) -> None:
        """Take some clients' messages."""
        if not self.names:
            self.names = tuple(sent)
            self.bytes = sum(rows[0].numel() * rows.element_size() for rows in sent.values())
            many = self.bytes * len(self.sizes) > (SUMMED if self.limit is None else self.limit)
            self.is_summing = many and set(sent) <= set(self.sums)
        for name, rows in sent.items():
            if self.is_summing:
                self._sum(name, ids, rows)
            else:
                put(self.tensors, name, ids, rows, len(self.sizes))

    def _sum(self, name: str, ids: Tensor, rows: Tensor) -> None:
        if self.sums[name] == "size":
            part = torch.tensordot(self.sizes[ids].double(), rows.double(), dims=1)
        else:
            part = rows.sum(0, dtype=torch.float64)
        if name in self.tensors:
            self.tensors[name] += part
        else:
            self.tensors[name], self.kinds[name] = part[None], rows.dtype

    def take(self) -> tuple[State, Tensor]:
        """Return the messages for the server and the sizes of their senders; drop them here.

        Sums are as if one client had sent them.
        """
        tensors, self.tensors = self.tensors, {}
        if not self.is_summing:
            return tensors, self.sizes
        total = self.sizes.sum()
        divisor = {"sum": 1.0, "uniform": float(len(self.sizes)), "size": float(total)}
        message = {name: (tensor / divisor[self.sums[name]]).to(self.kinds[name])
                   for name, tensor in tensors.items()}  # fmt: skip
        return message, total[None]


class Models:
    """The clients' models ``(clients, p)``: stored once as long as all are equal."""

    def __init__(self, clients: int, limit: int | None = None) -> None:
        self.clients, self.limit = clients, limit
        self.shared: Tensor | None = None
        self.stack: ModelStack | None = None
        self.done: list[Tensor] = []  # ids of the clients that have the shared model so far

    def add(self, ids: Tensor, theta: Tensor) -> None:
        if self.stack is None:
            if self.shared is None:
                self.shared = theta[0].clone()
            if all(torch.equal(row, self.shared) for row in theta):
                self.done.append(ids)
                return
            shape = (self.clients, *theta.shape[1:])
            self.stack = ModelStack(shape, theta.dtype, LIMIT if self.limit is None else self.limit)
            for before in self.done:
                self.stack.write(before, self.shared.expand(len(before), -1))
        self.stack.write(ids, theta)

    def take(self) -> Tensor:
        """Return all clients' models; a shared one is a view that repeats it, see `is_shared`."""
        if self.stack is not None:
            return self.stack.tensor
        assert self.shared is not None
        return self.shared.expand(self.clients, -1)


def is_shared(theta: Tensor) -> bool:
    """Whether all models are one that is stored once."""
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
            with tempfile.TemporaryFile(dir=folder) as file:  # unnamed, and deleted when we end
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, size)  # else a full disk kills us later
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
        """Write some clients' rows; release the memory of a mapped file from time to time."""
        self.tensor[ids] = rows
        self.written += rows.nbytes
        if self.mapped is not None and self.written > WRITTEN:
            self.mapped.flush()
            if hasattr(mmap, "MADV_DONTNEED"):
                self.mapped.madvise(mmap.MADV_DONTNEED)
            self.written = 0


def put(state: State, name: str, ids: Tensor, rows: Tensor, n: int) -> None:
    """Write some clients' rows to the stack of all clients; if these are all, use them as it."""
    if len(ids) == n and torch.equal(ids, torch.arange(n)):
        state[name] = rows
        return
    if name not in state:
        state[name] = rows.new_empty((n, *rows.shape[1:]))
    state[name][ids] = rows
