r"""FA: Du, Xu, Wu and Tong, "Fairness-aware Agnostic Federated Learning" (AgnosticFair), SDM 2021.

The data to come may be distributed unlike the clients' rows: an adversary reweights them, smoothly
in x, and the model is trained for the worst weights, under which it must also be fair:

.. math::
    \min_w \max_\alpha E[q_\alpha(x) \, l(w; x, y)]
    \quad \text{s.t.} \quad |C(w, \alpha)| \le \tau, \qquad
    q_\alpha(x) = \sum_k \alpha_k K_k(x), \quad 0 \le \alpha_k \le B, \quad E[q_\alpha] = 1

K_k is a Gaussian at the k-th base point, and C the decision-boundary covariance (Zafar et al. 2017)
of the reweighted S and the score z (the logit):

.. math:: C(w, \alpha) = E[(q_\alpha s - E[q_\alpha s]) z]

For a given w the adversary's problem is a linear program in alpha, which the server solves from the
clients' means of K_k and K_k l. The constraint enters the loss of client i twice, as

.. math:: \nu C + \rho \, (|C_i| - \tau)_+^2

The server raises the multiplier nu while C exceeds tau (dual ascent, one multiplier for each sign).
That is a round late and would oscillate; the penalty on the client's covariance C_i damps it.

Differs from the paper and from its authors' code (as kept in yzeng58/Fairness-aware-FL; we had the
paper's abstract and this code at hand, not the full text):

- the base points there are 30 rows of the test set. No row may leave a client, so ours are drawn
  from a standard normal (the inputs are standardised), the same at every client;
- our Gaussians are divided by their sum (a partition of unity). Weights of 1 are then possible,
  where we start, and q is at most B everywhere. Distances are relative to sqrt(inputs);
- there the model pays 2 E[((q s - E[q s]) z)^2], a mean of squares, which also shrinks fair scores,
  and |C| <= tau binds the adversary's alpha. Here it binds the model, with the square of the mean
  and a multiplier, and the adversary is free within its bounds;
- there alpha jumps to the program's solution after 10 epochs; here, after every round, it moves by
  `ascent` towards it, which keeps E[q] = 1 and does not cycle;
- there training is centralised. Here a client's weights have mean 1 and the server averages models
  by the previous means (Adam would not notice a scaled loss).

With eta > 0 the penalty of `Objective` is added, on unweighted rows. What leaves a client in
addition to its model: its means of K_k, K_k l, K_k s, K_k s z, and z.
"""

from dataclasses import dataclass
from typing import TypedDict

import torch
from torch import Tensor
from torch.nn.functional import softplus

from pfedfair._util import seeds
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
    average,
)
from pfedfair.methods.checks import above_zero, at_least, share, zero_or_more
from pfedfair.models.base import with_group
from pfedfair.penalties.objective import loss_slope

BASES = 1  # the stream of the base points, apart from the network's first parameters


class ServerState(TypedDict):
    w: Model
    alpha: Tensor  # weights of the Gaussians, (bases,)
    dual: Tensor  # multipliers for C <= tau and -C <= tau, (2,)
    s: Tensor  # E[q s], which matters with multipliers only


class MessageState(TypedDict):
    w: Model
    moments: Tensor  # means of K_k times 1, loss, s and s z, (4, bases)
    score: Tensor  # mean of z


@dataclass(frozen=True, kw_only=True)
class FA(Method):
    """AgnosticFair: one global model, an adversary's row weights, a covariance constraint.

    Attributes
    ----------
    tau
        The covariance of S and score that is allowed; infinity: no constraint.
    rho
        Weight of the squared excess of every client's own covariance.
    dual_step
        Step of the multipliers in each round; 0: only the penalty.
    ascent
        The step towards the worst weights in each round, as a part; 0: no reweighting.
    bound
        The paper's B, the largest weight of a row.
    bases
        The number of Gaussians.
    width
        Their standard deviation, in units of sqrt(inputs).
    """

    tau: float = 0.01
    rho: float = 2.0
    dual_step: float = 0.3
    ascent: float = 0.1
    bound: float = 5.0
    bases: int = 30
    width: float = 0.5

    states = States(ServerState, MessageState)
    supports = Supports(blind=True)
    dial = Dial(setting="tau", levels=({"tau": 0.1}, {"tau": 0.01}, {"tau": 0.001}))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tau >= 0:
            raise InputError(f"tau must be a number >= 0 or infinity, got {self.tau:g}.")
        zero_or_more(self, "rho", "dual_step")
        share(self, "ascent")
        if not 1 <= self.bound < float("inf"):
            raise InputError(f"bound must be a number >= 1, got {self.bound:g}.")
        at_least(1, self, "bases")
        above_zero(self, "width")

    def cost(self) -> Cost:
        return Cost(self.epochs + 0.5)  # the outputs once more, and the kernels

    def start_server(self, server: State, sizes: Tensor) -> State:
        """Start without reweighting and with multipliers of 0."""
        return {
            "w": server["w"].clone(),
            "alpha": torch.ones(self.bases),
            "dual": torch.zeros(2),
            "s": torch.zeros(()),
        }

    def kernels(self, clients: Clients, batch: Batch) -> Tensor:
        """Return K_k(x), ``(clients, n, bases)``, of sum 1. x includes S if it is an input."""
        task = clients.table.task
        x = with_group(batch.x.flatten(2), batch.s, task.groups if task.aware else 0)
        d = x.shape[-1]
        rng = seeds.generator(clients.seed, seeds.INIT, BASES)
        points = torch.from_numpy(rng.standard_normal((self.bases, d))).to(x)
        # |x - b|^2 without |x|^2, which cancels in the quotient.
        distances = (points * points).sum(1) - 2 * x @ points.T
        return torch.softmax(distances / (-2 * d * self.width**2), dim=-1)

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        w = clients.replicate(server["w"])
        rows = stack(clients.table, clients.rows)
        z = clients.logits(w, rows)[..., 0]
        K = rows.weight.unsqueeze(-1) * self.kernels(clients, rows)
        features = torch.stack(
            [torch.ones_like(z), softplus(z) - rows.y * z, rows.s.to(z), rows.s * z], dim=1
        )
        moments = features @ K  # (clients, 4, bases)
        mean_q = reweight(moments[:, 0], server["alpha"]).clamp(min=1e-12)[:, None]
        mean_qs = (moments[:, 2] @ server["alpha"])[:, None]
        nu = server["dual"][0] - server["dual"][1]
        step = self.step()
        for batch in self.minibatches(clients, t):
            logits, pullback = clients.network.vjp(w, batch.x, batch.s)
            slope = self.objective.slope(logits, batch)
            q = reweight(self.kernels(clients, batch), server["alpha"])
            extra = batch._replace(weight=batch.weight * (q / mean_q - 1))
            slope.add_(loss_slope(logits, extra), alpha=self.objective.loss_weight)
            of_C = batch.weight * (q * batch.s - server["s"]) / mean_q  # its slope
            of_C_i = batch.weight * (q * batch.s - mean_qs) / mean_q
            C_i = (of_C_i * logits[..., 0]).sum(1, keepdim=True)
            excess = C_i - C_i.clamp(-self.tau, self.tau)
            slope += (nu * of_C + 2 * self.rho * excess * of_C_i).unsqueeze(-1)
            step(w, pullback(slope))
        return {"w": w, "moments": moments, "score": (rows.weight * z).sum(1)}, {}

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        # The mean of the clients' models, each with its share of the weights q it trained with.
        shares = average(torch.eye(len(sizes)), sizes, self.weighting)
        part = shares * reweight(messages["moments"][:, 0], server["alpha"])
        new = {"w": (part / part.sum()) @ messages["w"]}

        # Multipliers and alpha follow from the model with which this round began.
        mass, losses, s, sz = average(messages["moments"].flatten(1), sizes, self.weighting).view(
            4, self.bases
        )
        score = average(messages["score"], sizes, self.weighting)
        C = server["alpha"] @ sz - (server["alpha"] @ s) * score
        excess = torch.stack([C, -C]) - min(self.tau, 1e6)  # 0 times infinity is no number
        new["dual"] = (server["dual"] + self.dual_step * excess).clamp(min=0)
        new["alpha"] = server["alpha"].lerp(worst_weights(losses, mass, self.bound), self.ascent)
        new["s"] = new["alpha"] @ s
        return new


def reweight(K: Tensor, alpha: Tensor) -> Tensor:
    """Return sum_k alpha_k K_k; exactly 1 for alpha = 1, as the K_k add up to 1."""
    return 1 + K @ (alpha - 1)


def worst_weights(losses: Tensor, mass: Tensor, bound: float) -> Tensor:
    """Maximise alpha @ losses subject to alpha @ mass = 1 and 0 <= alpha <= bound.

    A linear program with one equation: fill the bases of the highest mean loss first.

    >>> worst_weights(torch.tensor([0.1, 0.4, 0.2]), torch.tensor([0.5, 0.25, 0.25]), bound=2.0)
    tensor([0., 2., 2.])
    """
    order = torch.argsort(losses / mass.clamp(min=torch.finfo(mass.dtype).tiny), descending=True)
    capacity = mass[order] * bound
    before = capacity.cumsum(0) - capacity
    alpha = torch.zeros_like(mass)
    alpha[order] = bound * ((1 - before) / capacity.clamp(min=1e-30)).clamp(0, 1)
    return alpha
