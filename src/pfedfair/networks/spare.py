"""Memory that is used again as soon as nobody else has it: new memory is slow.

The system hands new memory out page by page, and none of it is in the processor's cache.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

holders: Callable[[int], int] | None = getattr(torch._C, "_storage_Use_Count", None)


class Place(NamedTuple):
    tensor: Tensor
    storage: int  # where PyTorch counts who has it
    mine: int  # the count while nobody else does


class Spare:
    """Remembers the last few tensors that it gave away, and gives them again once they are free.

    Where PyTorch does not tell who has a tensor (the function is not public), all are new: slower,
    not wrong.
    """

    def __init__(self, most: int) -> None:
        self.places: deque[Place] = deque(maxlen=most)

    def empty(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Return a tensor of any content that is nobody else's, dense, with the dtype of `like`."""
        if holders is None:
            return like.new_empty(shape)
        for tensor, storage, mine in self.places:
            if holders(storage) == mine and tensor.shape == shape and tensor.dtype is like.dtype:
                return tensor.detach()
        tensor = like.new_empty(shape)
        storage = tensor.untyped_storage()._cdata
        self.places.append(Place(tensor, storage, holders(storage)))
        return tensor.detach()
