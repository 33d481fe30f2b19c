r"""Transport: one model for all, and one number for each client's fairness. Our own method.

If clients share P(Y | X, S), the most accurate rule of client i with a DDP of at most epsilon is
(Proposition 2, `pfedfair.theory.rule`)

.. math:: \hat y = 1 \iff \eta(x, s) > \tfrac12 + \tfrac{t_i}{2} \, \tfrac{2 s - 1}{\pi_{i, s}}

with the smallest :math:`|t_i|` within the limit. Everything but :math:`t_i` and the client's
shares :math:`\pi_i` of S is common to all clients. So the phases are

1. **train**: a federated method (`Composite.base`) trains a model on most of every client's rows;
   the rest is held out. From here on only the model's scores are used.
2. **count**, one round: each client scores its rows and sends counts: how many of its held-out rows
   of each group and label (in two halves), and how many of its other rows of each group, have a
   score in each of `bins` bins. From the sums over the held-out rows the server calibrates the
   scores by group, eta in each bin (`pfedfair.theory.calibration`), and estimates how far the
   scores of rows that the model was trained on are like those of others: the weight of one of
   them, between 0 and 1.
3. **agree**, a few short rounds: the clients' differences are estimated. Each sends the sufficient
   statistics of its effects on location and scale of its groups' scores (`pfedfair.theory.effects`;
   two classes, S an input), and the posterior of the similarity kappa beyond that
   (`pfedfair.theory.shrinkage`).

and the finish is

4. **rules**: each client shifts the groups' pooled distributions of scores by its estimated
   effects, mixes them with its own according to their similarity, and solves for its :math:`t_i`:
   two thresholds.

Only the base's messages, counts and these numbers (81 for two groups) leave a client; of the latter
two the server needs sums only (secure aggregation suffices). Another limit, or a new client,
requires step 4 only: no training, no message. Decisions are deterministic, except where many rows
of a group share a bin, and only as far as `max_randomised` allows.

The limit holds at a confidence level: :math:`t_i` is the smallest for which that part of the
posterior draws of the client's DDP is within the target. Where no :math:`t_i` is, the best pair of
deterministic thresholds is searched that is (`pfedfair.theory.pairs`). If that costs more than
`max_cost`, the client is too small for the target: its rule has the least affordable DDP.

For more groups, more classes, other criteria than demographic parity, and S that is not known when
decisions are made, step 4 is a linear program (`pfedfair.theory.program`). For more than two
classes rows are counted in cells of all their scores. If S is not an input, an auxiliary head,
trained along with the model, predicts it, and rows are counted in cells of both scores; the
decision is by cell (`pfedfair.rules.Lookup`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import NotRequired, TypedDict

import numpy as np
import torch
from torch import Tensor

from pfedfair._util import seeds
from pfedfair._util.errors import InputError, known
from pfedfair._util.noise import MAX_EPSILON, MIN_EPSILON
from pfedfair.data.task import Task, outputs
from pfedfair.methods import checks
from pfedfair.methods.base import (
    ANY_TASK,
    TARGETS,
    Answer,
    Clients,
    Cost,
    Dial,
    Model,
    Phase,
    State,
    States,
    Summed,
    SummedCounts,
    Supports,
    Tuning,
    copy_state,
)
from pfedfair.methods.composite import Composite
from pfedfair.methods.phases import ROUNDING
from pfedfair.methods.transport import counts as counting
from pfedfair.methods.transport.counts import cells_for
from pfedfair.methods.transport.solver import Solver
from pfedfair.models import Both, Network
from pfedfair.rules import Lookup, Rule, Thresholds
from pfedfair.theory.belief import Belief, shapes_of
from pfedfair.theory.certificates import Path, path_of

OWN, POOL = 0.0, 1e9  # kappa: a client's own rows only, or the pooled ones
PREFERENCES = ("any", "up")


@dataclass(frozen=True, kw_only=True)
class Transport(Composite):
    """A base method, then a round in which clients send counts of scores, then `agree` rounds.

    Attributes
    ----------
    target_ddp
        The largest difference between groups that a client's decisions may have, by `criterion`.
    confidence
        The part of the posterior of a client's DDP that is within the target. 0: the limit is for
        the posterior mean, so about half of the clients exceed it a little.
    jointly
        Whether all clients meet the target jointly at this confidence level, rather than each of
        them: each has 1 - (1 - confidence) / clients (Bonferroni).
    max_randomised
        The largest part of a client's rows whose decision may be a random draw. 0: none.
    max_cost
        The most accuracy that the confidence level may cost; beyond that a client is too small, and
        its rule has the least DDP by estimate at that cost. Nor may it cost more than half of what
        the scores gain over one decision for all rows, or that part of it, if it is larger.
    prefer
        "up": no group gets fewer positive decisions than without a limit; "any" is more accurate.
    held
        The part of a client's rows that is held out.
    bins
        Of the score, between 0 and 1; with more classes, the maximal number of cells of scores.
    agree
        Rounds in which clients' similarity is estimated.
    kappa
        The weight of the pooled distribution at a client, in rows; estimated by default.
        0: own rows only. Infinity: the pool only.
    epsilon
        Privacy: each client adds discrete Laplace noise to its counts, which are then
        epsilon-differentially private for each of its rows, if no attacker can guess the random
        numbers by which rows are held out: in one process they are drawn from the run's seed, at a
        site from its secret. The noise is the operating system's: with it a run cannot be
        reproduced. The client sends zeros in the `agree` rounds then. None: no noise. With noise
        take few bins, such as 20.
    """

    target_ddp: float = 0.05
    confidence: float = 0.95
    jointly: bool = False
    max_randomised: float = 0.05
    max_cost: float = 0.03
    prefer: str = "any"
    held: float = 0.2
    bins: int = 500
    agree: int = 5
    kappa: float | None = None
    epsilon: float | None = None

    dial = Dial(
        setting="target_ddp",
        levels=TARGETS,
        is_target=True,
        average={"confidence": 0.0},
        retargets=(
            "target_ddp",
            "criterion",
            "confidence",
            "jointly",
            "max_randomised",
            "max_cost",
            "prefer",
            "kappa",
        ),
        hint="its rows do not allow more for this target and confidence, or the scores do not",
    )
    tuning = Tuning(tuned=False, model="additive")

    def __post_init__(self) -> None:
        checks.at_least(0, self, "agree")
        super().__post_init__()
        known("prefer", self.prefer, PREFERENCES)
        checks.target(self)
        checks.share(self, "max_randomised", "max_cost")
        if self.jointly and not self.confidence:
            raise InputError(
                "jointly needs a confidence level: confidence is 0, a target on average."
            )
        checks.at_least(10, self, "bins")
        if self.kappa is not None and not self.kappa >= 0:
            raise InputError(f"kappa must be a number >= 0 or infinity, got {self.kappa:g}.")
        if self.epsilon is not None:
            checks.above_zero(self, "epsilon")
            if not MIN_EPSILON <= self.epsilon <= MAX_EPSILON:
                raise InputError(
                    f"epsilon must be between {MIN_EPSILON:g} and {MAX_EPSILON:g}, "
                    f"got {self.epsilon:g}."
                )
            if not self.trainer.states.sends_models_only:
                raise InputError(
                    "With epsilon the base of transport must send its model only: say base=fedavg."
                )

    @property
    def supports(self) -> Supports:
        return replace(
            ANY_TASK,
            linear_only=self.trainer.supports.linear_only,
            certificates=self.prefer == "any",
        )

    @property
    def phases(self) -> tuple[Phase, ...]:
        train = self.training_phase(lambda clients: self.split(clients)[0])
        return train, Count(self), Agree(self)

    @property
    def private(self) -> bool:
        """Whether noise is added to counts."""
        return self.epsilon is not None

    @property
    def level(self) -> str:
        marks = {None: "", OWN: " own", POOL: " pool"}
        confidence = f" {self.confidence:.0%}" if self.confidence else ""
        confidence += " jointly" if self.jointly else ""
        return f"≤ {self.target_ddp:g}{marks.get(self.kappa, ' kappa')}{confidence}"

    def cost(self) -> Cost:
        draws = 20.0 if self.confidence else 1.0  # from the posterior of DDP
        return replace(super().cost(), per_rule=draws)

    def check(self, task: Task) -> None:
        super().check(task)
        if task.aware:
            return
        if not self.trainer.supports.wrapping:
            raise InputError(
                f"{type(self.trainer).__name__} makes its own gradients: it cannot be the base of "
                "transport where S is not an input."
            )
        aware = replace(task, aware=True)  # the server distinguishes the two by their cells
        if cells_for(self.bins, task).number == cells_for(self.bins, aware).number:
            raise InputError(f"With {task.classes} classes take another number of bins.")

    def network(self, default: Network, task: Task) -> Network:
        scorer = super().network(default, task)
        return scorer if task.aware else Both(scorer, scorer.like(outputs(task.groups)))

    def split(self, clients: Clients) -> tuple[Clients, Clients]:
        """Return the clients with their training rows, and with those that are held out."""

        def make() -> tuple[Clients, Clients]:
            trained, held = counting.split(clients, self.held, self.private)
            return trained if clients.table.task.aware else counting.with_head(trained), held

        return clients.memoise(("split", self.held, self.private), make)

    def with_scorer(self, states: States) -> States:
        """Return a phase's states with the server's tensors that the base's scorers need."""
        return states.with_server(self.trainer.states, self.trainer.scorer_state)

    def scorers(self, server: State, clients: Clients) -> Tensor:
        trained, _ = self.split(clients)  # without held-out rows
        return self.trainer.scorers(server, trained)

    def personalise(self, server: State, own: State, clients: Clients) -> Tensor:
        return self.scorers(server, clients)

    def count(self, server: State, clients: Clients) -> State:
        """Return every client's counts, without noise."""
        cells = cells_for(self.bins, clients.table.task)
        trained, held = self.split(clients)
        return counting.count(self.scorers(server, clients), trained, held, cells, self.private)

    def rules(self, server: State, own: State, clients: Clients) -> Sequence[Rule]:
        """Solve step 4 at every client."""
        return self.rules_by(self.beliefs(server, own, clients), server, clients)

    def sweep(
        self, targets: Sequence[float], server: State, own: State, clients: Clients
    ) -> Iterator[tuple[Transport, Sequence[Rule]]]:
        beliefs = self.beliefs(server, own, clients)  # which do not depend on the target
        for target in targets:
            method = self.retarget(target_ddp=target)
            yield method, method.rules_by(beliefs, server, clients)

    def rules_by(self, beliefs: Belief, server: State, clients: Clients) -> Sequence[Rule]:
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
        np.add.at(counts, (s.numpy(), cells.locate(logits).numpy()), 1.0)
        shares = np.bincount(s, minlength=task.groups) / len(s)
        pool = server | {"counts": server["counts"].clamp(min=0)}  # noise may go below 0
        return self.solve(pool, counts, shares, rng, task)

    def path(self, server: State, shares: np.ndarray) -> Path:
        pooled = server["counts"].clamp(min=0).numpy()
        return path_of(server["eta"][:, 1].numpy(), shapes_of(pooled), shares)

    def beliefs(self, server: State, own: State, clients: Clients) -> Belief:
        """Return every client's posterior of its score distributions."""
        if "held" not in own:  # a site whose counts were lost
            own = self.count(server, clients)
        return counting.beliefs(server, own, self.kappa)

    def solve(
        self,
        server: State,
        counts: np.ndarray,
        shares: np.ndarray,
        rng: np.random.Generator,
        task: Task,
    ) -> Rule:
        """Solve step 4 for a client whose rows the model was not trained on.

        Parameters
        ----------
        counts
            Its rows by group and cell, ``(groups, cells)``; the server's counts are other clients'.
        shares
            Its shares of the groups, ``(groups,)``.
        """
        shared = counting.shared_belief(server, self.kappa)
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
        """Return a client's rule (step 4), see `Solver`."""
        solver = Solver(**{field.name: getattr(self, field.name) for field in fields(Solver)})
        if self.jointly:
            each = 1 - (1 - self.confidence) / float(server["clients"])
            solver = replace(solver, confidence=each)
        arrays = {name: tensor.numpy() for name, tensor in server.items() if name != "w"}
        if "eta_error" in arrays:
            cells = cells_for(self.bins, task)
            arrays["eta_error"] = counting.error_by_cell(arrays["eta_error"], cells)
        found = solver.solve(arrays, belief, shares, rng, task)
        numbers = torch.from_numpy(found.numbers).to(server["w"])
        rule: Rule
        if task.aware and task.classes == 2:
            rule = Thresholds(numbers.view(task.groups, 4))
        else:
            rule = Lookup(numbers, cells_for(self.bins, task).settings)
        rule.facts = found.facts
        return rule


class CountState(TypedDict):
    """The server's state from the counts on, in addition to what the base's scorers need."""

    w: Model
    clients: NotRequired[Tensor]  # their number, (1,)
    eta: NotRequired[Tensor]  # P(Y) in every cell, (groups, classes, cells)
    eta_error: NotRequired[Tensor]  # a root of its covariance, (groups, 3, 3); 2 classes
    trust: NotRequired[Tensor]  # the weight of a row that the model was trained on, (groups,)
    prior: NotRequired[Tensor]  # the probability of each kappa, (49,)
    population: NotRequired[Tensor]  # how clients differ, see `theory.effects`; 2 classes, S known
    guess: NotRequired[Tensor]  # P(S) in every cell, where S is not known, (groups, cells)
    counts: NotRequired[Tensor]  # all clients' rows, as far as trusted, (groups, cells)
    everybody: NotRequired[Tensor]  # all clients' rows, where effects are learnt, (groups, cells)


class CountMessage(TypedDict):
    held: SummedCounts  # held-out rows by half, group, label and cell
    trained: SummedCounts  # other rows by group and cell
    clients: Summed  # 1, (1,)


class CountOwn(TypedDict):
    """A client's state: its counts without noise, and if it adds noise, as it sent them."""

    held: Tensor
    trained: Tensor
    sent_held: NotRequired[Tensor]
    sent_trained: NotRequired[Tensor]


@dataclass(frozen=True)
class Count(Phase):
    """Step 2: one round of counts."""

    method: Transport

    name = "count"
    rounds = 1
    trains = False
    decides = True

    @property
    def states(self) -> States:
        return self.method.with_scorer(States(CountState, CountMessage, CountOwn))

    @property
    def noise(self) -> float:
        return self.method.epsilon or 0.0

    def impossible(self, message: State, server: State, sizes: Sequence[int]) -> str:
        counted = float(message["held"].sum() + message["trained"].sum())
        if counted > sum(sizes) + ROUNDING and not self.noise:
            return f"it counts {counted:g} of {sum(sizes)} rows"
        if not abs(float(message["clients"]) - len(sizes)) <= ROUNDING:
            return f"it counts {float(message['clients']):g} clients, not {len(sizes)}"
        return super().impossible(message, server, sizes)

    def start_server(self, server: State, sizes: Tensor) -> State:
        return {name: server[name].clone() for name in self.method.trainer.scorer_state}

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        counts = self.method.count(server, clients)
        one = {"clients": torch.ones(len(clients), 1, dtype=torch.float64)}
        if self.method.epsilon is None:
            return copy_state(counts) | one, counts
        sent = counting.add_noise(counts, self.method.epsilon)
        # Kept, as the noise cannot be made again: to subtract its own counts from the sums.
        own = counts | {counting.SENT + name: rows.clone() for name, rows in sent.items()}
        return sent | one, own

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        learnt = counting.learn(messages, self.method.bins)
        return copy_state(server) | learnt | {"clients": messages["clients"].sum(0)}


class AgreeMessage(TypedDict):
    alike: Summed  # the posterior of each kappa, (49,)
    effects: NotRequired[Summed]  # statistics of its effects, see `theory.effects`


class AgreeOwn(TypedDict):
    """A client's state: its counts, and the likelihood of its effects by them."""

    held: Tensor
    trained: Tensor
    sent_held: NotRequired[Tensor]
    sent_trained: NotRequired[Tensor]
    slope: NotRequired[Tensor]
    curve: NotRequired[Tensor]
    constant: NotRequired[Tensor]


@dataclass(frozen=True)
class Agree(Phase):
    """Step 3: rounds of expectation maximisation over the population of clients."""

    method: Transport

    name = "agree"
    trains = False
    decides = True

    @property
    def states(self) -> States:
        return self.method.with_scorer(States(CountState, AgreeMessage, AgreeOwn))

    @property
    def rounds(self) -> int:  # type: ignore[override]
        return self.method.agree

    def impossible(self, message: State, server: State, sizes: Sequence[int]) -> str:
        alike, most = message["alike"], len(server["counts"]) * len(sizes)  # 1 for each group
        if float(alike.min()) < -ROUNDING or float(alike.sum()) > most + ROUNDING:
            return f"'alike' has chances that add up to {float(alike.sum()):g}, not to {most}"
        if "effects" in message and not 0 <= float(message["effects"][0]) <= len(sizes) + ROUNDING:
            return f"'effects' are of {float(message['effects'][0]):g} clients, not {len(sizes)}"
        return super().impossible(message, server, sizes)

    def start_clients(self, server: State, own: State, clients: Clients) -> State:
        own = copy_state(own) if "held" in own else self.method.count(server, clients)
        return own | counting.quadratics(self.method.beliefs(server, own, clients))

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        beliefs = self.method.beliefs(server, own, clients)
        return counting.likeness(beliefs, silent=self.method.private), copy_state(own)

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        return copy_state(server) | counting.update(server, messages)
