"""Whom clients of `Transport` believe: their own people by their counts, and everybody else's."""

from typing import NamedTuple
from weakref import finalize, ref

import numpy as np
import torch
from torch import Tensor

from pfedfair.methods.base import State


class Counted(NamedTuple):
    """What some clients have counted and the server has told, and the people that this makes."""

    tensors: list[ref[Tensor]]
    versions: list[int]  # PyTorch's: they rise when a tensor is written to
    told: list[Tensor]
    people: dict[str, np.ndarray]

    def of(self, tensors: list[Tensor], told: list[Tensor]) -> bool:
        """Whether it is of the very same counts, and of what the server tells."""
        very_same = all(known() is own for known, own in zip(self.tensors, tensors, strict=True))
        unchanged = very_same and self.versions == [tensor._version for tensor in tensors]
        as_many = len(self.told) == len(told)
        return unchanged and as_many and all(map(torch.equal, self.told, told))


MOST = 16  # chunks of clients
LAST: list[Counted] = []


def people(server: State, own: State, sent: State) -> dict[str, np.ndarray]:
    """Every client's people by group and cell, and everybody else's, as `Belief` has them.

    Those of the last chunks are remembered as long as their counts are there: in the next round
    clients agree by the same arrays, and what was made of these alone is not made again
    (`theory.once`).
    """
    tensors = [counts[name] for counts in (own, sent) for name in ("held", "trained")]
    told = [server[name] for name in ("trust", "counts", "everybody") if name in server]
    for last in list(LAST):  # another thread may add one
        if last.of(tensors, told):
            return last.people
    trust, *sums = told
    held, trained, sent_held, sent_trained = tensors
    held, sent_held = by_group(held), by_group(sent_held)
    found = {}
    for mark, everybody in zip(("", "all_"), sums, strict=False):
        part = torch.ones_like(trust)[:, None] if mark else trust[:, None]
        found[f"{mark}counts"] = (held + part * trained).numpy()
        others = everybody - (sent_held + part * sent_trained)
        found[f"{mark}pooled"] = others.clamp(min=0).numpy()
    for array in found.values():
        array.flags.writeable = False
    versions = [tensor._version for tensor in tensors]
    known = [tensor.clone() for tensor in told]
    LAST.append(Counted([ref(tensor) for tensor in tensors], versions, known, found))
    finalize(tensors[0], _forget, id(found)).atexit = False
    del LAST[:-MOST]
    return found


def _forget(number: int) -> None:
    """Remember no longer what was made of counts that are gone; at worst others are made anew."""
    LAST[:] = [last for last in LAST if id(last.people) != number]


def by_group(held: Tensor) -> Tensor:
    """Held people of all labels and halves, ``(..., groups, cells)``.

    The server and the clients add them up in one order, whose own then leave nothing where nobody
    else is. PyTorch's sum over both axes at once takes twenty times as long.
    """
    return held.sum(-2).sum(-3)
