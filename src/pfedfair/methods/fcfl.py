r"""FCFL (Cui, Pan, Liang, Zhang and Wang, NeurIPS 2021): the worst client first, within limits.

"Addressing Algorithmic Disparity and Performance Inconsistency in Federated Learning". One global
model w. Client k has a loss :math:`l_k(w)` and a demographic-parity gap :math:`g_k(w)`, the
difference of the two groups' KDE-smoothed positive rates (see `pfedfair.penalties.kde`), with the
limit :math:`|g_k| \le \epsilon`. Maxima are smoothed:

.. math:: \hat l_{max} = \delta \ln \sum_k \exp(l_k / \delta),
          \qquad \max_k l_k \le \hat l_{max} \le \max_k l_k + \delta \ln m

**Stage 1, constrained min-max.** Each step follows -d, where a small linear program over the
convex hull of the gradients involved finds d. All gaps within their limits (first line), or one
above it (second):

.. math::
    \max_d\ d^\top \nabla \hat l_{max} \quad &\text{s.t.}\quad d^\top \nabla |g_k| \ge 0
        \text{ for every k close to its limit} \\
    \max_d\ d^\top \nabla \hat g_{max} \quad &\text{s.t.}\quad d^\top \nabla \hat l_{max} \ge 0,\
        d^\top \nabla |g_k| \ge 0 \text{ likewise}

**Stage 2, constrained Pareto.** From there, the mean loss, at no client's cost:

.. math:: \max_d\ d^\top \frac 1 m \sum_k \nabla l_k \quad \text{s.t.}\quad
          d^\top \nabla l_k \ge 0 \text{ for all k},\ d^\top \nabla |g_k| \ge 0 \text{ likewise}

A min-norm point of the hull meets all these conditions, so the programs are feasible, and d = 0 is
Pareto stationarity.

**What differs.** Compared with the authors' code, github.com/cuis15/FCFL: (1) It smooths the rates
by sigmoid(10 logit), takes minibatches and a linear model; here the smoothing is the KDE penalty's,
a round is one step on all rows, and any network is allowed. (2) It holds one smoothed maximum of
the gaps, and only while it is above the limit; here every client near its limit has a row of its
own. (3) Its step for an exceeded limit may never raise the smoothed loss, and stops where the two
gradients oppose each other, even above the limit; here conditions are then dropped, those on losses
first: a limit comes before a loss, in stage 2 also. (4) Gradients enter the program at the same
length, and a step is shortened where, to first order, it would carry a gap past its limit or
restore more than is needed. (5) Stage 2 starts after a fixed share of the rounds (as in the code)
and delta shrinks when d, not the loss gradient, is short: at a limit the latter never vanishes.
Clients reveal their gap and its gradient to the server: that is the method.
"""

from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import torch
from torch import Tensor

from pfedfair._util.errors import InputError
from pfedfair.federation import Batch, stack
from pfedfair.methods.base import (
    Answer,
    Clients,
    Cost,
    Dial,
    Method,
    Model,
    State,
    States,
    Supports,
    Tuning,
    average,
)
from pfedfair.methods.checks import above_zero, share

MARGIN = 0.1  # a gap within this share of its limit is close to it
OPPOSED = 0.1  # a program whose best value (of 1) is less than this finds no descent


class ServerState(TypedDict):
    w: Model
    t: Tensor  # rounds done
    delta: Tensor  # smoothing of the maxima


class MessageState(TypedDict):
    loss: Tensor
    gap: Tensor
    g_loss: Tensor  # gradients of the two, each (p,)
    g_gap: Tensor


@dataclass(frozen=True, kw_only=True)
class FCFL(Method):
    """Both stages, one step on all training rows in each round; `batch` and `epochs` are ignored.

    Attributes
    ----------
    epsilon
        The limit on every client's smoothed gap; 1 is no limit.
    pareto
        The share of the rounds that stage 2 takes, in [0, 1].
    delta, delta_min, decay
        Smoothing of the maxima: it starts with `delta` and is multiplied by `decay` whenever the
        direction is shorter than it, down to `delta_min`.
    bandwidth
        Of the kernel that smooths the rates.
    """

    rounds: int = 200
    alpha: float = 1.0
    optimiser: str = "sgd"
    epsilon: float = 0.05
    pareto: float = 0.5
    delta: float = 0.1
    delta_min: float = 0.01
    decay: float = 0.5
    bandwidth: float = 0.1

    states = States(ServerState, MessageState)
    supports = Supports(blind=True)
    dial = Dial(setting="epsilon", levels=({"epsilon": 0.1}, {"epsilon": 0.02}))
    tuning = Tuning(one_step=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimiser != "sgd":
            raise InputError("FCFL steps along a common descent direction: optimiser must be sgd.")
        if not 0 < self.epsilon <= 1:
            raise InputError(f"epsilon must be in (0, 1], got {self.epsilon:g}.")
        share(self, "pareto")
        above_zero(self, "bandwidth")
        if not 0 < self.delta_min <= self.delta < float("inf") or not 0 < self.decay <= 1:
            raise InputError("0 < delta_min <= delta and 0 < decay <= 1 must hold.")

    def cost(self) -> Cost:
        return Cost(2.0)

    def start_server(self, server: State, sizes: Tensor) -> State:
        """Return the model, the number of rounds done, and the smoothing."""
        w = server["w"].clone()
        return {"w": w, "t": torch.tensor(0), "delta": torch.tensor(self.delta)}

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        batch = stack(clients.table, clients.rows)
        w = clients.replicate(server["w"])
        logits, pullback = clients.network.vjp(w, batch.x, batch.s)
        with torch.enable_grad():
            leaf = logits.detach().requires_grad_()
            gap = parity_gap(leaf, batch, self.bandwidth)
            (gap_slope,) = torch.autograd.grad(gap.sum(), leaf)
        messages = {
            "loss": self.objective.value(logits, batch),
            "gap": gap.detach(),
            "g_loss": pullback(self.objective.slope(logits, batch)).add_(w, alpha=self.ridge),
            "g_gap": pullback(gap_slope),
        }
        return messages, {}

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        state = self.start_server(server, sizes) | server
        loss, gap, g_loss, g_gap = (messages[k] for k in ("loss", "gap", "g_loss", "g_gap"))
        size, rise = gap.abs(), gap.sign()[:, None] * g_gap  # |g_k| and its gradient
        near, exceeded = size > (1 - MARGIN) * self.epsilon, size > self.epsilon
        delta = state["delta"]
        if int(state["t"]) < round((1 - self.pareto) * self.rounds):
            goal = torch.softmax(loss / delta, 0) @ g_loss
            guarded = goal[None]
        else:
            goal, guarded = average(g_loss, sizes, self.weighting), g_loss
        if exceeded.any():
            goal = torch.softmax(size[exceeded] / delta, 0) @ rise[exceeded]
            d = restoring(goal, rise[near], guarded)
            excess = float(size.max()) - (1 - MARGIN / 2) * self.epsilon
            share = min(1.0, excess / max(self.alpha * float(d @ goal), 1e-12))
        else:
            d = descent(goal, torch.cat([guarded, rise[near]]))
            move = -self.alpha * (g_gap @ d)  # of the gaps, to first order
            slack = (self.epsilon - gap * move.sign()).clamp_min(MARGIN * self.epsilon)
            share = min(1.0, float((slack / move.abs().clamp_min(1e-12)).min()))
        if d.norm() <= delta:
            delta = (self.decay * delta).clamp_min(self.delta_min)
        w = state["w"] - self.alpha * share * d
        return {"w": w, "t": state["t"] + 1, "delta": delta.clone()}


def parity_gap(logits: Tensor, batch: Batch, bandwidth: float = 0.1) -> Tensor:
    """Return the smoothed positive rate of group 1 less that of group 0, ``(rows,)``.

    It is 0 where a group is absent.
    """
    score = torch.sigmoid(logits[..., 0])
    positive = torch.special.ndtr((score - 0.5) / bandwidth)
    rates, present = [], torch.ones_like(positive[:, 0], dtype=torch.bool)
    for z in (0, 1):
        member = batch.weight * (batch.s == z)
        size = member.sum(1)
        present = present & (size > 0)
        rates.append((member * positive).sum(1) / size.clamp_min(torch.finfo(size.dtype).tiny))
    return torch.where(present, rates[1] - rates[0], torch.zeros_like(rates[0]))


def restoring(goal: Tensor, gaps: Tensor, losses: Tensor) -> Tensor:
    """Return a descent direction for `goal`, the exceeded limits, that meets the conditions.

    If there is none with all conditions, those on losses are dropped, then those on gaps.
    """
    for keep in (torch.cat([gaps, losses]), gaps):
        d = descent(goal, keep)
        if d @ goal > OPPOSED * (goal @ goal):
            return d
    return goal.clone()


def descent(goal: Tensor, keep: Tensor) -> Tensor:
    r"""Return the best descent direction of `goal` that raises none of `keep`.

    A linear program maximises ``d @ goal`` over the convex hull of all these gradients, each scaled
    to the length of `goal`, subject to ``keep @ d >= 0``. It is `goal` itself if there is no
    conflict, and 0 if there is no descent. Should the solver fail, it is the shortest vector of the
    hull.

    Parameters
    ----------
    goal
        ``(p,)``, the gradient to descend.
    keep
        ``(m, p)``, gradients of functions that must not rise; rows of zeros are ignored.

    >>> descent(torch.tensor([1.0, 1.0]), torch.tensor([[0.0, -1.0]]))
    tensor([0.5858, 0.0000])
    """
    from scipy.optimize import linprog  # takes long to load

    rows = torch.cat([goal[None], keep]).double()
    length: Tensor = rows.norm(dim=1)
    if length[0] == 0 or not length.isfinite().all():
        return goal.clone()
    units = rows[length > 1e-12 * length[0]]
    units = units / units.norm(dim=1, keepdim=True)
    gram = (units @ units.T).numpy()
    if (gram[0] >= 0).all():  # no conflict: the program's answer is known
        return goal.clone()
    n = len(gram)
    found = linprog(
        -gram[0], A_ub=-gram[1:], b_ub=np.zeros(n - 1), A_eq=np.ones((1, n)), b_eq=np.ones(1)
    )
    share = found.x if found.status == 0 else shortest(torch.linalg.qr(units.T).R.numpy())
    d: Tensor = length[0] * (torch.from_numpy(share) @ units)
    return d.to(goal.dtype)


def shortest(columns: np.ndarray) -> np.ndarray:
    """Return the weights, at least 0 and of sum 1, of the shortest mean of the columns.

    The minimum of ``|columns @ a|^2 + (sum a - 1)^2`` over a >= 0 is a multiple of them.

    >>> shortest(np.array([[1.0, -3.0]]))
    array([0.75, 0.25])
    """
    from scipy.optimize import nnls

    height, n = columns.shape
    try:
        a = nnls(np.vstack([columns, np.ones(n)]), np.r_[np.zeros(height), 1.0])[0]
    except RuntimeError:  # too many iterations
        a = np.ones(n)
    return np.asarray(a / a.sum())
