"""The joint distribution of a soft prediction and S, which several measures start from."""

import torch
from torch import Tensor

from pfedfair.models.cells import probabilities


def members(s: Tensor, weight: Tensor) -> Tensor:
    """Return the weight of each sample in each group, ``(rows, n, groups)``.

    Groups after the last one that occurs are left out: without samples they change nothing.
    """
    groups = torch.arange(max(2, int(s.max()) + 1))
    return weight[..., None] * (s[..., None] == groups)


def soft_joint(logits: Tensor, s: Tensor, weight: Tensor) -> Tensor:
    """Return P(S = z, Yhat = y), where the probability of Yhat is the model's.

    It is ``(rows, groups, classes)``; each row's entries add up to 1.
    """
    return members(s, weight).mT @ probabilities(logits)


def product(joint: Tensor) -> Tensor:
    """Return P(S = z) P(Yhat = y), the joint distribution under independence.

    It is never 0, so that a group without samples does not lead to 0 / 0.
    """
    outer = joint.sum(-1, keepdim=True) * joint.sum(-2, keepdim=True)
    return outer.clamp_min(torch.finfo(joint.dtype).tiny)


def chi_square(joint: Tensor) -> Tensor:
    """Return ``sum p(y, s)^2 / (p(y) p(s)) - 1`` of each row: 0 if and only if independent."""
    return (joint**2 / product(joint)).sum((-1, -2)) - joint.sum((-1, -2))
