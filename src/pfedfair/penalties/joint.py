"""The joint distribution of a soft prediction and S, which several measures start from."""

import torch
from torch import Tensor

from pfedfair.models.cells import probabilities


def members(s: Tensor, weight: Tensor) -> Tensor:
    """Weight of each person in each group, ``(rows, n, groups)``.

    There are as many groups as there are people of; a group that nobody is in changes nothing.
    """
    groups = torch.arange(max(2, int(s.max()) + 1))
    return weight[..., None] * (s[..., None] == groups)


def soft_joint(logits: Tensor, s: Tensor, weight: Tensor) -> Tensor:
    """P(S = z, Yhat = y) when a person is predicted y with the probability that the model says.

    Returns ``(rows, groups, classes)``; each row's entries add up to 1.
    """
    return members(s, weight).mT @ probabilities(logits)


def product(joint: Tensor) -> Tensor:
    """P(S = z) P(Yhat = y): what the joint distribution would be under independence.

    Never 0, so that a group without rows divides nothing by nothing.
    """
    outer = joint.sum(-1, keepdim=True) * joint.sum(-2, keepdim=True)
    return outer.clamp_min(torch.finfo(joint.dtype).tiny)


def chi_square(joint: Tensor) -> Tensor:
    """``sum p(y, s)^2 / (p(y) p(s)) - 1`` of each row: 0 if and only if independent."""
    return (joint**2 / product(joint)).sum((-1, -2)) - joint.sum((-1, -2))
