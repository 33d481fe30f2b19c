r"""Exponential Renyi mutual information.

Lowy et al., "A stochastic optimization framework for fair risk minimization", TMLR 2022:

.. math:: \sum_{y, s} \frac{p(y, s)^2}{p(y) p(s)} - 1

on soft predictions. It bounds mutual information: ``MI <= log(1 + ERMI)``.
"""

from torch import Tensor

from pfedfair.penalties.joint import chi_square, soft_joint


def ermi(logits: Tensor, y: Tensor, s: Tensor, weight: Tensor) -> Tensor:
    """Return ERMI of every row's soft predictions and S, ``(rows,)``."""
    return chi_square(soft_joint(logits, s, weight))
