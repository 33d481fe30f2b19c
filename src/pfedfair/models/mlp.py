"""Multi-layer perceptrons with ReLU, all clients in one batched matrix product per layer.

The gradient is written out by hand: for networks this small, recording a graph costs more than
the arithmetic. A library in C, where it was built, computes networks with hidden layers. A row has
the layout of ``parameters_to_vector`` on the same ``nn.Sequential`` of ``nn.Linear`` layers, so
weights can be copied from one to the other.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfedfair._native import kernel
from pfedfair.data import task
from pfedfair.data.tables.encoder import Inputs
from pfedfair.data.tables.piecewise import Piecewise
from pfedfair.models.base import Buffers, Network, Slope, group_inputs

Layer = tuple[int, int, int]  # start in a model's row, fan-in, fan-out


class MLP(Network):
    """A stack of perceptrons ``inputs -> hidden[0] -> ... -> outputs``.

    With `groups` S is an input, too: one number for two groups, else one for each. Inputs of
    another shape, such as images, are flattened.
    """

    def __init__(
        self, inputs: int, hidden: Sequence[int] = (64, 64), outputs: int = 1, groups: int = 0
    ) -> None:
        inputs, outputs, groups = map(int, (inputs, outputs, groups))  # NumPy's, too
        hidden = tuple(map(int, hidden))
        self.inputs, self.hidden, self.outputs, self.groups = inputs, hidden, outputs, groups
        self.widths = inputs + task.inputs(groups), *hidden, outputs
        self.linear = not hidden
        self.words = f"mlp {'-'.join(map(str, hidden))}" if hidden else "linear"
        self.layers: list[Layer] = []
        self.size = 0
        for fan_in, fan_out in pairwise(self.widths):
            self.layers.append((self.size, fan_in, fan_out))
            self.size += (fan_in + 1) * fan_out

    def init(self, rng: np.random.Generator) -> Tensor:
        """Draw uniformly from +-1/sqrt(fan-in), PyTorch's default for ``nn.Linear``."""
        parts = [
            rng.uniform(-1, 1, (fan_in + 1) * fan_out) / np.sqrt(fan_in)
            for _, fan_in, fan_out in self.layers
        ]
        return torch.from_numpy(np.concatenate(parts).astype(np.float32))

    def logits(self, w: Tensor, x: Tensor, s: Tensor) -> Tensor:
        if not self.linear and x.shape[1] and kernel.usable(w, x, s):
            return kernel.logits(self.widths, self.groups, w, x, s)
        return self._layers_on(w, x, s)[-1]

    def scores(self, w: Tensor, x: Tensor, s: Tensor, encoder: Inputs | None = None) -> Tensor:
        if not self.linear or not isinstance(encoder, Piecewise):
            return super().scores(w, x, s, encoder)
        weight, bias = (part[0] for part in unfold(w[None], self.layers[0]))
        found = encoder.basis.times(x, weight[:, : encoder.width])
        if not self.groups:
            return found.add_(bias)
        groups = group_inputs(torch.arange(self.groups), self.groups, w.dtype)
        return found.add_((groups @ weight[:, encoder.width :].T + bias).index_select(0, s))

    def gradient(
        self, w: Tensor, x: Tensor, s: Tensor, slope: Slope, buffers: Buffers | None = None
    ) -> Tensor:
        if self.linear or not kernel.usable(w, x, s):
            return super().gradient(w, x, s, slope)
        forward = kernel.Forward(self.widths, self.groups, w, x, s, buffers)
        return forward.backward(slope(forward.logits))

    def vjp(self, w: Tensor, x: Tensor, s: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        if not self.linear and kernel.usable(w, x, s):
            forward = kernel.Forward(self.widths, self.groups, w, x, s)
            return forward.logits, forward.backward
        *hidden, logits = self._layers_on(w, x, s)

        def pullback(slope: Tensor) -> Tensor:
            grad = torch.empty_like(w)
            for layer, h in zip(self.layers[:0:-1], reversed(hidden), strict=True):
                self._store(grad, layer, slope, h)
                slope = (slope @ unfold(w, layer)[0]).masked_fill_(h <= 0, 0)
            self._store(grad, self.layers[0], slope, x.flatten(2), s)
            return grad

        return logits, pullback

    def _layers_on(self, w: Tensor, x: Tensor, s: Tensor) -> list[Tensor]:
        """Return the outputs of every layer. S is a product of its own: no input is copied."""
        x = x.flatten(2)
        weight, bias = unfold(w, self.layers[0])
        z = torch.baddbmm(bias, x, weight[..., : x.shape[2]].mT)
        if self.groups:
            z.baddbmm_(group_inputs(s, self.groups, x.dtype), weight[..., x.shape[2] :].mT)
        outputs = [z]
        for layer in self.layers[1:]:
            weight, bias = unfold(w, layer)
            outputs.append(torch.baddbmm(bias, outputs[-1].relu_(), weight.mT))
        return outputs

    def _store(
        self, grad: Tensor, layer: Layer, slope: Tensor, inputs: Tensor, s: Tensor | None = None
    ) -> None:
        """Write a layer's gradient, from the slope of its outputs; `s` are inputs behind others."""
        weight, bias = unfold(grad, layer)
        torch.sum(slope, 1, keepdim=True, out=bias)
        d = inputs.shape[2]
        weight[..., :d] = slope.mT @ inputs
        if s is not None and self.groups:
            weight[..., d:] = slope.mT @ group_inputs(s, self.groups, slope.dtype)

    def design(self, x: Tensor, s: Tensor) -> Tensor:
        if not self.linear:
            return super().design(x, s)
        group = group_inputs(s, self.groups, x.dtype)
        return torch.cat([x.flatten(2), group, x.new_ones(*x.shape[:2], 1)], dim=-1)

    def like(self, outputs: int) -> Network:
        return MLP(self.inputs, self.hidden, outputs, self.groups)

    def to_dict(self) -> dict[str, Any]:
        about = {"inputs": self.inputs, "hidden": list(self.hidden), "outputs": self.outputs}
        return {"kind": "mlp", **about, "groups": self.groups}


def unfold(w: Tensor, layer: Layer) -> tuple[Tensor, Tensor]:
    """View a layer's weights ``(rows, out, in)`` and bias ``(rows, 1, out)``."""
    start, fan_in, fan_out = layer
    middle = start + fan_in * fan_out
    weight = w[:, start:middle].view(-1, fan_out, fan_in)
    return weight, w[:, None, middle : middle + fan_out]


def linear(inputs: int, outputs: int = 1, groups: int = 0) -> MLP:
    """Return logistic regression, which is an MLP without hidden layers.

    >>> linear(3).size
    4
    """
    return MLP(inputs, (), outputs, groups)
