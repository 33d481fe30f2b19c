"""The joint distribution of a soft prediction and S, which several measures start from."""

from __future__ import annotations

import torch
from torch import Tensor


def members(s: Tensor, weight: Tensor, groups: int) -> Tensor:
    """Weight of each person in each group, ``(rows, n, groups)``."""
    return weight[..., None] * (s[..., None] == torch.arange(groups))


def soft_joint(logits: Tensor, s: Tensor, weight: Tensor, groups: int = 2) -> Tensor:
    """P(S = z, Yhat = y) when a person is predicted 1 with probability sigmoid(logit).

    Returns ``(rows, groups, 2)``; each row's entries add up to 1.
    """
    score = torch.sigmoid(logits[..., 0])
    member = members(s, weight, groups)
    positive = (member * score[..., None]).sum(1)
    return torch.stack([member.sum(1) - positive, positive], dim=-1)


def product(joint: Tensor) -> Tensor:
    """P(S = z) P(Yhat = y): what the joint distribution would be under independence.

    Never 0, so that a group without rows divides nothing by nothing.
    """
    outer = joint.sum(-1, keepdim=True) * joint.sum(-2, keepdim=True)
    return outer.clamp_min(torch.finfo(joint.dtype).tiny)


def chi_square(joint: Tensor) -> Tensor:
    """``sum p(y, s)^2 / (p(y) p(s)) - 1`` of each row: 0 if and only if independent."""
    return (joint**2 / product(joint)).sum((-1, -2)) - joint.sum((-1, -2))
