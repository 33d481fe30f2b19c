r"""Transport: one model for all, and one number for each client's fairness. Our own method.

If clients share P(Y | X, S), the most accurate rule of client i with a DDP of at most epsilon is
(Proposition 2, `pfedfair.theory.rule`)

.. math:: \hat y = 1 \iff \eta(x, s) > \tfrac12 + \tfrac{t_i}{2} \, \tfrac{2 s - 1}{\pi_{i, s}}

with the smallest :math:`|t_i|` that keeps the limit. Everything but :math:`t_i` and the client's
shares :math:`\pi_i` of S is common to all clients:

1. FedAvg trains a model on most of every client's rows; the rest is held.
2. In the last round each client scores its rows and sends counts: how many of its held people of
   each group and label (in two halves), and how many of its other people of each group, have a
   score in each of `bins` bins. The server adds them up. Nothing else leaves a client, and sums are
   all that is needed (secure aggregation will do).
3. From the held people the server calibrates the scores by group, eta in each bin
   (`pfedfair.theory.calibration`), and finds out how far the scores of people that the model was
   trained on are like those of others: what one of them counts for, between 0 and 1.
4. Each client mixes the groups' distributions of scores with its own, as far as the two agree
   (`pfedfair.theory.shrinkage`), and solves for its :math:`t_i`: two thresholds.

Another limit, or a new client, costs step 4 alone: no training, no message. Within the bin where a
threshold falls decisions are drawn by lot, so that ties and coarse scores do no harm; with
``ties="deterministic"`` the threshold is set inside the bin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.special import logit
from torch import Tensor

from pfedfair import seeds
from pfedfair.algorithms.base import (
    Algorithm,
    Clients,
    State,
    average,
    check_target,
    set_aside,
)
from pfedfair.errors import InputError, known
from pfedfair.networks import RULE, Network, Thresholds
from pfedfair.theory import shrinkage
from pfedfair.theory.calibration import calibrate
from pfedfair.theory.rule import aware_tilt, fair_rule

FAR = 1e30  # a logit that no score exceeds
FREE = ("target_ddp", "confidence", "kappa", "ties")
DRAWS = 400  # of shapes, for the guarantee


@dataclass(frozen=True, kw_only=True)
class Transport(Algorithm):
    """FedAvg in all rounds but the last, in which clients send counts of scores.

    Attributes
    ----------
    target_ddp
        The largest DDP that a client's decisions may have.
    confidence
        Without it the limit is kept by the best guess of a client's DDP; with 0.95, say, by 95 % of
        what its DDP may be, given how few rows the guess comes from.
    held
        The part of a client's rows that is not trained on.
    bins
        Of the score, between 0 and 1.
    kappa
        How many people's weight the pooled distribution has at a client; estimated if left out.
        0: own rows only. Infinity: the pool only.
    ties
        "random" or "deterministic", see above.
    epsilon
        Privacy: each client adds Laplace noise to its counts, which are then
        epsilon-differentially private for each of its rows, if nobody can guess the noise: here it
        is drawn from the run's seed. None: no noise. With noise take few bins, such as 20.
    """

    rounds: int = 41
    target_ddp: float = 0.05
    confidence: float | None = None
    held: float = 0.2
    bins: int = 500
    kappa: float | None = None
    ties: str = "random"
    epsilon: float | None = None

    keeps: ClassVar[bool] = True  # a client's counts, for another target

    def __post_init__(self) -> None:
        super().__post_init__()
        known("ties", self.ties, ["random", "deterministic"])
        if self.rounds < 2:
            raise InputError("Transport trains before it counts: rounds must be at least 2.")
        check_target(self.target_ddp, self.confidence, self.held)
        if self.bins < 10:
            raise InputError(f"bins must be at least 10, got {self.bins}.")
        if self.kappa is not None and not self.kappa >= 0:
            raise InputError(f"kappa must be a number >= 0 or infinity, got {self.kappa:g}.")
        if self.epsilon is not None and not 0 < self.epsilon < float("inf"):
            raise InputError(f"epsilon must be a positive number, got {self.epsilon:g}.")

    def network(self, default: Network) -> Network:
        return Thresholds(default)

    def cost(self) -> tuple[float, float]:
        return float(self.epochs), 0.1

    def start_server(self, w: Tensor, sizes: Tensor) -> State:
        empty = torch.zeros(2, self.bins, dtype=torch.float64)
        return {"w": w.clone(), "counts": empty, "eta": empty.clone(), "trust": empty[:, 0].clone()}

    def client_round(
        self, server: State, own: State, clients: Clients, t: int
    ) -> tuple[State, State]:
        trained, held = set_aside(clients, self.held)
        if t == self.rounds - 1:
            own = self.count(server, trained, held)
            return self.noisy(own, clients), own
        w = clients.replicate(server["w"])
        step = self.step()
        for batch in self.minibatches(trained, t):
            step(w, clients.gradient(self.objective, w, batch))
        return {"w": w}, {}

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        if "w" in messages:
            return self.start_server(average(messages["w"], sizes, self.weighting), sizes)
        held, trained = messages["held"].sum(0), messages["trained"].sum(0).clamp(min=0)
        people, held = held.sum((0, 2)).clamp(min=0), held.clamp(min=0)  # noise may go below 0
        centres = logit((np.arange(self.bins) + 0.5) / self.bins)
        eta = [calibrate(held[:, s].numpy(), centres)[0] for s in (0, 1)]
        trust = [shrinkage.worth(trained[s].numpy(), people[s].numpy()) for s in (0, 1)]
        new = {"w": server["w"].clone(), "eta": torch.from_numpy(np.stack(eta))}
        new["trust"] = torch.tensor(trust, dtype=torch.float64)
        return new | {"counts": people + new["trust"][:, None] * trained}

    def personalise(self, server: State, own: State, clients: Clients) -> Tensor:
        theta = clients.replicate(server["w"])
        own = own or self.count(server, *set_aside(clients, self.held))
        people, sent = (self.people(server, m) for m in (own, self.noisy(own, clients)))
        for i, rows in enumerate(clients.rows):
            others = server | {"counts": (server["counts"] - sent[i]).clamp(min=0)}
            share = float(clients.table.s[torch.from_numpy(rows)].double().mean())
            rng = seeds.generator(clients.seed, seeds.GUARANTEE, clients.ids[i])
            rule = self.solve(others, people[i].numpy(), share, rng)
            theta[i, -RULE:] = torch.from_numpy(rule).to(theta)
        return theta

    def change(self, **changes: Any) -> Transport:
        """Return the same method with another target; what counts were made with stays."""
        for name in changes:
            known("setting that can change without counting anew", name, list(FREE))
        return replace(self, **changes)

    # --- what a client does --------------------------------------------------------------------

    def count(self, server: State, trained: Clients, held: Clients) -> State:
        """Count held people by half, S, Y and bin of score, and the others by S and bin."""
        counts = {
            "held": torch.zeros(len(held), 2, 2, 2, self.bins, dtype=torch.float64),
            "trained": torch.zeros(len(held), 2, self.bins, dtype=torch.float64),
        }
        one = torch.tensor(1.0, dtype=torch.float64)
        for i, parts in enumerate(zip(held.rows, trained.rows, strict=True)):
            for name, rows in zip(("held", "trained"), map(torch.from_numpy, parts), strict=True):
                s, y = held.table.s[rows], held.table.y[rows].long()
                place = self.bins_of(held.network, server["w"], held.table.x[rows])
                half = torch.arange(len(rows)) % 2
                at = (half, s, y, place) if name == "held" else (s, place)
                counts[name][i].index_put_(at, one, accumulate=True)
        return counts

    def noisy(self, counts: State, clients: Clients) -> State:
        """The message: the counts, with noise if epsilon says so."""
        message = {name: tensor.clone() for name, tensor in counts.items()}
        if self.epsilon is None:
            return message
        for i, client in enumerate(clients.ids):
            rng = seeds.generator(clients.seed, seeds.NOISE, client)
            for tensor in message.values():
                tensor[i] += torch.from_numpy(rng.laplace(0, 1 / self.epsilon, tensor[i].shape))
        return message

    def bins_of(self, network: Network, w: Tensor, x: Tensor) -> Tensor:
        """The bins of some people's scores under the global model."""
        assert isinstance(network, Thresholds)
        z = network.network.logits(w[None, :-RULE], x[None])[0, :, 0]
        return (torch.sigmoid(z.double()) * self.bins).long().clamp(max=self.bins - 1)

    def people(self, server: State, message: State) -> Tensor:
        """How many people of each group a client has in each bin, ``(clients, 2, bins)``."""
        return message["held"].sum((1, 3)) + server["trust"][:, None] * message["trained"]

    def solve(
        self, server: State, counts: np.ndarray, share: float, rng: np.random.Generator
    ) -> np.ndarray:
        """Return a client's rule, ``(low, high, chance)`` of each group.

        Parameters
        ----------
        counts
            Its people by group and bin, ``(2, bins)``.
        share
            Its share of S = 1.
        """
        eta = server["eta"].numpy()
        if not 0 < share < 1:  # nobody to compare with
            return self.thresholds((eta > 0.5).astype(float))
        s, tilt = np.repeat([0, 1], self.bins), aware_tilt(np.repeat([0, 1], self.bins), share)
        pi = np.where(s == 1, share, 1 - share)
        pooled = server["counts"].numpy()
        shapes = np.concatenate([self.shape(counts[z], pooled[z]) for z in (0, 1)])

        def decide(limit: float) -> np.ndarray:
            return fair_rule(eta.ravel(), tilt, pi * shapes, limit).positive(eta.ravel(), tilt)

        decision = decide(self.target_ddp)
        if self.confidence is not None:
            each = [
                shrinkage.posterior_draws(counts[z], pooled[z], DRAWS, rng, self.kappa)
                for z in (0, 1)
            ]
            signed = np.concatenate([-each[0], each[1]], axis=1)
            decision = self.surely(decide, signed, float((pi * shapes) @ eta.ravel()))
        return self.thresholds(decision.reshape(2, self.bins))

    def shape(self, counts: np.ndarray, pooled: np.ndarray) -> np.ndarray:
        """A group's distribution of scores at a client: its own, as far as it may be trusted."""
        q = (pooled + 1 / self.bins) / (pooled.sum() + 1)  # one person more, in all bins a little
        n = counts.sum()
        if pooled.sum() == 0 and n > 0:  # nobody else to ask
            weight = 1.0
        elif self.kappa is None:
            weight = shrinkage.own_weight(counts, q)
        else:
            weight = float(n / (n + self.kappa)) if n + self.kappa > 0 else 0.0
        return shrinkage.posterior_mean(counts, q, weight)

    def surely(
        self, decide: Callable[[float], np.ndarray], signed: np.ndarray, rate: float
    ) -> np.ndarray:
        """Return the most accurate decision that keeps the target in enough of the drawn cases.

        `signed` turns a decision into the gap of every case. If no limit is strict enough, all get
        the same decision, the more frequent label (`rate` is that of label 1).
        """
        enough = self.confidence or 0.0

        def safe(limit: float) -> bool:
            gaps = np.abs(signed @ decide(limit))
            return bool(np.quantile(gaps, enough) <= self.target_ddp)

        if not safe(0.0):
            return np.full(2 * self.bins, float(rate > 0.5))
        low, high = 0.0, self.target_ddp
        for _ in range(12):
            middle = (low + high) / 2
            low, high = (middle, high) if safe(middle) else (low, middle)
        return decide(low)

    def thresholds(self, positive: np.ndarray) -> np.ndarray:
        """Turn chances of a positive decision, rising over the bins, into thresholds by group."""
        edges = np.clip(logit(np.linspace(0, 1, self.bins + 1)), -FAR, FAR)
        rule = np.zeros((2, 3))
        for z, chances in enumerate(positive):
            first = int((chances == 0).sum())  # bins without a positive decision come first,
            last = self.bins - int((chances == 1).sum())  # sure ones last; lots are drawn between
            low, high = edges[first], edges[last]
            chance = chances[first] if first < last else 0.0
            if self.ties == "deterministic":
                place = (last - chance * (last - first)) / self.bins
                low = high = np.clip(logit(place), -FAR, FAR)
                chance = 0.0
            rule[z] = low, high, chance
        return rule.ravel()
