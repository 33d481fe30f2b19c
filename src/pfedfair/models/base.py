"""What a network is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from pfedfair._util.errors import InputError, option
from pfedfair.federation import Table
from pfedfair.models.optimisers import Step

Slope = Callable[[Tensor], Tensor]  # from logits to d(loss)/d(logits)


@dataclass(eq=False)
class CrossEntropy:
    """The slope of the mean cross-entropy of one output, for a network that wants to know it.

    `y` and `weight` are the batch's, ``(rows, n)``; it is called as any other slope.
    """

    y: Tensor
    weight: Tensor

    def __call__(self, logits: Tensor) -> Tensor:
        return (self.weight * (torch.sigmoid(logits[..., 0]) - self.y)).unsqueeze(-1)


class Rows(NamedTuple):
    """Minibatches of a stack of models as numbers of a table's rows: nothing is laid out.

    `x`, `s` and `y` are the table's, `numbers` and `weight` are ``(models, steps, n)``. The loss is
    the mean cross-entropy of one output.
    """

    x: Tensor
    s: Tensor
    y: Tensor
    numbers: Tensor
    weight: Tensor


class Network(Protocol):
    """The contract of a network."""

    size: int  # the length p of one model's row
    words: str  # what it is, for tables
    measured: int = 0  # how many numbers of a row are not trained, but measured by `settle`
    linear: bool = False  # whether logits are linear in the parameters, see `design`
    alone: bool = False  # whether clients go one by one, with no padding: people are not apart

    @property
    def parameters(self) -> int:
        """How many numbers of one model are trained."""
        return self.size - self.measured

    def init(self, rng: np.random.Generator) -> Tensor:
        """Draw the parameters of one model, ``(p,)``."""

    def logits(self, w: Tensor, x: Tensor, s: Tensor) -> Tensor:
        """Compute the outputs of every row's model on every row's people."""

    def scores(self, w: Tensor, table: Table, rows: Tensor) -> Tensor:
        """Compute the outputs of one model ``(p,)`` for rows of a table, ``(n, outputs)``."""
        return self.logits(w[None], table.inputs(rows)[None], table.s[rows][None])[0]

    def vjp(self, w: Tensor, x: Tensor, s: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Compute the logits, and the map from d(loss)/d(logits) to d(loss)/d(w), ``(rows, p)``."""

    def gradient(self, w: Tensor, x: Tensor, s: Tensor, slope: Slope) -> Tensor:
        """Compute d(loss)/d(w), ``(rows, p)``, where `slope` maps logits to d(loss)/d(logits).

        The logits may be overwritten as soon as it is computed.
        """
        logits, pullback = self.vjp(w, x, s)
        return pullback(slope(logits))

    def descend(
        self,
        w: Tensor,
        people: Sequence[tuple[Tensor, Tensor, Slope]],
        step: Step,
        gamma: float = 0.0,
        centre: Tensor | None = None,
    ) -> None:
        """Step down in place, once for each of `people`: their x, their s, and the slope.

        With `gamma` on the objective + gamma/2 |w - centre|^2.
        """
        for x, s, slope in people:
            grad = self.gradient(w, x, s, slope)
            if centre is not None:
                grad.add_(w - centre, alpha=gamma)
            step(w, grad)

    def descend_rows(
        self, w: Tensor, rows: Rows, step: Step, gamma: float = 0.0, centre: Tensor | None = None
    ) -> bool:
        """The same on every step's rows, read where they are. False: it cannot; nothing is done."""
        return False

    def settle(self, w: Tensor, batches: Callable[[], Iterable[Tensor]]) -> Tensor:
        """Return the models with what they measure of their own people, once they are trained.

        Every call of `batches` goes once over the inputs of these people, each ``(rows, n, ...)``.
        """
        return w

    def like(self, outputs: int) -> Network:
        """Return a network of the same form with other outputs, to guess S where it is not told."""
        raise InputError(f"{self.words} cannot guess S, which this needs: take linear or an MLP.")

    def design(self, x: Tensor, s: Tensor) -> Tensor:
        """Return what the logits are linear in, ``(rows, n, q)``; the last of it is the constant 1.

        A model's row then has the coefficients output by output, all without the constant's, then
        the constant's of every output, the intercepts.
        """
        raise InputError(
            f"{self.words} is not linear in its parameters: take {option('model', 'linear')} or "
            "additive."
        )

    def to_dict(self) -> dict[str, Any]:
        """Describe the network for `from_dict`, as JSON can hold it."""

    def buffers(self) -> dict[str, Tensor]:
        """Numbers that belong to the network and are not trained."""
        return {}
