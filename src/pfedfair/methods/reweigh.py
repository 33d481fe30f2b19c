r"""Reweighing: Kamiran and Calders, "Data preprocessing techniques for classification without
discrimination", Knowledge and Information Systems 2012.

Rows are weighted as if label and S were independent. Of the n rows of a client,

.. math::
    \min_w \frac1n \sum_j \frac{P(y_j) \, P(s_j)}{P(y_j, s_j)} \, \ell(w; x_j, y_j) ,

with shares P among the client's own rows. The weights are never above 1 / P(y, s) times the
smaller of the two shares; a cell of label and group without rows has no weight.

It does not limit a gap: it changes the training distribution, without a guarantee for decisions.

Differs from the paper: nothing but that weights enter a network's loss by minibatches.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from pfedfair.federation import Batch
from pfedfair.methods.base import ANY_TASK, Clients, Dial
from pfedfair.methods.checks import no_eta
from pfedfair.methods.local import Gradient, Local
from pfedfair.penalties.objective import Objective


@dataclass(frozen=True, kw_only=True)
class Reweigh(Local):
    """Local training on rows with weights P(y) P(s) / P(y, s)."""

    supports = ANY_TASK
    place = "centralised"
    dial = Dial(
        setting="",
        hint="train longer or raise alpha",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        no_eta(self)

    def gradients(self, clients: Clients) -> Gradient:
        rates = weights(clients.cells())

        def gradient(theta: Tensor, batch: Batch) -> Tensor:
            weight = batch.weight * look_up(rates, batch)
            return clients.gradient(Objective(), theta, batch._replace(weight=weight))

        return gradient


def weights(cells: Tensor) -> Tensor:
    """Return P(y) P(s) / P(y, s) for every label and group, from counts; 0 where there are no rows.

    >>> weights(torch.tensor([[[30.0, 10.0], [10.0, 50.0]]]))
    tensor([[[0.5333, 2.4000],
             [2.4000, 0.7200]]])
    """
    expected = cells.sum(2, keepdim=True) * cells.sum(1, keepdim=True)
    total = cells.sum((1, 2), keepdim=True)
    return torch.where(cells > 0, expected / (total * cells).clamp(min=1.0), 0.0)


def look_up(values: Tensor, batch: Batch) -> Tensor:
    """Look up every row's number in a table ``(clients, classes, groups)``, ``(clients, n)``."""
    cell = batch.y.long() * values.shape[2] + batch.s
    return values.flatten(1).gather(1, cell)
