"""Memory that is used again as soon as nobody else has it: new memory is slow.

The system hands new memory out page by page, and none of it is in the processor's cache.
"""

from collections.abc import Callable, Sequence
from math import prod
from threading import local
from typing import NamedTuple

import torch
from torch import Tensor

MOST = 2**22  # numbers that minibatches may have, to be kept
MEMORY = 6 * 4 * MOST  # bytes that are kept for them in all
Views = list[tuple[Tensor, Tensor]]
holders: Callable[[int], int] | None = getattr(torch._C, "_storage_Use_Count", None)


class Place(NamedTuple):
    tensor: Tensor
    views: Views
    storage: int  # where PyTorch counts who has it
    mine: int  # the count while nobody else does


class Spare:
    """Remembers the last few tensors that it gave away, and gives them again once they are free.

    At `most` so many, and with so much `memory` in bytes. With every tensor come the `views` of it
    that its user needs. Where PyTorch does not tell who has a tensor (the function is not public),
    all are new: slower, not wrong.
    """

    def __init__(
        self,
        most: int,
        views: Callable[[Tensor], Views] = lambda tensor: [],
        memory: float = float("inf"),
    ) -> None:
        self.places: list[Place] = []  # the last one that was used comes last
        self.most, self.views, self.memory = most, views, memory

    def like(self, model: Tensor) -> tuple[Tensor, Views]:
        """Return a tensor of this form and any content that is nobody else's, and its views."""
        return self.of(model.shape, model.dtype)

    def of(self, shape: Sequence[int], dtype: torch.dtype) -> tuple[Tensor, Views]:
        """The same for a form that no tensor has yet."""
        for k, (tensor, views, storage, mine) in enumerate(self.places):
            fits = tensor.shape == tuple(shape) and tensor.dtype is dtype
            if fits and holders and holders(storage) == mine:
                self.places.append(self.places.pop(k))
                return tensor.detach(), views
        tensor = torch.empty(*shape, dtype=dtype)
        views = self.views(tensor)
        storage = tensor.untyped_storage()._cdata
        self.places.append(Place(tensor, views, storage, holders(storage) if holders else 0))
        sizes = [place.tensor.nbytes for place in self.places]
        while len(sizes) > self.most or (len(sizes) > 1 and sum(sizes) > self.memory):
            del self.places[0], sizes[0]
        return tensor.detach(), views


class _Minibatches(local):
    """Threads have their own."""

    def __init__(self) -> None:
        self.spare = Spare(20, memory=MEMORY)


MINIBATCHES = _Minibatches()


def new(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return a tensor of any content, for a minibatch or a message, in memory of earlier ones."""
    if prod(shape) > MOST:
        return torch.empty(*shape, dtype=dtype)
    return MINIBATCHES.spare.of(shape, dtype)[0]
