r"""Transport: one model for all, and one number for each client's fairness. Our own method.

If clients share P(Y | X, S), the most accurate rule of client i with a DDP of at most epsilon is
(Proposition 2, `pfedfair.theory.rule`)

.. math:: \hat y = 1 \iff \eta(x, s) > \tfrac12 + \tfrac{t_i}{2} \, \tfrac{2 s - 1}{\pi_{i, s}}

with the smallest :math:`|t_i|` that keeps the limit. Everything but :math:`t_i` and the client's
shares :math:`\pi_i` of S is common to all clients:

1. FedAvg trains a model on most of every client's rows; the rest is held.
2. In one round each client scores its rows and sends counts: how many of its held people of each
   group and label (in two halves), and how many of its other people of each group, have a score in
   each of `bins` bins. The server adds them up.
3. From the held people the server calibrates the scores by group, eta in each bin
   (`pfedfair.theory.calibration`), and finds out how far the scores of people that the model was
   trained on are like those of others: what one of them counts for, between 0 and 1.
4. In `agree` short rounds the clients find out how alike they are: 49 numbers from each, how likely
   it holds each degree of likeness kappa, given its counts (`pfedfair.theory.shrinkage`).
5. Each client mixes the groups' distributions of scores with its own, as far as the two agree, and
   solves for its :math:`t_i`: two thresholds.

Nothing but models, counts and these 49 numbers leaves a client, and sums of them are all that is
needed (secure aggregation will do). Another limit, or a new client, costs step 5 alone: no
training, no message. Within the bin where a threshold falls decisions are drawn by lot, so that
ties and coarse scores do no harm; with ``ties="deterministic"`` the threshold is set inside the
bin.

More groups, more classes, other criteria than demographic parity, and S that is not known when
decisions are made, need no other idea: step 5 is a linear program then
(`pfedfair.theory.program`). For more than two classes people are counted in cells of all their
scores. If S is not an input, a second network, trained beside the first, guesses it, and people are
counted in cells of both networks' scores; the decision is by cell (`pfedfair.networks.Lookup`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar
from zlib import crc32

import numpy as np
import torch
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
from pfedfair.algorithms.solver import Solver
from pfedfair.errors import InputError, known
from pfedfair.federation import Batch
from pfedfair.networks import MLP, Cells, Kinds, Lookup, Network, Thresholds, outputs
from pfedfair.objectives import loss_slope
from pfedfair.theory import shrinkage
from pfedfair.theory.calibration import calibrate

FREE = ("target_ddp", "criterion", "confidence", "kappa", "ties")


@dataclass(frozen=True, kw_only=True)
class Transport(Algorithm):
    """FedAvg, then a round in which clients send counts of scores, then `agree` rounds.

    Attributes
    ----------
    target_ddp
        The largest gap between groups that a client's decisions may have, by `criterion`.
    confidence
        Without it the limit is kept by the best guess of a client's gap; with 0.95, say, by 95 % of
        what its gap may be, given how few rows the guess comes from.
    held
        The part of a client's rows that is not trained on.
    bins
        Of the score, between 0 and 1; of more classes' scores, cells at the most.
    agree
        Rounds in which clients agree on how alike they are, at the end of `rounds`.
    kappa
        How many people's weight the pooled distribution has at a client; estimated if left out.
        0: own rows only. Infinity: the pool only.
    ties
        "random" or "deterministic", see above.
    epsilon
        Privacy: each client adds Laplace noise to its counts, which are then
        epsilon-differentially private for each of its rows, if nobody can guess the noise, nor the
        coins by which rows are held: here they are drawn from the run's seed. It sends nothing in
        the `agree` rounds then. None: no noise.
        With noise take few bins, such as 20.
    """

    rounds: int = 46
    target_ddp: float = 0.05
    confidence: float | None = None
    held: float = 0.2
    bins: int = 500
    agree: int = 5
    kappa: float | None = None
    ties: str = "random"
    epsilon: float | None = None

    sends_models_only = False

    @property
    def secret(self) -> bool:  # type: ignore[override]
        return self.epsilon is not None

    keeps: ClassVar[bool] = True  # a client's counts, for another target

    def __post_init__(self) -> None:
        super().__post_init__()
        known("ties", self.ties, ["random", "deterministic"])
        if self.agree < 0:
            raise InputError(f"agree must be 0 or more, got {self.agree}.")
        if self.rounds < 2 + self.agree:
            raise InputError(
                f"Transport trains before it counts: rounds must be at least {2 + self.agree}, "
                f"one to train, one to count and {self.agree} to agree; got {self.rounds}."
            )
        check_target(self.target_ddp, self.confidence, self.held)
        if self.bins < 10:
            raise InputError(f"bins must be at least 10, got {self.bins}.")
        if self.kappa is not None and not self.kappa >= 0:
            raise InputError(f"kappa must be a number >= 0 or infinity, got {self.kappa:g}.")
        if self.epsilon is not None and not 0 < self.epsilon < float("inf"):
            raise InputError(f"epsilon must be a positive number, got {self.epsilon:g}.")

    def check(self, kinds: Kinds) -> None:
        super().check(kinds)
        aware = replace(kinds, aware=True)  # the server tells the two apart by their cells
        if not kinds.aware and self.cells(kinds).number == self.cells(aware).number:
            raise InputError(f"With {kinds.classes} classes take another number of bins.")

    def network(self, default: Network, kinds: Kinds) -> Network:
        if kinds.aware and kinds.classes == 2:
            return Thresholds(default, kinds.groups)
        head = None
        if not kinds.aware:
            if not isinstance(default, MLP):
                raise InputError("Without S as an input, transport works with linear and mlp.")
            inputs, *hidden, _ = default.widths
            head = MLP(inputs, hidden, outputs(kinds.groups))
        return Lookup(default, head, self.cells(kinds), kinds.groups if kinds.aware else 1)

    def cells(self, kinds: Kinds) -> Cells:
        """Where people are counted."""
        if kinds.aware:
            return Cells(kinds.classes, self.bins)
        few, many = (5, 20) if kinds.groups == 2 else (10, 60)  # cells of the score, of the guess
        return Cells(kinds.classes, max(10, self.bins // few), kinds.groups, many)

    def cost(self) -> tuple[float, float]:
        return float(self.epochs), 0.1

    def client_round(
        self, server: State, own: State, clients: Clients, t: int
    ) -> tuple[State, State]:
        if t >= self.rounds - self.agree:
            return {"alike": self.likeness(server, own, clients)}, own
        trained, held = self.aside(clients)
        if t == self.rounds - self.agree - 1:
            own = self.count(server, trained, held)
            return self.noisy(own, clients), own
        w = clients.replicate(server["w"])
        step = self.step()
        for batch in self.minibatches(trained, t):
            logits, pullback = clients.network.vjp(w, batch.x)
            step(w, pullback(self.slope(logits, batch, clients.table.kinds)))
        return {"w": w}, {}

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        if "w" in messages:
            return {"w": average(messages["w"], sizes, self.weighting)}
        if "alike" in messages:
            votes = messages["alike"].sum(0) + torch.from_numpy(shrinkage.FLAT)
            kept = {name: tensor.clone() for name, tensor in server.items()}
            return kept | {"prior": votes / votes.sum()}
        sums = messages["held"].sum(0), messages["trained"].sum(0)
        held, trained = (tensor.clamp(min=0) for tensor in sums)  # noise may go below 0
        people = sums[0].sum((0, 2)).clamp(min=0)
        groups, classes = held.shape[1:3]
        cells = self.cells_of(groups, classes, people.shape[1])
        eta = [self.calibrated(held[:, s].numpy(), cells) for s in range(groups)]
        trust = [shrinkage.worth(trained[s].numpy(), people[s].numpy()) for s in range(groups)]
        new = {"w": server["w"].clone(), "eta": torch.from_numpy(np.stack(eta))}
        new["trust"] = torch.tensor(trust, dtype=torch.float64)
        new["prior"] = torch.from_numpy(shrinkage.FLAT.copy())
        if cells.group:
            new["guess"] = torch.from_numpy(self.guess(held.sum(2).numpy(), cells))
        # As they are: a client takes its own off, and its noise with them.
        return new | {"counts": sums[0].sum((0, 2)) + new["trust"][:, None] * sums[1]}

    def personalise(self, server: State, own: State, clients: Clients) -> Tensor:
        theta = clients.replicate(server["w"])
        groups = clients.table.kinds.groups
        people, others = self.neighbours(server, own, clients)
        for i, rows in enumerate(clients.rows):
            s = clients.table.s[torch.from_numpy(rows)]
            shares = torch.bincount(s, minlength=groups).double().numpy() / len(rows)
            rng = seeds.generator(clients.seed, seeds.GUARANTEE, clients.ids[i])
            pool = server | {"counts": others[i]}
            rule = self.solve(pool, people[i].numpy(), shares, rng, clients.table.kinds)
            theta[i, -len(rule) :] = torch.from_numpy(rule).to(theta)
        return theta

    def change(self, **changes: Any) -> Transport:
        """Return the same method with another target; what counts were made with stays."""
        for name in changes:
            known("setting that can change without counting anew", name, list(FREE))
        return replace(self, **changes)

    # --- what the server does ------------------------------------------------------------------

    def cells_of(self, groups: int, classes: int, number: int) -> Cells:
        """The cells that so many counts were made in."""
        aware = self.cells(Kinds(groups, classes))
        return aware if aware.number == number else self.cells(Kinds(groups, classes, aware=False))

    def calibrated(self, held: np.ndarray, cells: Cells) -> np.ndarray:
        """P(Y) in every cell of a group, ``(classes, cells)``, from ``(2, classes, cells)``."""
        wide = cells.number // cells.label.number  # cells of the guess of S for each of the score's
        people = held.reshape(*held.shape[:2], cells.label.number, wide).sum(-1)
        return np.repeat(calibrate(people, cells.label.centres)[0], wide, axis=1)

    def guess(self, held: np.ndarray, cells: Cells) -> np.ndarray:
        """P(S) in every cell by the head, calibrated; ``(groups, cells)`` from ``(2, ...)``.

        As it would be if the groups were of equal size.
        """
        assert cells.group is not None
        people = held.reshape(*held.shape[:2], cells.label.number, cells.group.number).sum(2)
        share = people.sum((0, 2)).clip(min=1.0)
        odds = calibrate(people, cells.group.centres)[0] / share[:, None]
        return np.tile(odds / odds.sum(0), cells.label.number)

    # --- what a client does --------------------------------------------------------------------

    def slope(self, logits: Tensor, batch: Batch, kinds: Kinds) -> Tensor:
        """The slope of the loss and, if S is not an input, of the head's, whose label is S."""
        width = outputs(kinds.classes)
        slope = self.objective.slope(logits[..., :width], batch)
        if kinds.aware:
            return slope
        of_head = loss_slope(logits[..., width:], batch._replace(y=batch.s.to(batch.y)))
        return torch.cat([slope, of_head], dim=-1)

    def aside(self, clients: Clients) -> tuple[Clients, Clients]:
        """The clients with the rows that they train on, and with those that are held.

        With `epsilon` by a coin for every row, so that no row has a say in another's place.
        """
        if self.epsilon is None:
            return set_aside(clients, self.held)
        trained, held = [], []
        for rows, client in zip(clients.rows, clients.ids, strict=True):
            rng = seeds.generator(clients.seed, seeds.HELD, client, 0)
            coin = rng.random(len(rows)) < self.held
            coin &= not coin.all()  # one or two rows are all trained on
            trained.append(rows[~coin])
            held.append(rows[coin])
        sizes = [len(rows) for rows in clients.rows]
        return replace(clients, rows=trained, sizes=sizes), replace(clients, rows=held)

    def count(self, server: State, trained: Clients, held: Clients) -> State:
        """Count held people by half, S, Y and cell of score, and the others by S and cell."""
        kinds = held.table.kinds
        groups, classes, cells = kinds.groups, kinds.classes, self.cells(kinds).number
        shapes = {"held": (2, groups, classes, cells), "trained": (groups, cells)}
        counts = {name: torch.zeros(len(held), *shape, dtype=torch.float64)
                  for name, shape in shapes.items()}  # fmt: skip
        one = torch.tensor(1.0, dtype=torch.float64)
        for i, parts in enumerate(zip(held.rows, trained.rows, strict=True)):
            for name, rows in zip(("held", "trained"), map(torch.from_numpy, parts), strict=True):
                s, y = held.table.s[rows], held.table.y[rows].long()
                place = self.place(held.network, server["w"], held.table.x[rows], kinds)
                half = torch.arange(len(rows)) % 2
                if self.epsilon is not None:  # by a coin, see `aside`
                    rng = seeds.generator(held.seed, seeds.HELD, held.ids[i], 1)
                    half = torch.from_numpy(rng.integers(0, 2, len(rows)))
                at = (half, s, y, place) if name == "held" else (s, place)
                counts[name][i].index_put_(at, one, accumulate=True)
        return counts

    def noisy(self, counts: State, clients: Clients) -> State:
        """The message: the counts, with noise if epsilon says so."""
        message = {name: tensor.clone() for name, tensor in counts.items()}
        if self.epsilon is None:
            return message
        for i, client in enumerate(clients.ids):
            whole = b"".join(tensor[i].numpy().tobytes() for tensor in counts.values())
            rng = seeds.generator(clients.seed, seeds.NOISE, client, crc32(whole))
            for tensor in message.values():  # other counts have other noise, or it would cancel
                tensor[i] += torch.from_numpy(rng.laplace(0, 1 / self.epsilon, tensor[i].shape))
        return message

    def place(self, network: Network, w: Tensor, x: Tensor, kinds: Kinds) -> Tensor:
        """The cells that some people's scores under the global model are in."""
        if isinstance(network, Thresholds):
            w, network = w[: network.network.size], network.network
        return self.cells(kinds).place(network.logits(w[None], x[None]))[0]

    def people(self, server: State, message: State) -> Tensor:
        """How many people of each group a client has in each cell, ``(clients, groups, cells)``."""
        return message["held"].sum((1, 3)) + server["trust"][:, None] * message["trained"]

    def neighbours(self, server: State, own: State, clients: Clients) -> tuple[Tensor, Tensor]:
        """Every client's people, and everybody else's."""
        own = own or self.count(server, *self.aside(clients))
        people, sent = (self.people(server, m) for m in (own, self.noisy(own, clients)))
        return people, (server["counts"] - sent).clamp(min=0)

    def likeness(self, server: State, own: State, clients: Clients) -> Tensor:
        """How likely every client holds each kappa, added up over its groups, ``(clients, 49)``."""
        people, others = (tensor.numpy() for tensor in self.neighbours(server, own, clients))
        alike = np.zeros((len(people), len(shrinkage.KAPPAS)))
        for i, z in np.argwhere((people.sum(2) > 0) & (others.sum(2) > 0)):
            if self.epsilon is None:
                q = shrinkage.spread(others[i, z])
                alike[i] += shrinkage.kappa_posterior(people[i, z], q, server["prior"].numpy())
        return torch.from_numpy(alike)

    def solve(
        self,
        server: State,
        counts: np.ndarray,
        shares: np.ndarray,
        rng: np.random.Generator,
        kinds: Kinds = Kinds(),  # noqa: B008
    ) -> np.ndarray:
        """Step 5: a client's rule, see `Solver`.

        Parameters
        ----------
        counts
            Its people by group and cell, ``(groups, cells)``.
        shares
            Its shares of the groups, ``(groups,)``.
        """
        told = {name: tensor.numpy() for name, tensor in server.items() if name != "w"}
        return self.solver.solve(told, counts, shares, rng, kinds)

    @property
    def solver(self) -> Solver:
        return Solver(**{field.name: getattr(self, field.name) for field in fields(Solver)})
