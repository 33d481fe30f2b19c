"""Many steps of a stack of perceptrons in one call of the library in C: see `kernel`.

Model by model: its weights, gradient and moments stay in the processor's cache.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pfedfair.data import task
from pfedfair.models import kernel
from pfedfair.models.base import CrossEntropy, Rows, Slope
from pfedfair.models.optimisers import Step

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


def able_rows(w: Tensor, rows: Rows, layers: int, outputs: int, centre: Tensor | None) -> bool:
    """Whether the library can take these steps, too, and read the rows where they are."""
    x, s, y, numbers, weight = rows
    return (
        outputs == 1
        and kernel.able(w, x.unsqueeze(0), s.unsqueeze(0), layers)
        and w.shape[1] * numbers.shape[2] <= kernel.MOST
        and numbers.numel() > 0
        and numbers.dtype is torch.int64
        and y.dtype is weight.dtype is torch.float32
        and all(one.is_contiguous() and one.is_cpu for one in (w, *rows))
        and (centre is None or _readable(centre, w))
    )


class _Told(NamedTuple):
    """Where the people of every step are, and how far it is from one model's to the next's."""

    pointers: tuple[np.ndarray, ...]  # x, s, y, weight and rows of every step
    strides: tuple[int, ...]  # of x, of a person in x, of s, y, weight and rows


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
    each = {id(one): _tensors(one) for one in {id(one): one for one in people}.values()}
    x, s, y, weight = each[id(people[0])]
    models, n = x.shape[:2]
    assert x.shape[2] == widths[0] - task.inputs(groups)
    assert y.shape == weight.shape == (models, n)
    assert s.shape == (models, n) or not groups
    places = {key: [*(tensor.data_ptr() for tensor in one), 0] for key, one in each.items()}
    pointers = np.array([places[id(one)] for one in people], np.uintp)
    strides = *x.stride()[:2], s.stride(0), y.stride(0), weight.stride(0), 0
    told = _Told(tuple(np.ascontiguousarray(pointers.T)), strides)
    _work(widths, groups, w, (models, n), told, step, gamma, centre)


def descend_rows(
    widths: Sequence[int],
    groups: int,
    w: Tensor,
    rows: Rows,
    step: Step,
    gamma: float,
    centre: Tensor | None,
) -> None:
    """The same for people by their rows; see `Network.descend_rows`."""
    x, s, y, numbers, weight = rows
    models, steps, n = numbers.shape
    assert weight.shape == numbers.shape
    assert prod(x.shape[1:]) == widths[0] - task.inputs(groups)
    assert y.shape == s.shape == (len(x),)
    assert 0 <= numbers.min() <= numbers.max() < len(x)
    told = _Told(
        (
            *(np.full(steps, table.data_ptr(), np.uintp) for table in (x, s, y)),
            *(_every(n, tensor, steps) for tensor in (weight, numbers)),
        ),
        (0, x.stride(0), 0, 0, steps * n, steps * n),
    )
    _work(widths, groups, w, (models, n), told, step, gamma, centre)


def _every(n: int, tensor: Tensor, steps: int) -> np.ndarray:
    """Where every step's numbers begin, `n` after one another."""
    first, size = tensor.data_ptr(), n * tensor.element_size()
    return np.arange(first, first + steps * size, size, dtype=np.uintp)


def _work(
    widths: Sequence[int],
    groups: int,
    w: Tensor,
    people: tuple[int, int],
    told: _Told,
    step: Step,
    gamma: float,
    centre: Tensor | None,
) -> None:
    """Let the library step down, with so many people of every model."""
    step.begin(w)
    (models, n), size, steps = people, w.shape[1], len(told.pointers[0])
    assert w.shape == (models, sum((i + 1) * o for i, o in pairwise(widths)))
    assert centre is None or centre.shape in ((size,), (models, size))
    assert not step.adam or step.m.shape == step.v.shape == w.shape
    descent = kernel.Descent(
        steps, *(pointers.ctypes.data for pointers in told.pointers), *told.strides,
        step.adam, step.made, step.lr, step.ridge, step.beta1, step.beta2, step.eps,
        step.m.data_ptr() if step.adam else None, step.v.data_ptr() if step.adam else None,
        0.0 if centre is None else gamma, None if centre is None else centre.data_ptr(),
        centre.stride(0) if centre is not None and centre.dim() == 2 else 0,
    )  # fmt: skip

    def work(first: int, last: int) -> None:
        room = kernel.ROOMS.of(widths, groups, n)
        room.library.pfedfair_descend(room.plan, descent, first, last, w.data_ptr(), w.stride(0))

    if size * n > kernel.SMALL:
        kernel.in_threads(work, range(models), range(1, models + 1))
    else:
        work(0, models)
    step.made += steps


def _tensors(one: Lesson) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    x, s, loss = one
    assert isinstance(loss, CrossEntropy)
    flat = x if x.dim() == 3 else x.flatten(2)  # of images perhaps a copy
    return flat, s, loss.y, loss.weight
