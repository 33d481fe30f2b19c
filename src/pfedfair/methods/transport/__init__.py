r"""Transport: one model for all, and one number for each client's fairness. Our own method.

If clients share P(Y | X, S), the most accurate rule of client i with a DDP of at most epsilon is
(Proposition 2, `pfedfair.theory.rule`)

.. math:: \hat y = 1 \iff \eta(x, s) > \tfrac12 + \tfrac{t_i}{2} \, \tfrac{2 s - 1}{\pi_{i, s}}

with the smallest :math:`|t_i|` that keeps the limit. Everything but :math:`t_i` and the client's
shares :math:`\pi_i` of S is common to all clients:

1. A federated method, FedAvg by default, trains a model on most of every client's rows; the rest
   is held. From here on nothing is asked of the model but scores.
2. In one round each client scores its rows and sends counts: how many of its held people of each
   group and label (in two halves), and how many of its other people of each group, have a score in
   each of `bins` bins. The server adds them up.
3. From the held people the server calibrates the scores by group, eta in each bin
   (`pfedfair.theory.calibration`), and finds out how far the scores of people that the model was
   trained on are like those of others: what one of them counts for, between 0 and 1.
4. In `agree` short rounds the clients find out how they differ: each sends what its counts tell of
   where and how wide its groups' scores are (`pfedfair.theory.effects`; two classes, S an input),
   and how likely it holds each degree of likeness kappa beyond that (`pfedfair.theory.shrinkage`).
5. Each client moves the groups' distributions of scores as far as that tells, mixes them with its
   own, as far as the two agree, and solves for its :math:`t_i`: two thresholds.

Nothing but what the base sends, counts and these 81 numbers leaves a client; of the latter two sums
are all that is needed (secure aggregation will do). Another limit, or a new client, costs step 5
alone: no training, no message. Within the bin where a threshold falls decisions are drawn by lot,
so that ties and coarse scores do no harm; ``ties="deterministic"`` sets it inside the bin.

More groups, more classes, other criteria than demographic parity, and S that is not known when
decisions are made, need no other idea: step 5 is a linear program then
(`pfedfair.theory.program`). For more than two classes people are counted in cells of all their
scores. If S is not an input, a second network, trained beside the first, guesses it, and people are
counted in cells of both networks' scores; the decision is by cell (`pfedfair.rules.Lookup`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from pfedfair._util import seeds
from pfedfair._util.errors import InputError, known
from pfedfair.data.task import Task, outputs
from pfedfair.methods import checks
from pfedfair.methods.base import Answer, Clients, State
from pfedfair.methods.based import Based
from pfedfair.methods.transport import counts
from pfedfair.methods.transport.counts import (
    aside,
    cells_for,
    count,
    known_to_all,
    learn,
    likeness,
    noisy,
)
from pfedfair.methods.transport.solver import Facts, Solver
from pfedfair.models import Both, Network
from pfedfair.rules import Lookup, Rule, Thresholds
from pfedfair.theory.belief import Belief

OWN, POOL = 0.0, 1e9  # kappa: a client's own people only, or the pooled ones


@dataclass(frozen=True, kw_only=True)
class Transport(Based):
    """A base method, then a round in which clients send counts of scores, then `agree` rounds.

    Attributes
    ----------
    target_ddp
        The largest gap between groups that a client's decisions may have, by `criterion`.
    confidence
        Without it the limit is kept by the best guess of a client's gap; with 0.95, say, by 95 % of
        what its gap may be, given how few rows the guess comes from; by lot where it must be.
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
        coins by which rows are held: in one process they are drawn from the run's seed, at a site
        from its own secret. It sends nothing in the `agree` rounds then. None: no noise.
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

    server_keys = counts.ServerState
    message_keys = counts.MessageState
    own_keys = counts.OwnState
    free = ("target_ddp", "criterion", "confidence", "kappa", "ties")  # counts stay as they are
    levels = tuple({"target_ddp": target} for target in (0.1, 0.05, 0.02, 0.0))
    collapse = "its rows do not allow more for this target and confidence, or the scores do not"
    model = "additive"

    def __post_init__(self) -> None:
        checks.at_least(0, self, "agree")
        super().__post_init__()
        known("ties", self.ties, ["random", "deterministic"])
        checks.target(self)
        checks.at_least(10, self, "bins")
        if self.kappa is not None and not self.kappa >= 0:
            raise InputError(f"kappa must be a number >= 0 or infinity, got {self.kappa:g}.")
        if self.epsilon is not None:
            checks.above_zero(self, "epsilon")
            if not self.trainer.sends_models_only:
                raise InputError(
                    "With epsilon the base of transport must send its model alone: say base=fedavg."
                )

    @property
    def closing(self) -> int:
        return 1 + self.agree

    @property
    def secret(self) -> bool:
        return self.epsilon is not None

    def rule_work(self, task: Task) -> float:
        sure = 20.0 if self.confidence else 1.0  # draws of what the gap may be
        return sure if task.binary else 50.0 * sure  # a linear program

    def noise(self, t: int) -> float:
        counting = t == self.rounds - self.closing
        return self.epsilon if counting and self.epsilon is not None else 0.0

    @property
    def privacy(self) -> float | None:
        return self.epsilon

    @property
    def level(self) -> str:
        marks = {None: "", OWN: " own", POOL: " pool"}
        sure = f" {self.confidence:.0%}" if self.confidence else ""
        return f"≤ {self.target_ddp:g}{marks.get(self.kappa, ' kappa')}{sure}"

    def check(self, task: Task) -> None:
        super().check(task)
        if task.aware:
            return
        if not self.trainer.wrappable:
            raise InputError(
                f"{type(self.trainer).__name__} makes its own gradients: it cannot be the base of "
                "transport where S is not an input."
            )
        aware = replace(task, aware=True)  # the server tells the two apart by their cells
        if cells_for(self.bins, task).number == cells_for(self.bins, aware).number:
            raise InputError(f"With {task.classes} classes take another number of bins.")

    def network(self, default: Network, task: Task) -> Network:
        scorer = super().network(default, task)
        return scorer if task.aware else Both(scorer, scorer.like(outputs(task.groups)))

    def parts(self, clients: Clients) -> tuple[Clients, Clients]:
        """The clients with the rows that they train on, and with those that are held."""

        def make() -> tuple[Clients, Clients]:
            trained, held = aside(clients, self.held, self.secret)
            return trained if clients.table.task.aware else counts.headed(trained), held

        return clients.once(("parts", self.held, self.secret), make)

    def scorers(self, server: State, clients: Clients) -> Tensor:
        trained, _ = self.parts(clients)  # held people are new to a scorer
        return self.trainer.scorers(server, trained)

    def personalise(self, server: State, own: State, clients: Clients) -> Tensor:
        return self.scorers(server, clients)

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        if t >= self.rounds - self.agree:  # step 4
            return likeness(self.beliefs(server, own, clients), silent=self.secret), own
        trained, held = self.parts(clients)
        if t == self.rounds - self.closing:  # step 2
            cells = cells_for(self.bins, clients.table.task)
            own = count(self.scorers(server, clients), trained, held, cells, self.secret)
            return noisy(own, clients, self.epsilon), own
        return self.trainer.client_round(server, own, trained, t)  # step 1

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        if "alike" in messages:  # step 4
            return counts.agreed(server, messages)
        if "held" in messages:  # step 3
            kept = {name: server[name].clone() for name in self.trainer.kept}
            return kept | learn(messages, self.bins)
        return self.trainer.server_round(server, messages, sizes)  # step 1

    def rules(self, server: State, own: State, clients: Clients) -> Sequence[Rule]:
        """Step 5, at every client."""
        return self.by_beliefs(self.beliefs(server, own, clients), server, clients)

    def sweep(
        self, targets: Sequence[float], server: State, own: State, clients: Clients
    ) -> Iterator[tuple[Transport, Sequence[Rule]]]:
        beliefs = self.beliefs(server, own, clients)  # whatever the target is
        for target in targets:
            method = self.change(target_ddp=target)
            yield method, method.by_beliefs(beliefs, server, clients)

    def by_beliefs(self, beliefs: Belief, server: State, clients: Clients) -> Sequence[Rule]:
        task, groups = clients.table.task, clients.table.s.numpy()
        found = []
        for i, rows in enumerate(clients.rows):
            shares = np.bincount(groups[rows], minlength=task.groups) / len(rows)
            rng = seeds.generator(clients.seed, seeds.GUARANTEE, clients.ids[i])
            found.append(self.decide(server, beliefs[i], shares, rng, task))
        return found

    def newcomer(
        self, server: State, logits: Tensor, s: Tensor, rng: np.random.Generator, task: Task
    ) -> Rule:
        cells = cells_for(self.bins, task)
        counts = np.zeros((task.groups, cells.number))
        np.add.at(counts, (s.numpy(), cells.place(logits).numpy()), 1.0)
        shares = np.bincount(s, minlength=task.groups) / len(s)
        pool = server | {"counts": server["counts"].clamp(min=0)}  # noise may go below 0
        return self.solve(pool, counts, shares, rng, task)

    def beliefs(self, server: State, own: State, clients: Clients) -> Belief:
        """What every client knows of its scores: by its people, and everybody else's."""
        if "held" not in own:
            cells = cells_for(self.bins, clients.table.task)
            parts = self.scorers(server, clients), *self.parts(clients)
            own = count(*parts, cells, self.secret)
        sent = noisy(own, clients, self.epsilon) if self.secret else own
        return counts.beliefs(server, own, sent, self.kappa)

    def solve(
        self,
        server: State,
        counts: np.ndarray,
        shares: np.ndarray,
        rng: np.random.Generator,
        task: Task,
    ) -> Rule:
        """Step 5 for a client whose people the model was not trained on.

        Parameters
        ----------
        counts
            Its people by group and cell, ``(groups, cells)``; the server's are the others'.
        shares
            Its shares of the groups, ``(groups,)``.
        """
        shared = known_to_all(server, self.kappa)
        belief = Belief(counts=counts, pooled=server["counts"].numpy(), **shared)
        return self.decide(server, belief, shares, rng, task)

    def decide(
        self,
        server: State,
        belief: Belief,
        shares: np.ndarray,
        rng: np.random.Generator,
        task: Task,
    ) -> Rule:
        """Step 5: a client's rule, see `Solver`."""
        solver = Solver(**{field.name: getattr(self, field.name) for field in fields(Solver)})
        told = {name: tensor.numpy() for name, tensor in server.items() if name != "w"}
        found = solver.solve(told, belief, shares, rng, task)
        numbers = torch.from_numpy(found.numbers).to(server["w"])
        rule: Rule
        if task.aware and task.classes == 2:
            rule = Thresholds(numbers.view(task.groups, 4))
        else:
            rule = Lookup(numbers, cells_for(self.bins, task).settings)
        rule.facts = Facts(found)
        return rule
