r"""Demographic parity by kernel density estimation.

Cho, Hwang and Suh, "A fair classifier using kernel density estimation", NeurIPS 2020. The number
of positive predictions in group z is not differentiable; with a Gaussian kernel of bandwidth h
around every score :math:`p_i` it becomes

.. math:: \hat P(\hat Y = 1 \mid z) = \frac{1}{n_z} \sum_{i \in z} \Phi\bigl((p_i - 1/2) / h\bigr)

and the penalty is :math:`\sum_z H_\delta(\hat P(1 \mid z) - \hat P(1))`, group against all, with
Huber's function H. With more than two classes :math:`p_i - 1/2` is half the margin of a class over
the next, the groups' rates are those of every class, and H is added up over the classes.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import huber_loss


def kde(
    logits: Tensor, y: Tensor, s: Tensor, weight: Tensor, bandwidth: float = 0.1, delta: float = 1.0
) -> Tensor:
    """Return the penalty of every row, ``(rows,)``. A group without rows contributes 0.

    Parameters
    ----------
    logits
        ``(rows, n, 1)``, or one for each class.
    y, s, weight
        ``(rows, n)``; labels are not used.
    """
    ahead = torch.sigmoid(logits) - 0.5 if logits.shape[-1] == 1 else lead(logits.softmax(-1))
    total = torch.zeros_like(weight[:, 0])
    for positive in torch.special.ndtr(ahead / bandwidth).unbind(-1):
        overall = (weight * positive).sum(1)
        for z in range(max(2, int(s.max()) + 1)):
            member = weight * (s == z)
            size = member.sum(1)
            rate = (member * positive).sum(1) / size.clamp_min(torch.finfo(size.dtype).tiny)
            gap = torch.where(size > 0, rate - overall, torch.zeros_like(rate))
            total = total + huber_loss(gap, torch.zeros_like(gap), reduction="none", delta=delta)
    return total


def kde_slope(
    logits: Tensor, y: Tensor, s: Tensor, weight: Tensor, bandwidth: float = 0.1, delta: float = 1.0
) -> Tensor | None:
    """Return d(kde)/d(logits) of every row for two classes; None for more, left to autograd."""
    if logits.shape[-1] > 1:
        return None
    p = torch.sigmoid(logits)
    ahead = (p - 0.5).mul_(1 / (math.sqrt(2) * bandwidth))
    contrasts = contrast(s, weight).to(p)
    positive = torch.erf(ahead).add_(1)  # twice the chance
    gaps = torch.bmm(contrasts, positive).mul_(0.5).clamp_(-delta, delta)  # Huber's derivative
    per_rate = torch.bmm(gaps.mT, contrasts).mT  # d(penalty)/d(chance)
    density = ahead.square_().neg_().exp_().mul_(1 / (math.sqrt(2 * math.pi) * bandwidth))
    return density.mul_(per_rate).mul_(torch.addcmul(p, p, p, value=-1))


def contrast(s: Tensor, weight: Tensor) -> Tensor:
    """Return each sample's weight in a group's rate less the overall one, ``(rows, groups, n)``."""
    groups = torch.arange(max(2, int(s.max()) + 1)).unsqueeze(-1)
    member = weight.unsqueeze(1) * (s.unsqueeze(1) == groups)
    size = member.sum(2, keepdim=True)
    rate = member / size.clamp_min(torch.finfo(size.dtype).tiny)
    return (rate - weight.unsqueeze(1)).mul_(size > 0)


def lead(p: Tensor) -> Tensor:
    """Return half the margin of each class over the largest other one, of the shape of `p`."""
    top = p.topk(2, dim=-1).values
    return (p - torch.where(p == top[..., :1], top[..., 1:], top[..., :1])) / 2
