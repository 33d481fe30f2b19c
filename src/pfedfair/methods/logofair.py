r"""LoGoFair (Zhang, Chen, Han, Zhong and Zheng, AAAI 2025): thresholds, fair locally and globally.

FedAvg trains eta(x, a) = P(Y=1 | x, a). Then the most accurate decisions h under two limits,

.. math::
    |P(h=1 \mid a{=}1, c) - P(h=1 \mid a{=}0, c)| \le \delta_l \text{ at every client } c, \qquad
    |P(h=1 \mid a{=}1) - P(h=1 \mid a{=}0)| \le \delta_g,

are thresholds: at client c and group a (sign +1 for a = 1, -1 for a = 0) predict 1 iff

.. math::
    2 \eta - 1 \pm \Bigl(\frac{\lambda}{P(a)} + \frac{\mu_c}{P(a \mid c)}\Bigr) > 0,

with one number lambda of the federation and one number mu_c of each client, the minimum of the dual

.. math::
    \sum_c P(c) \Bigl\{ E_c \Bigl[2 \eta - 1 \pm \Bigl(\frac{\lambda}{P(a)}
    + \frac{\mu_c}{P(a \mid c)}\Bigr)\Bigr]_+ + \delta_l |\mu_c| \Bigr\} + \delta_g |\lambda| .

The paper solves it on two levels, and so do we: given lambda every client finds its own mu_c, which
it keeps; the gradient in lambda, by the envelope theorem, is the federation's gap, a ratio of sums
of counts. The dual is convex in one number at each level, so a client bisects, and the server asks
for the counts on a grid of lambda and takes the point where gradient and tolerance meet: one round
does, each further one narrows the grid. A client keeps the base model and a threshold for each
group, so S must be known for decisions.

Differs from the paper: it smooths the positive part by a soft-plus and takes 30 rounds of gradient
steps (its code adds up exp(1000 x), which overflows in float32, and has not converged by then). We
use only the derivative, a sigmoid in float64, in the search for lambda; a client's final mu_c is
exact, without smoothing. The code recalibrates scores at each client and post-processes on
validation rows; we trust FedAvg's scores and use the training rows, since validation rows choose
hyper-parameters here. mu_c is its mu_1 - mu_2, in units of P(c). Rows of equal score get
equal decisions: a client with few distinct scores may end with a gap below -delta_l instead of
+delta_l.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, TypedDict

import torch
from torch import Tensor
from torch.nn.functional import softshrink

from pfedfair.federation import stack
from pfedfair.methods.base import (
    Answer,
    Clients,
    Cost,
    Dial,
    Model,
    Phase,
    State,
    States,
    SummedCounts,
    copy_state,
)
from pfedfair.methods.checks import at_least, share
from pfedfair.methods.composite import Composite, CountGroups
from pfedfair.rules import Thresholds

GRID = 129  # values of lambda in one round's message; odd, so that 0 is one of them
LARGEST = 8.0  # of |lambda|: above 1 only clients' own limits can require it
SMOOTH = 0.001  # 1/beta in the paper's code, here in units of 2 eta - 1
FAR = 1e4  # an offset for "always" or "never"


class ServerState(TypedDict):
    w: Model
    group: Tensor  # rows in each group
    grid: Tensor  # values of lambda to try
    lam: Tensor  # lambda


class MessageState(TypedDict):
    positive: SummedCounts  # rows decided 1 for every lambda, (grid, 2)


@dataclass(frozen=True, kw_only=True)
class LoGoFair(Composite):
    """A base method, FedAvg as in the paper if none is given, then fair thresholds.

    Attributes
    ----------
    delta_local
        The largest difference between the groups' positive rates at a client. 1: no limit.
    delta_global
        The largest difference over all clients' rows. 1: no limit.
    dual_rounds
        Rounds of the search for lambda.
    """

    delta_local: float = 0.02
    delta_global: float = 0.02
    dual_rounds: int = 1

    dial = Dial(
        setting="delta_local",
        levels=tuple({"delta_local": delta, "delta_global": delta} for delta in (0.1, 0.03, 0.0)),
        is_target=True,
    )

    def __post_init__(self) -> None:
        at_least(1, self, "dual_rounds")
        super().__post_init__()
        share(self, "delta_local", "delta_global")

    @property
    def phases(self) -> tuple[Phase, ...]:
        return self.training_phase(), CountGroups(), Search(self)

    def cost(self) -> Cost:
        return replace(super().cost(), at_end=0.6)

    def rules(self, server: State, own: State, clients: Clients) -> list[Thresholds]:
        margins = score_margins(clients, server)
        mu = solve(margins, server["lam"], self.delta_local, smooth=0.0)
        sign = torch.tensor([-1.0, 1.0], dtype=torch.float64)
        lift = sign * (server["lam"] / margins.share + mu[:, None] / margins.own_share)
        threshold = torch.logit(((1 - lift) / 2).clamp(0, 1)).clamp(-FAR, FAR).to(server["w"])
        none = 0 * threshold
        return [Thresholds(one) for one in torch.stack([threshold, threshold, none, none], dim=2)]


@dataclass(frozen=True)
class Search(Phase):
    """The search for lambda: counts of positive decisions on a grid that each round narrows."""

    method: LoGoFair

    name = "search"
    states = States(ServerState, MessageState)
    trains = False
    decides = True

    @property
    def rounds(self) -> int:  # type: ignore[override]
        return self.method.dual_rounds

    def start_server(self, server: State, sizes: Tensor) -> State:
        return copy_state(server) | {
            "grid": first_grid(),
            "lam": torch.zeros((), dtype=torch.float64),
        }

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        positive = curve(
            score_margins(clients, server), server["grid"], self.method.delta_local, SMOOTH
        )
        return {"positive": positive}, copy_state(own)

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        after = copy_state(server)
        if server["group"].min() > 0:  # else a group has no rows, and any rule is fair
            rate = messages["positive"].sum(0) / server["group"]
            gap = rate[:, 1] - rate[:, 0]
            after["grid"], after["lam"] = narrow(server["grid"], gap, self.method.delta_global)
        return after


class Margins(NamedTuple):
    """Clients' rows, scored; not sent to the server."""

    m: Tensor  # 2 eta - 1, (clients, n)
    member: Tensor  # each row's group, (clients, 2, n); 0 for padding
    group: Tensor  # rows of each group, (clients, 2)
    both: Tensor  # whether the client has both groups; if not, no gap to limit and mu = 0
    share: Tensor  # P(a), (2,)
    own_share: Tensor  # P(a | c), (clients, 2)
    far: Tensor  # coefficient of lambda, sign / P(a)
    near: Tensor  # coefficient of mu, sign / P(a | c)


def score_margins(clients: Clients, server: State) -> Margins:
    """Score the clients' training rows by the base model."""
    batch = stack(clients.table, clients.rows)
    logits = clients.logits(clients.replicate(server["w"]), batch)[..., 0]
    member = torch.stack([(batch.weight > 0) & (batch.s == a) for a in (0, 1)], dim=1).double()
    group = member.sum(2)
    both = group.amin(1) > 0
    share = server["group"].clamp(min=1e-9) / server["group"].sum()
    own_share = torch.where(both[:, None], group / group.sum(1, keepdim=True), 1.0)
    sign = 2 * batch.s.double() - 1
    return Margins(
        m=torch.tanh(logits.double() / 2),
        member=member,
        group=group,
        both=both,
        share=share,
        own_share=own_share,
        far=sign / share[batch.s],
        near=sign / own_share.gather(1, batch.s),
    )


def decide(margins: Margins, lam: Tensor, mu: Tensor, smooth: float) -> Tensor:
    """Count positive decisions by group, ``(clients, 2)``: derivatives of the positive parts."""
    margin = margins.m + lam * margins.far + mu[:, None] * margins.near
    h = torch.sigmoid(margin / smooth) if smooth else (margin > 0).double()
    return torch.einsum("cn,can->ca", h, margins.member)


def solve(margins: Margins, lam: Tensor, delta: float, smooth: float) -> Tensor:
    """Return every client's smallest mu with a gap within delta, given lambda, ``(clients,)``."""

    def gap(mu: Tensor) -> Tensor:  # grows with mu
        rate = decide(margins, lam, mu, smooth) / margins.group
        return torch.where(margins.both, rate[:, 1] - rate[:, 0], 0.0)

    none = margins.m.new_zeros(len(margins.m))
    side = -softshrink(gap(none), delta).sign()
    if not side.any():
        return none
    low, high = none, none + 1 + lam.abs() / margins.share.min() + 40 * smooth
    for _ in range(30 if smooth else 60):
        middle = (low + high) / 2
        enough = -side * gap(side * middle) <= delta + 1e-12
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    if not smooth:  # halfway to the next row, so that rounding to float32 changes no decision
        edge = -side[:, None] * (margins.m + lam * margins.far) / margins.near
        ahead = (margins.member.sum(1) > 0) & (edge > high[:, None])
        following = torch.where(ahead, edge, torch.inf).amin(1)
        high = (high + torch.minimum(following, high + 0.01)) / 2
    return side * high


def first_grid() -> Tensor:
    """Return values of lambda, denser around 0."""
    return LARGEST * torch.linspace(-1, 1, GRID, dtype=torch.float64) ** 3


def curve(margins: Margins, grid: Tensor, delta: float, smooth: float) -> Tensor:
    """Count positive decisions in each group for every lambda, ``(clients, grid, 2)``."""
    mus = [solve(margins, lam, delta, smooth) for lam in grid]
    rows = [decide(margins, lam, mu, smooth) for lam, mu in zip(grid, mus, strict=True)]
    return torch.stack(rows, dim=1)


def narrow(grid: Tensor, gap: Tensor, delta: float) -> tuple[Tensor, Tensor]:
    """Return the next grid, and the lambda at which gap + delta sign(lambda) crosses 0."""
    slope = torch.where(grid == 0, softshrink(gap, delta), gap + delta * grid.sign())
    i = int((slope < 0).sum().clamp(1, len(grid) - 1))
    low, high = grid[i - 1], grid[i]
    part = (slope[i] / (slope[i] - slope[i - 1])).nan_to_num(0.0).clamp(0, 1)
    lam = high - part * (high - low)
    return low + (high - low) * torch.linspace(0, 1, len(grid), dtype=grid.dtype), lam
