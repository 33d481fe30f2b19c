"""Many steps of a stack of perceptrons in one call of the library in C: see `kernel`.

Model by model: its weights, gradient and moments stay in the processor's cache.
"""

import ctypes
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from pfedfair import kinds
from pfedfair.networks import kernel
from pfedfair.networks.base import CrossEntropy, Slope
from pfedfair.optimisers import Step

Lesson = tuple[Tensor, Tensor, Slope]  # people's x and s, and the slope


def able(
    w: Tensor, people: Sequence[Lesson], layers: int, outputs: int, centre: Tensor | None
) -> bool:
    """Whether the library can take all these steps: the plain loss, people in equal order."""
    x, s, loss = people[0]
    return (
        outputs == 1
        and isinstance(loss, CrossEntropy)
        and kernel.knows(loss)
        and kernel.able(w, x, s, layers)
        and kernel.quick(w, x)
        and w.is_contiguous()
        and (centre is None or _readable(centre, w))
        and all(one is people[0] or _alike(one, people[0]) for one in people)
    )


def _readable(centre: Tensor, w: Tensor) -> bool:
    """Whether the library can read a centre of all these models, or one for each."""
    fits = centre.shape in (w.shape, w.shape[1:]) and centre.stride(-1) == 1
    return fits and centre.dtype is torch.float32 and centre.is_cpu


def _alike(one: Lesson, other: Lesson) -> bool:
    """Whether two minibatches lie in memory in the same way."""
    if not isinstance(one[2], CrossEntropy):
        return False
    tensors = zip(_tensors(one), _tensors(other), strict=True)
    return all(
        a.shape == b.shape and a.stride() == b.stride() and a.dtype is b.dtype for a, b in tensors
    )


def descend(
    widths: Sequence[int],
    groups: int,
    w: Tensor,
    people: Sequence[Lesson],
    step: Step,
    gamma: float,
    centre: Tensor | None,
) -> None:
    """All steps, model by model, while a model is at hand; see `Network.descend`."""
    step.begin(w)
    flat = [x if x.dim() == 3 else x.flatten(2) for x, _, _ in people]  # of images perhaps copies
    lists = [(ctypes.c_void_p * len(people))() for _ in range(4)]
    for k, (_, *one) in enumerate(map(_tensors, people)):
        for pointers, tensor in zip(lists, (flat[k], *one), strict=True):
            pointers[k] = tensor.data_ptr()
    x, (_, s, y, weight) = flat[0], _tensors(people[0])
    models, n, size = *x.shape[:2], w.shape[1]
    assert w.shape == (models, sum((i + 1) * o for i, o in pairwise(widths)))
    assert x.shape[2] == widths[0] - kinds.inputs(groups)
    assert y.shape == weight.shape == (models, n)
    assert s.shape == (models, n) or not groups
    assert centre is None or centre.shape in ((size,), (models, size))
    assert not step.adam or step.m.shape == step.v.shape == w.shape
    told = kernel.Descent(
        len(people), *lists,
        x.stride(0), x.stride(1), s.stride(0), y.stride(0), weight.stride(0),
        step.adam, step.made, step.lr, step.ridge, step.beta1, step.beta2, step.eps,
        step.m.data_ptr() if step.adam else None, step.v.data_ptr() if step.adam else None,
        0.0 if centre is None else gamma, None if centre is None else centre.data_ptr(),
        centre.stride(0) if centre is not None and centre.dim() == 2 else 0,
    )  # fmt: skip

    def work(first: int, last: int) -> None:
        room = kernel.ROOMS.of(widths, groups, n)
        room.library.pfedfair_descend(room.plan, told, first, last, w.data_ptr(), w.stride(0))

    if size * n > kernel.SMALL:
        kernel.in_threads(work, range(models), range(1, models + 1))
    else:
        work(0, models)
    step.made += len(people)


def _tensors(one: Lesson) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    x, s, loss = one
    assert isinstance(loss, CrossEntropy)
    return x, s, loss.y, loss.weight
