"""Dependence measures between a prediction and S: one file each, one signature.

A penalty maps logits ``(rows, n, 1)``, labels, groups and weights ``(rows, n)`` to one number per
row. It is a differentiable function; its slope comes from autograd, or is written out for those in
`SLOPES`. Those in `CLASSES` take logits of more than two classes too, those in `GROUPS` more than
two groups.
"""

from collections.abc import Callable

from torch import Tensor

from pfedfair.penalties.ermi import ermi
from pfedfair.penalties.hgr import hgr
from pfedfair.penalties.kde import kde, kde_slope
from pfedfair.penalties.mutual_information import adversarial_mutual_information, mutual_information
from pfedfair.penalties.pearson import pearson

__all__ = ["CLASSES", "GROUPS", "PENALTIES", "SLOPES", "Penalty", "kde"]

Penalty = Callable[..., Tensor]  # (logits, y, s, weight, **options) to (rows,)

PENALTIES: dict[str, Penalty] = {
    "kde": kde,
    "mi": mutual_information,
    "mi-adversarial": adversarial_mutual_information,
    "pearson": pearson,
    "hgr": hgr,
    "ermi": ermi,
}
# d(penalty)/d(logits) with the same arguments, or None where autograd has to do it.
SLOPES: dict[str, Callable[..., Tensor | None]] = {"kde": kde_slope}
CLASSES = ("kde", "mi", "ermi")
GROUPS = ("kde", "mi", "hgr", "ermi")
