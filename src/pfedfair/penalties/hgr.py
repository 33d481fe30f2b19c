r"""Hirschfeld-Gebelein-Renyi maximal correlation of score and S.

HGR is the largest correlation that any functions of the two can have: the second singular value of
:math:`p(u, s) / \sqrt{p(u) p(s)}` (Witsenhausen 1975). For training, Mary, Calauzenes and El Karoui
("Fairness-aware learning for continuous attributes and treatments", ICML 2019) minimise the
chi-square of the same joint distribution, an upper bound of HGR^2, with the score's density
estimated by a Gaussian kernel. With two groups the bound is tight.
"""

import torch
from torch import Tensor

from pfedfair.penalties.joint import chi_square, members


def hgr(
    logits: Tensor, y: Tensor, s: Tensor, weight: Tensor, bandwidth: float = 0.1, points: int = 21
) -> Tensor:
    """Return the chi-square bound of HGR^2 of every row, ``(rows,)``.

    A kernel of `bandwidth` smooths the score's distribution on a grid of `points` in [0, 1].
    """
    return chi_square(score_joint(logits, s, weight, bandwidth, points))


def score_joint(logits: Tensor, s: Tensor, weight: Tensor, bandwidth: float, points: int) -> Tensor:
    """Return P(S = z, score near u) on a grid of u, ``(rows, groups, points)``."""
    grid = torch.linspace(0, 1, points, dtype=logits.dtype)
    distance = (torch.sigmoid(logits) - grid) / bandwidth
    kernel = torch.softmax(-(distance**2) / 2, dim=-1)  # each sample's mass on the grid is 1
    return members(s, weight).mT @ kernel
