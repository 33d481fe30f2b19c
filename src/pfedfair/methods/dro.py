r"""DRO: Levy, Carmon, Duchi and Sidford, "Large-Scale Methods for Distributionally Robust
Optimization", NeurIPS 2020.

The loss under the worst weights q of a minibatch's n rows, among weights that are not far from
p = 1/n,

.. math:: \min_w \max_{q \in Q} \sum_j q_j \, \ell(w; x_j, y_j), \qquad \sum_j q_j = 1, \; q \ge 0

"cvar": :math:`q_j \le p_j / \alpha`, so the mean loss of the worst share :math:`\alpha`;

"chi2": :math:`\frac12 \sum_j p_j (q_j / p_j - 1)^2 \le \rho`.

The share alpha is the setting `tail` here (alpha is the step size), and the radius follows from it,
:math:`\rho = (1 / \alpha - 1) / 2`: the least one that has the worst share's even weights in it. So
"chi2" is never below "cvar" of the same tail, and tail = 1 is the mean for both.

The gradient is that of the loss with the worst q. Both q are exact. CVaR: rows above the quantile
have weight p / alpha, those on it share the rest. Chi-square: q is p times the excess of the loss
over a level, and the level solves a quadratic equation among the rows above it. Where all losses
are equal q is p, so training from zero makes progress.

S is never used: the method does not aim at fairness between groups, but protects rows with large
losses.

Differs from the paper: only the paper's minibatch estimator (biased by the size of a
minibatch), without its multi-level estimator or its penalised variants. Its code finds the level by
bisection, and makes no progress where all losses are equal.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from pfedfair._util.errors import InputError, known
from pfedfair.federation import Batch
from pfedfair.methods.base import ANY_TASK, Clients, Dial
from pfedfair.methods.checks import no_eta
from pfedfair.methods.local import Gradient, Local
from pfedfair.penalties.objective import loss_slope, losses


@dataclass(frozen=True, kw_only=True)
class DRO(Local):
    """Local training on the worst weights of each minibatch.

    Attributes
    ----------
    risk
        "cvar" or "chi2".
    tail
        The worst share of rows; 1 is all rows. For "chi2" it means a radius of
        (1 / tail - 1) / 2.
    """

    risk: str = "cvar"
    tail: float = 0.5

    supports = ANY_TASK
    place = "centralised"
    dial = Dial(
        setting="tail",
        levels=({"tail": 1.0}, {"tail": 0.7}, {"tail": 0.5}, {"tail": 0.3}, {"tail": 0.1}),
        hint="train longer, raise tail or alpha",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        no_eta(self)
        known("risk", self.risk, list(RISKS))
        if not 0 < self.tail <= 1:
            raise InputError(f"tail must be above 0 and at most 1, got {self.tail:g}.")

    def gradients(self, clients: Clients) -> Gradient:
        worst = RISKS[self.risk]

        def gradient(theta: Tensor, batch: Batch) -> Tensor:
            def slope(logits: Tensor) -> Tensor:
                q = worst(losses(logits, batch), batch.weight, self.tail)
                return loss_slope(logits, batch._replace(weight=q))

            return clients.network.gradient(theta, batch.x, batch.s, slope)

        return gradient


def cvar(loss: Tensor, weight: Tensor, tail: float) -> Tensor:
    """Return the worst weights of CVaR, ``(rows, n)``.

    >>> cvar(torch.tensor([[1.0, 4.0, 2.0, 3.0]]), torch.full((1, 4), 0.25), 0.375)
    tensor([[0.0000, 0.6667, 0.0000, 0.3333]])
    """
    loss, p = loss.double(), _normalise(weight)
    ordered, mass = _sort(loss, p)
    enough = (mass.cumsum(1) >= tail * (1 - 1e-9)).to(torch.uint8).argmax(1, keepdim=True)
    level = ordered.gather(1, enough)
    above, at = p * (loss > level), p * (loss == level)
    rest = (tail - above.sum(1, keepdim=True)).clamp(min=0)
    return _normalise(above + rest * _normalise(at)).to(weight)


def chi2(loss: Tensor, weight: Tensor, tail: float) -> Tensor:
    """Return the worst weights in a chi-square ball, ``(rows, n)``."""
    if tail == 1:
        return _normalise(weight).to(weight)
    loss, p = loss.double(), _normalise(weight)
    ordered, mass = _sort(loss, p)
    # Moments of the k largest losses, as differences from the largest.
    below = ordered - ordered[:, :1]
    m0, m1, m2 = mass.cumsum(1), (mass * below).cumsum(1), (mass * below**2).cumsum(1)
    # With the level at a row's loss, 1 + 2 chi-square of q is second / first^2. It grows with
    # the level: where it is too much the level must be lower, and the row is above it.
    first, second = m1 - below * m0, m2 - 2 * below * m1 + below**2 * m0
    inside = ((second * tail > first**2) | (below == 0)) & (mass > 0)
    last = (inside.sum(1, keepdim=True) - 1).clamp(min=0)
    m0, m1, m2 = (_divisor(m0.gather(1, last)), m1.gather(1, last), m2.gather(1, last))
    mean = m1 / m0
    spread = m2 / m0 - mean**2
    level = mean - (spread.clamp(min=0) / _divisor(m0 / tail - 1)).sqrt()
    excess = (loss - ordered[:, :1] - level).clamp(min=0)
    alike = spread <= 1e-12 * m2 / m0  # only the largest loss counts, or several equal ones
    excess = torch.where(alike, (loss == ordered[:, :1]).double(), excess)
    return _normalise(p * excess).to(weight)


RISKS: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {"cvar": cvar, "chi2": chi2}


def _sort(loss: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """Sort losses and weights of rows, the largest loss first and padding last."""
    loss = loss.masked_fill(p == 0, -1.0)  # below every loss
    order = torch.sort(loss, dim=1, descending=True, stable=True).indices
    return loss.gather(1, order), p.gather(1, order)


def _normalise(weight: Tensor) -> Tensor:
    """Scale weights to a sum of 1 in every row, or 0 where all are 0."""
    return weight.double() / _divisor(weight.double().sum(1, keepdim=True))


def _divisor(number: Tensor) -> Tensor:
    return number.clamp(min=torch.finfo(number.dtype).tiny)
