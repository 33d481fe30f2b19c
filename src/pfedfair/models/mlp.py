"""Multi-layer perceptrons with ReLU, all clients in one batched matrix product per layer.

The gradient is written out by hand: for networks this small, recording a graph costs more than
the arithmetic. A row has the layout of ``parameters_to_vector`` on the same ``nn.Sequential`` of
``nn.Linear`` layers, so weights move freely between the two.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfedfair.data import task
from pfedfair.data.tables.piecewise import Piecewise
from pfedfair.federation import Table
from pfedfair.models import descent, kernel
from pfedfair.models.base import Network, Rows, Slope
from pfedfair.models.desk import desk_for, new_desk, unfold, widths_of, with_group
from pfedfair.models.optimisers import Step


class MLP(Network):
    """A stack of perceptrons ``inputs -> hidden[0] -> ... -> outputs``.

    With `groups` it looks at S, too: as one more input for two groups, else one for each. Inputs of
    another shape, such as images, are flattened.
    """

    def __init__(
        self, inputs: int, hidden: Sequence[int] = (64, 64), outputs: int = 1, groups: int = 0
    ) -> None:
        inputs, outputs, groups = map(int, (inputs, outputs, groups))  # NumPy's, too
        hidden = tuple(map(int, hidden))
        self.inputs, self.hidden, self.outputs, self.groups = inputs, hidden, outputs, groups
        widths = [inputs + task.inputs(groups), *hidden, outputs]
        self.linear = not hidden
        self.words = f"mlp {'-'.join(map(str, hidden))}" if hidden else "linear"
        self.layers: list[tuple[int, int, int]] = []  # start in the row, fan-in, fan-out
        self.size = 0
        for fan_in, fan_out in pairwise(widths):
            self.layers.append((self.size, fan_in, fan_out))
            self.size += (fan_in + 1) * fan_out

    def init(self, rng: np.random.Generator) -> Tensor:
        """Uniform in +-1/sqrt(fan-in), PyTorch's default for ``nn.Linear``."""
        parts = [
            rng.uniform(-1, 1, (fan_in + 1) * fan_out) / np.sqrt(fan_in)
            for _, fan_in, fan_out in self.layers
        ]
        return torch.from_numpy(np.concatenate(parts).astype(np.float32))

    def logits(self, w: Tensor, x: Tensor, s: Tensor) -> Tensor:
        if self.linear and self.groups:  # S by itself: putting it behind the inputs copies them
            weight, bias = unfold(w, self.layers[0])
            x, group = x.flatten(2), with_group(x.new_empty(*x.shape[:2], 0), s, self.groups)
            found = torch.baddbmm(bias, x, weight[..., : x.shape[2]].mT)
            return found.baddbmm_(group, weight[..., x.shape[2] :].mT)
        if not self.linear and kernel.able(w, x, s, len(self.layers)):
            return kernel.logits(widths_of(self.layers), self.groups, w, x, s)
        x = with_group(x.flatten(2), s, self.groups)
        for layer in self.layers:
            weight, bias = unfold(w, layer)
            x = torch.baddbmm(bias, x, weight.mT)
            if layer is not self.layers[-1]:
                x.relu_()
        return x

    def scores(self, w: Tensor, table: Table, rows: Tensor) -> Tensor:
        if not self.linear or not isinstance(table.encoder, Piecewise):
            return super().scores(w, table, rows)
        weight, bias = (part[0] for part in unfold(w[None], self.layers[0]))
        cells, s = (tensor.index_select(0, rows) for tensor in (table.x, table.s))
        found = table.encoder.basis.times(cells, weight[:, : table.width])
        if not self.groups:
            return found.add_(bias)
        groups = with_group(w.new_empty(self.groups, 0), torch.arange(self.groups), self.groups)
        return found.add_((groups @ weight[:, table.width :].T + bias).index_select(0, s))

    def vjp(self, w: Tensor, x: Tensor, s: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        desk = new_desk(self.layers, self.groups, w, x, s)
        return desk.logits(w, x, s), desk.pull

    def gradient(self, w: Tensor, x: Tensor, s: Tensor, slope: Slope) -> Tensor:
        desk = desk_for(self.layers, self.groups, w, x, s)
        return desk.gradient(w, x, s, slope)

    def descend(
        self,
        w: Tensor,
        people: Sequence[tuple[Tensor, Tensor, Slope]],
        step: Step,
        gamma: float = 0.0,
        centre: Tensor | None = None,
    ) -> None:
        if descent.able(w, people, len(self.layers), self.outputs, centre):
            descent.descend(widths_of(self.layers), self.groups, w, people, step, gamma, centre)
        else:
            super().descend(w, people, step, gamma, centre)

    def descend_rows(
        self, w: Tensor, rows: Rows, step: Step, gamma: float = 0.0, centre: Tensor | None = None
    ) -> bool:
        able = descent.able_rows(w, rows, len(self.layers), self.outputs, centre)
        if able:
            descent.descend_rows(widths_of(self.layers), self.groups, w, rows, step, gamma, centre)
        return able

    def design(self, x: Tensor, s: Tensor) -> Tensor:
        if not self.linear:
            return super().design(x, s)
        x = with_group(x.flatten(2), s, self.groups)
        return torch.cat([x, x.new_ones(*x.shape[:2], 1)], dim=-1)

    def like(self, outputs: int) -> Network:
        return MLP(self.inputs, self.hidden, outputs, self.groups)

    def to_dict(self) -> dict[str, Any]:
        about = {"inputs": self.inputs, "hidden": list(self.hidden), "outputs": self.outputs}
        return {"kind": "mlp", **about, "groups": self.groups}


def linear(inputs: int, outputs: int = 1, groups: int = 0) -> MLP:
    """Return logistic regression, which is an MLP without hidden layers.

    >>> linear(3).size
    4
    """
    return MLP(inputs, (), outputs, groups)
