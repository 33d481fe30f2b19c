r"""Demographic parity by kernel density estimation.

Cho, Hwang and Suh, "A fair classifier using kernel density estimation", NeurIPS 2020. The number
of positive predictions in group z is not differentiable; with a Gaussian kernel of bandwidth h
around every score :math:`p_i` it becomes

.. math:: \hat P(\hat Y = 1 \mid z) = \frac{1}{n_z} \sum_{i \in z} \Phi\bigl((p_i - 1/2) / h\bigr)

and the penalty is :math:`\sum_z H_\delta(\hat P(1 \mid z) - \hat P(1))`, group against all, with
Huber's function H.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import huber_loss


def kde(
    logits: Tensor,
    y: Tensor,
    s: Tensor,
    weight: Tensor,
    bandwidth: float = 0.1,
    delta: float = 1.0,
    groups: int = 2,
) -> Tensor:
    """Return the penalty of every row, ``(rows,)``. A group without rows contributes 0.

    Parameters
    ----------
    logits
        ``(rows, n, 1)``.
    y, s, weight
        ``(rows, n)``; labels are not used.
    """
    score = torch.sigmoid(logits[..., 0])
    positive = torch.special.ndtr((score - 0.5) / bandwidth)
    everyone = (weight * positive).sum(1)
    total = torch.zeros_like(everyone)
    for z in range(groups):
        member = weight * (s == z)
        size = member.sum(1)
        rate = (member * positive).sum(1) / size.clamp_min(torch.finfo(size.dtype).tiny)
        gap = torch.where(size > 0, rate - everyone, torch.zeros_like(rate))
        total = total + huber_loss(gap, torch.zeros_like(gap), reduction="none", delta=delta)
    return total
