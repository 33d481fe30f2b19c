"""The interface of networks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from pfedfair._util.errors import InputError, option
from pfedfair.data.tables.encoder import Inputs
from pfedfair.federation import unpack

Buffers = dict[str, Tensor]  # memory that is reused
Slope = Callable[[Tensor], Tensor]  # from logits to d(loss)/d(logits)


class Network(Protocol):
    """The contract of a network."""

    size: int  # the length p of one model's row
    words: str  # what it is, for tables
    measured: int = 0  # numbers of a row that are not trained, but measured by `settle`
    linear: bool = False  # whether logits are linear in the parameters, see `design`
    unbatched: bool = False  # whether each client is a batch, unpadded: samples depend on others

    @property
    def parameters(self) -> int:
        """The number of trained parameters of one model."""
        return self.size - self.measured

    def init(self, rng: np.random.Generator) -> Tensor:
        """Draw the parameters of one model, ``(p,)``."""

    def logits(self, w: Tensor, x: Tensor, s: Tensor) -> Tensor:
        """Compute the outputs of every row's model on that row's samples."""

    def scores(self, w: Tensor, x: Tensor, s: Tensor, encoder: Inputs | None = None) -> Tensor:
        """Compute the outputs of one model ``(p,)`` for packed rows `x`, ``(n, outputs)``."""
        return self.logits(w[None], unpack(x, encoder)[None], s[None])[0]

    def vjp(self, w: Tensor, x: Tensor, s: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Compute the logits, and the map from d(loss)/d(logits) to d(loss)/d(w), ``(rows, p)``."""

    def gradient(
        self, w: Tensor, x: Tensor, s: Tensor, slope: Slope, buffers: Buffers | None = None
    ) -> Tensor:
        """Compute d(loss)/d(w), ``(rows, p)``, where `slope` maps logits to d(loss)/d(logits).

        `buffers` may hold intermediate results until the next gradient.
        """
        logits, pullback = self.vjp(w, x, s)
        return pullback(slope(logits))

    def settle(self, w: Tensor, batches: Callable[[], Iterable[Tensor]]) -> Tensor:
        """Return trained models with the statistics that they measure on their samples.

        Every call of `batches` goes once over the inputs of these samples, each ``(rows, n, ...)``.
        """
        return w

    def like(self, outputs: int) -> Network:
        """Return a network of the same form with other outputs, which predicts S."""
        raise InputError(f"{self.words} cannot guess S, which this needs: take linear or an MLP.")

    def design(self, x: Tensor, s: Tensor) -> Tensor:
        """Return what the logits are linear in, ``(rows, n, q)``; the last of it is the constant 1.

        A model's row then has the coefficients output by output without those of the constant, then
        the intercepts, which are those of the constant.
        """
        raise InputError(
            f"{self.words} is not linear in its parameters: take {option('model', 'linear')} or "
            "additive."
        )

    def to_dict(self) -> dict[str, Any]:
        """Describe the network for `from_dict`, as JSON can hold it."""

    def buffers(self) -> dict[str, Tensor]:
        """Return numbers that belong to the network and are not trained."""
        return {}


def group_inputs(s: Tensor, groups: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return S as inputs ``(..., n, k)``: none, 0 or 1 for two groups, else one-hot."""
    if groups == 0:
        return torch.empty(*s.shape, 0, dtype=dtype)
    return (s.unsqueeze(-1) if groups == 2 else one_hot(s, groups)).to(dtype)


def with_group(x: Tensor, s: Tensor, groups: int) -> Tensor:
    """Append S to the inputs ``(..., n, d)``."""
    return torch.cat([x, group_inputs(s, groups, x.dtype)], dim=-1) if groups else x
