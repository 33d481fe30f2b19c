"""The objective of a client: its loss, or its loss and a fairness penalty."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import signature

import torch
from torch import Tensor
from torch.nn.functional import one_hot, softplus

from pfedfair._util.errors import InputError, known
from pfedfair.data.task import Task
from pfedfair.federation import Batch
from pfedfair.metrics.criteria import CRITERIA
from pfedfair.penalties import CLASSES, GROUPS, PENALTIES, SLOPES


def losses(logits: Tensor, batch: Batch) -> Tensor:
    """Return the cross-entropy of every sample, ``(rows, n)``."""
    if logits.shape[-1] > 1:
        right = torch.take_along_dim(logits, batch.y.long().unsqueeze(-1), -1)[..., 0]
        return logits.logsumexp(-1) - right
    z = logits[..., 0]
    return softplus(z) - batch.y * z


def loss(logits: Tensor, batch: Batch) -> Tensor:
    """Return the mean cross-entropy of every row, ``(rows,)``."""
    return (batch.weight * losses(logits, batch)).sum(1)


def loss_slope(logits: Tensor, batch: Batch) -> Tensor:
    """Return d(loss)/d(logits), of the logits' shape."""
    if logits.shape[-1] > 1:
        off = logits.softmax(-1) - one_hot(batch.y.long(), logits.shape[-1])
        return batch.weight.unsqueeze(-1) * off
    return (batch.weight * (torch.sigmoid(logits[..., 0]) - batch.y)).unsqueeze(-1)


def slope_of(value: Callable[[Tensor], Tensor], logits: Tensor) -> Tensor:
    """Return d(value)/d(logits) by autograd, of the logits' shape; `value` returns ``(rows,)``."""
    with torch.enable_grad():
        leaf = logits.detach().requires_grad_()
        (slope,) = torch.autograd.grad(value(leaf).sum(), leaf)
    return slope


@dataclass(frozen=True)
class Objective:
    """The fair loss L_fair; with eta = 0 it is cross-entropy.

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
    criterion
        What must not depend on S: "dp", the decision (demographic parity); "eo", the decision among
        samples of equal label (equalised odds); "eopp", the decision among those with the last
        label (equal opportunity). The penalty is then taken among these samples only, and averaged
        over the labels for "eo".
    """

    eta: float = 0.0
    penalty: str = "kde"
    mix: str = "convex"
    penalty_options: tuple[tuple[str, float], ...] = ()
    criterion: str = "dp"

    def __post_init__(self) -> None:
        known("penalty", self.penalty, list(PENALTIES))
        known("mix", self.mix, ["convex", "additive"])
        known("criterion", self.criterion, list(CRITERIA))
        for name, value in self.penalty_options:
            options = list(signature(PENALTIES[self.penalty]).parameters)[4:]
            known(f"option of {self.penalty}", name, options)
            if not value > 0:
                raise InputError(
                    f"{name} of {self.penalty} must be a number above 0, got {value:g}."
                )
        if self.mix == "convex" and not 0 <= self.eta < 1:
            raise InputError(f"eta must be in [0, 1), got {self.eta:g}.")
        if not 0 <= self.eta < float("inf"):
            raise InputError(f"eta must be a number >= 0, got {self.eta:g}.")

    def check(self, task: Task) -> None:
        """Refuse a penalty that does not support the task's groups or classes."""
        if self.eta == 0:
            return
        limits = (task.groups, "groups", GROUPS), (task.classes, "classes", CLASSES)
        for number, what, able in limits:
            if number > 2 and self.penalty not in able:
                raise InputError(
                    f"The penalty {self.penalty} is made for two {what}, the data has {number}: "
                    f"choose one of {', '.join(able)}."
                )

    @property
    def loss_weight(self) -> float:
        return 1 - self.eta if self.mix == "convex" else 1.0

    def value(self, logits: Tensor, batch: Batch) -> Tensor:
        """Return the objective of every row, ``(rows,)``."""
        if self.eta == 0:
            return loss(logits, batch)
        return self.loss_weight * loss(logits, batch) + self.eta * self._penalty(logits, batch)

    def slope(self, logits: Tensor, batch: Batch) -> Tensor:
        """Return d(value)/d(logits), of the logits' shape."""
        slope = loss_slope(logits, batch)
        if self.eta == 0:
            return slope
        return slope.mul_(self.loss_weight).add_(self._penalty_slope(logits, batch), alpha=self.eta)

    def _penalty_slope(self, logits: Tensor, batch: Batch) -> Tensor:
        slope, options = SLOPES.get(self.penalty), dict(self.penalty_options)
        if slope is None:
            return slope_of(lambda leaf: self._penalty(leaf, batch), logits)
        parts = []
        for weight in self._among(logits, batch):
            part = slope(logits, batch.y, batch.s, weight, **options)
            if part is None:
                return slope_of(lambda leaf: self._penalty(leaf, batch), logits)
            parts.append(part)
        return parts[0] if len(parts) == 1 else torch.stack(parts).mean(0)

    def _penalty(self, logits: Tensor, batch: Batch) -> Tensor:
        penalty, options = PENALTIES[self.penalty], dict(self.penalty_options)
        parts = [
            penalty(logits, batch.y, batch.s, weight, **options)
            for weight in self._among(logits, batch)
        ]
        return parts[0] if len(parts) == 1 else torch.stack(parts).mean(0)

    def _among(self, logits: Tensor, batch: Batch) -> Iterator[Tensor]:
        """Yield the weights of the samples that the criterion compares, for each of its labels."""
        for label in CRITERIA[self.criterion].among(max(2, logits.shape[-1])):
            weight = batch.weight
            if label is not None:
                weight = weight * (batch.y == label)
                total = weight.sum(1, keepdim=True).clamp_min(torch.finfo(weight.dtype).tiny)
                weight = weight / total
            yield weight
