"""Where the gradient of a stack of perceptrons is worked out, in memory that is used again.

For networks this small, making views of the parameters and asking for memory takes as long as the
matrix products, and new memory of more than a few pages takes longer. Steps are in place, so all
that stays the same from step to step is kept: views of every layer's parameters and gradient, room
for its outputs and slopes, and the inputs with S behind them while the minibatch is the same. Where
a kernel in C was built, it does the work.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from threading import local

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from pfedfair._util.last import Last
from pfedfair._util.spare import Spare
from pfedfair.models import kernel
from pfedfair.models.base import CrossEntropy, Slope

Layer = tuple[int, int, int]  # start in a model's row, fan-in, fan-out
relu_slope = torch.ops.aten.threshold_backward.grad_input  # the slope where the output is positive
KEPT = 2  # desks: one for the global models, one for the personal


class Desk(ABC):
    """The work on a stack of models with so many people each."""

    bound = False  # whether it is for models at one place in memory

    @abstractmethod
    def logits(self, w: Tensor, x: Tensor, s: Tensor) -> Tensor:
        """The outputs of every model on its own people."""

    @abstractmethod
    def pull(self, slope: Tensor) -> Tensor:
        """From d(loss)/d(logits) to d(loss)/d(w), a tensor that is nobody else's."""

    def gradient(self, w: Tensor, x: Tensor, s: Tensor, slope: Slope) -> Tensor:
        """Both in one."""
        return self.pull(slope(self.logits(w, x, s)))


class ByTorch(Desk):
    """All models at once, with a call for every product, sum and comparison."""

    bound = True  # views of them are kept

    def __init__(self, layers: Sequence[Layer], groups: int, w: Tensor, n: int) -> None:
        self.layers, self.w = layers, w
        unfolded = [unfold(w, layer) for layer in layers]
        self.weights = [weight for weight, _ in unfolded]
        self.forth = [(weight.mT, bias) for weight, bias in unfolded]
        room = [w.new_empty(len(w), n, fan_out) for _, _, fan_out in layers]
        self.outputs = [w.new_empty(0), *room]  # the inputs of every layer, and the logits
        self.slopes = [torch.empty_like(output) for output in room[:-1]]
        self.inputs = Last(_layout(groups, w))
        self.spare = Spare(1, lambda grad: [unfold(grad, layer) for layer in layers])

    def logits(self, w: Tensor, x: Tensor, s: Tensor) -> Tensor:
        out = self.outputs
        out[0] = self.inputs.of(x, s)
        for layer, (weight, bias) in enumerate(self.forth):
            torch.baddbmm(bias, out[layer], weight, out=out[layer + 1])
            if layer < len(self.slopes):
                out[layer + 1].relu_()
        return out[-1]

    def pull(self, slope: Tensor) -> Tensor:
        grad, views = self.spare.like(self.w)
        for layer in reversed(range(len(self.layers))):
            weight_grad, bias_grad = views[layer]
            torch.bmm(slope.mT, self.outputs[layer], out=weight_grad)
            torch.sum(slope, 1, keepdim=True, out=bias_grad)
            if layer:
                before = torch.bmm(slope, self.weights[layer], out=self.slopes[layer - 1])
                slope = relu_slope(before, self.outputs[layer], 0, grad_input=before)
        return grad


class ByKernel(Desk):
    """Model by model, with one call for all layers."""

    def __init__(self, layers: Sequence[Layer], groups: int, w: Tensor, n: int) -> None:
        widths = widths_of(layers)
        self.passes = kernel.passes(widths, groups, len(w), n)
        self.inputs = Last(self.passes.lay_out)
        self.spare = Spare(2)  # gradients of the global models and of the personal ones

    def logits(self, w: Tensor, x: Tensor, s: Tensor) -> Tensor:
        self.w = w
        self.inputs.of(x, s)
        return self.passes.forth(w)

    def pull(self, slope: Tensor) -> Tensor:
        grad, _ = self.spare.like(self.w)
        self.passes.back(self.w, slope, grad)
        return grad

    def gradient(self, w: Tensor, x: Tensor, s: Tensor, slope: Slope) -> Tensor:
        if not (isinstance(slope, CrossEntropy) and kernel.knows(slope)):
            return super().gradient(w, x, s, slope)
        self.inputs.of(x, s)
        grad, _ = self.spare.like(w)
        self.passes.both(w, slope, grad)
        return grad


class _Desks(local):
    """The last ones that were used, and what for; threads have their own."""

    def __init__(self) -> None:
        self.kept: deque[tuple[object, Desk]] = deque(maxlen=KEPT)


DESKS = _Desks()


def new_desk(layers: Sequence[Layer], groups: int, w: Tensor, x: Tensor, s: Tensor) -> Desk:
    """Return a desk for such models and as many people."""
    return _kind(layers, w, x, s)(layers, groups, w, x.shape[1])


def desk_for(layers: Sequence[Layer], groups: int, w: Tensor, x: Tensor, s: Tensor) -> Desk:
    """Return the desk at which these models were worked on before, or a new one."""
    kind, n = _kind(layers, w, x, s), x.shape[1]
    where = (w.data_ptr(), w.stride(), w.dtype) if kind.bound else None
    use = (kind, n, groups, where, w.shape, layers)
    for known, desk in DESKS.kept:
        if known == use:
            return desk
    DESKS.kept.append((use, kind(layers, groups, w, n)))
    return DESKS.kept[-1][1]


def _kind(layers: Sequence[Layer], w: Tensor, x: Tensor, s: Tensor) -> type[ByTorch | ByKernel]:
    able = kernel.able(w, x, s, len(layers)) and kernel.quick(w, x)
    return ByKernel if able else ByTorch


def _layout(groups: int, w: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Return what lays out inputs and S. It knows no desk: a circle would keep both for long."""
    room: tuple[Tensor, Tensor, Tensor] | None = None

    def lay_out(x: Tensor, s: Tensor) -> Tensor:
        nonlocal room
        flat = x.flatten(2)
        if groups != 2:
            return with_group(flat, s, groups)
        if room is None:
            whole = w.new_empty(*flat.shape[:2], flat.shape[2] + 1)
            room = whole, whole[..., :-1], whole[..., -1]
        whole, inputs, group = room
        inputs.copy_(flat)
        group.copy_(s)
        return whole

    return lay_out


def widths_of(layers: Sequence[Layer]) -> tuple[int, ...]:
    """The inputs, and every layer's outputs."""
    return (*(fan_in for _, fan_in, _ in layers), layers[-1][2])


def unfold(w: Tensor, layer: Layer) -> tuple[Tensor, Tensor]:
    """View a layer's weights ``(rows, out, in)`` and bias ``(rows, 1, out)``."""
    start, fan_in, fan_out = layer
    middle = start + fan_in * fan_out
    weight = w[:, start:middle].view(-1, fan_out, fan_in)
    return weight, w[:, None, middle : middle + fan_out]


def with_group(x: Tensor, s: Tensor, groups: int) -> Tensor:
    """Put S behind the inputs ``(..., n, d)``: 0 or 1, or one-hot if there are more groups."""
    if groups == 0:
        return x
    group = s.unsqueeze(-1) if groups == 2 else one_hot(s, groups)
    return torch.cat([x, group.to(x)], dim=-1)
