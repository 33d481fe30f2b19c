"""What a client minimises: its loss, or its loss and a fairness penalty."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature

import torch
from torch import Tensor
from torch.nn.functional import softplus

from pfedfair.errors import InputError, known
from pfedfair.federation import Batch
from pfedfair.penalties import PENALTIES


def loss(logits: Tensor, batch: Batch) -> Tensor:
    """Mean cross-entropy of every row, ``(rows,)``."""
    z = logits[..., 0]
    return (batch.weight * (softplus(z) - batch.y * z)).sum(1)


def loss_slope(logits: Tensor, batch: Batch) -> Tensor:
    """d(loss)/d(logits): the one derivative that is worth writing down."""
    return (batch.weight * (torch.sigmoid(logits[..., 0]) - batch.y)).unsqueeze(-1)


@dataclass(frozen=True)
class Objective:
    """The fair loss L_fair; with eta = 0 the plain loss.

    Attributes
    ----------
    eta
        Weight of the penalty: in [0, 1) for the convex mix, any number >= 0 for the additive.
    penalty
        A name from `pfedfair.penalties.PENALTIES`.
    mix
        "convex": ``(1 - eta) loss + eta penalty``, as Cho et al. and the paper's figures have it;
        "additive": ``loss + eta penalty``, as the paper's equation has it.
    penalty_options
        Options of the penalty by name, e.g. ``(("bandwidth", 0.2),)`` for KDE.
    """

    eta: float = 0.0
    penalty: str = "kde"
    mix: str = "convex"
    penalty_options: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        known("penalty", self.penalty, list(PENALTIES))
        known("mix", self.mix, ["convex", "additive"])
        for name, _ in self.penalty_options:
            options = list(signature(PENALTIES[self.penalty]).parameters)[4:]
            known(f"option of {self.penalty}", name, options)
        if self.mix == "convex" and not 0 <= self.eta < 1:
            raise InputError(f"eta must be in [0, 1), got {self.eta:g}.")
        if not 0 <= self.eta < float("inf"):
            raise InputError(f"eta must be a number >= 0, got {self.eta:g}.")

    @property
    def loss_weight(self) -> float:
        return 1 - self.eta if self.mix == "convex" else 1.0

    def value(self, logits: Tensor, batch: Batch) -> Tensor:
        """The objective of every row, ``(rows,)``."""
        if self.eta == 0:
            return loss(logits, batch)
        return self.loss_weight * loss(logits, batch) + self.eta * self._penalty(logits, batch)

    def slope(self, logits: Tensor, batch: Batch) -> Tensor:
        """d(value)/d(logits), ``(rows, n, 1)``."""
        slope = loss_slope(logits, batch)
        if self.eta == 0:
            return slope
        with torch.enable_grad():
            leaf = logits.detach().requires_grad_()
            (penalty_slope,) = torch.autograd.grad(self._penalty(leaf, batch).sum(), leaf)
        return slope.mul_(self.loss_weight).add_(penalty_slope, alpha=self.eta)

    def _penalty(self, logits: Tensor, batch: Batch) -> Tensor:
        options = dict(self.penalty_options)
        return PENALTIES[self.penalty](logits, batch.y, batch.s, batch.weight, **options)
