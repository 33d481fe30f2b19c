"""Pearson correlation between score and S, absolute (Zafar et al. 2017; Beutel et al. 2019)."""

import torch
from torch import Tensor


def pearson(logits: Tensor, y: Tensor, s: Tensor, weight: Tensor) -> Tensor:
    """Return ``|corr(score, S)|`` of every row, ``(rows,)``; 0 where one of them is constant."""
    score, group = torch.sigmoid(logits[..., 0]), s.to(logits.dtype)
    a = score - (weight * score).sum(1, keepdim=True)
    b = group - (weight * group).sum(1, keepdim=True)
    variances = (weight * a**2).sum(1) * (weight * b**2).sum(1)
    defined = variances > torch.finfo(logits.dtype).tiny
    scale = torch.where(defined, variances, torch.ones_like(variances)).sqrt()
    correlation = (weight * a * b).sum(1) / scale
    return torch.where(defined, correlation.abs(), torch.zeros_like(correlation))
