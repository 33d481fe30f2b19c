"""The base class of methods, and what methods declare about themselves.

A method is a frozen set of hyper-parameters, a sequence of phases (`pfedfair.methods.phases`), and
then a finish: ``personalise``, the model that each client keeps, and ``rules``, how each client
decides by its model's scores. Most methods are one phase: they override ``client_round``.

The rest of the program uses what a method declares: what it `Supports`, its fairness control
(`Dial`), its `Cost`, its `Tuning`. No code depends on its class or its name, and what is not
declared is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, Self, cast

import numpy as np
from torch import Tensor

from pfedfair._util.errors import InputError, known
from pfedfair._util.scalars import to_scalars
from pfedfair.data.task import Task
from pfedfair.federation import Batch, Federation
from pfedfair.methods.checks import above_zero, at_least, zero_or_more
from pfedfair.methods.clients import Clients
from pfedfair.methods.phases import (
    Answer,
    Averaged,
    Counts,
    Model,
    OfClients,
    Phase,
    State,
    States,
    Summed,
    SummedCounts,
    average,
    copy_state,
)
from pfedfair.models import Network
from pfedfair.models.optimisers import OPTIMISERS, Step
from pfedfair.penalties.objective import Objective
from pfedfair.rules import Likeliest, Rule
from pfedfair.theory.certificates import Path

__all__ = [
    "ANY_TASK", "BY_GRADIENTS", "FORMAT", "TARGETS", "Answer", "Averaged", "Clients", "Cost",
    "Counts", "Dial", "Method", "Model", "OfClients", "Phase", "State", "States", "Summed",
    "SummedCounts", "Supports", "Tuning", "average", "copy_state", "training_settings",
]  # fmt: skip

FORMAT = 2  # of `Method.to_dict`: before, `rounds` of composite methods included later phases
TARGETS = tuple({"target_ddp": target} for target in (0.1, 0.05, 0.02, 0.0))  # levels of a `Dial`


@dataclass(frozen=True, kw_only=True)
class Supports:
    """What a method supports beyond two groups, two classes, demographic parity and S as input.

    Attributes
    ----------
    many_groups, many_classes
        More than two groups; more than two classes.
    criteria
        Other criteria than demographic parity.
    weights
        Weighted rows: all that it learns is by weighted means.
    blind
        Models without S as an input.
    wrapping
        Its gradients are all `Clients.gradient`'s, so a target (`methods.target`) or an auxiliary
        head takes effect wherever it trains.
    linear_only
        The network must be linear in its parameters.
    certificates
        It has a path of rules for a client of which it has seen nothing, see `Method.path`.
    """

    many_groups: bool = False
    many_classes: bool = False
    criteria: bool = False
    weights: bool = False
    blind: bool = False
    wrapping: bool = False
    linear_only: bool = False
    certificates: bool = False


ANY_TASK = Supports(many_groups=True, many_classes=True, criteria=True, blind=True)
BY_GRADIENTS = replace(ANY_TASK, weights=True, wrapping=True)  # only steps down the objective


@dataclass(frozen=True, kw_only=True)
class Dial:
    """The setting by which a method trades accuracy for fairness.

    Attributes
    ----------
    setting
        Its name; "" if there is none.
    levels
        Settings of the points of a trade-off curve, from accurate to fair.
    is_target
        Whether it is a limit on each client's DDP.
    average
        Settings with which a target holds on average, as that of methods without a confidence
        level does: for comparisons with them.
    retargets
        Settings that only `rules` uses, which can change without training.
    hint
        What to do if a model predicts one class for all rows; "" if it is meant to.
    """

    setting: str = "eta"
    levels: tuple[Mapping[str, float], ...] = ({},)
    is_target: bool = False
    average: Mapping[str, float] = field(default_factory=dict)
    retargets: tuple[str, ...] = ()
    hint: str = "train longer, lower eta or raise alpha"


@dataclass(frozen=True)
class Cost:
    """Gradients per row in one round and in `personalise`; the time of a rule. For estimates."""

    per_round: float
    at_end: float = 0.0
    per_rule: float = 1.0  # relative to a pair of thresholds


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """How a method is tuned, see `pfedfair.methods.defaults`."""

    tuned: bool = True  # whether it has settings of its own to tune
    personal: bool = False  # whether a client trains, or adapts, a model of its own
    one_step: bool = False  # whether a round is one step, so that there must be many
    model: str = ""  # the model of columns that suits it best, if any


@dataclass(frozen=True, kw_only=True)
class Method(Phase):
    """The hyper-parameters that all methods share.

    Attributes
    ----------
    rounds
        Rounds of training.
    epochs
        Passes over a client's rows in each round.
    batch
        The least number of rows in a minibatch (a smaller client uses all its rows).
    alpha
        Step size.
    optimiser
        "adam" or "sgd".
    ridge
        Weight of ||w||^2 / 2 in every objective of a client: for wide inputs and few rows.
    eta, penalty, mix, penalty_options
        The fair objective, see `Objective`; eta = 0 is cross-entropy only.
    weighting
        How the server averages: "uniform" as printed in the paper, or by "size".
    criterion
        What fairness means: "dp", "eo" or "eopp", see `Objective`.
    """

    rounds: int = 40
    epochs: int = 1
    batch: int = 600
    alpha: float = 1e-3
    optimiser: str = "adam"
    ridge: float = 0.0
    eta: float = 0.0
    penalty: str = "kde"
    mix: str = "convex"
    penalty_options: tuple[tuple[str, float], ...] = ()
    weighting: str = "uniform"
    criterion: str = "dp"

    # What a method declares; `supports` and `phases` may depend on its settings.
    place: ClassVar[str] = "federated"  # or "local", "centralised" (meant for all rows at one
    # client), "pooled" (requires all clients' rows in one process)
    dial: ClassVar[Dial] = Dial()
    tuning: ClassVar[Tuning] = Tuning()

    def __post_init__(self) -> None:
        to_scalars(self)
        options = tuple(map(tuple, self.penalty_options))  # also of lists: a method is hashable
        object.__setattr__(self, "penalty_options", options)
        known("optimiser", self.optimiser, list(OPTIMISERS))
        known("weighting", self.weighting, ["uniform", "size"])
        at_least(1, self, "rounds", "epochs", "batch")
        above_zero(self, "alpha")
        zero_or_more(self, "ridge")
        self.objective  # noqa: B018  (checks eta, penalty, mix and criterion)
        if self.criterion != "dp" and not self.supports.criteria:
            raise InputError(f"{type(self).__name__} supports demographic parity (dp) only.")

    @property
    def supports(self) -> Supports:
        return Supports()

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases in their order: by default the method itself is the only one."""
        return (self,)

    @property
    def objective(self) -> Objective:
        return _objective(self.eta, self.penalty, self.mix, self.penalty_options, self.criterion)

    def cost(self) -> Cost:
        return Cost(self.epochs)

    @property
    def target(self) -> float | None:
        """The limit on every client's DDP, if the method takes one."""
        return getattr(self, self.dial.setting) if self.dial.is_target else None

    @property
    def level(self) -> str:
        """The method's point on its trade-off curve, in a few characters."""
        name = self.dial.setting
        if name in ("", "eta"):
            return name and f"{self.eta:g}"
        if name != "target_ddp":
            return f"{name.partition('_')[0]} {getattr(self, name):g}"
        confidence = getattr(self, "confidence", None)
        return f"≤ {self.target:g}" + (f" {confidence:.0%}" if confidence else "")

    def check(self, task: Task) -> None:
        """Refuse a task that the method does not support."""
        self.objective.check(task)
        name, supports = type(self).__name__, self.supports
        for number, what, many in (
            (task.groups, "groups", supports.many_groups),
            (task.classes, "classes", supports.many_classes),
        ):
            if number > 2 and not many:
                raise InputError(
                    f"{name} is made for two {what}, the data has {number}: choose another method."
                )
        if not task.aware and not supports.blind:
            raise InputError(f"{name} has a rule for each group: S must be an input.")

    def to_dict(self) -> dict[str, Any]:
        """Return all hyper-parameters, including those of a wrapped method, for `from_dict`."""
        found: dict[str, Any] = {"kind": type(self).__name__, "format": FORMAT}
        for one in fields(self):
            value = getattr(self, one.name)
            found[one.name] = value.to_dict() if isinstance(value, Method) else value
        return found

    def warning(self, server: State) -> str:
        """Return a warning about training by the server's final state; "" if there is none."""
        return ""

    # --- before training ------------------------------------------------------------------------

    def network(self, default: Network, task: Task) -> Network:
        """Return the network to train; a method may replace the default."""
        return default

    def encode(self, federation: Federation, seed: int) -> Federation:
        """Return the federation, with other inputs if the method needs them."""
        return federation

    # --- steps ----------------------------------------------------------------------------------

    def epochs_of(self, t: int) -> range:
        """Return the numbers of the epochs of round t."""
        return range(t * self.epochs, (t + 1) * self.epochs)

    def minibatches(self, clients: Clients, t: int) -> Iterator[Batch]:
        """Yield the minibatches of round t: `epochs` passes over every client's rows."""
        for epoch in self.epochs_of(t):
            yield from clients.epoch(epoch, self.batch)

    def step(self) -> Step:
        return OPTIMISERS[self.optimiser](self.alpha, self.ridge)

    # --- the finish -----------------------------------------------------------------------------

    @property
    def scorer_state(self) -> tuple[str, ...]:
        """Names of the tensors in the server's state that `scorers` needs."""
        return ("w",)

    def scorers(self, server: State, clients: Clients) -> Tensor:
        """Return the model by which each client scores rows before it personalises it."""
        return clients.share(server["w"])

    def personalise(self, server: State, own: State, clients: Clients) -> Tensor:
        """Return the model that each client keeps: by default the global one."""
        return clients.share(server["w"])

    def rules(self, server: State, own: State, clients: Clients) -> Sequence[Rule]:
        """Return each client's decision rule: by default for the likeliest label."""
        return [Likeliest()] * len(clients)

    def sweep(
        self, targets: Sequence[float], server: State, own: State, clients: Clients
    ) -> Iterator[tuple[Method, Sequence[Rule]]]:
        """Yield the method with each target, and every client's rule; see `retarget`."""
        for target in targets:
            method = self.retarget(target_ddp=target)
            yield method, method.rules(server, own, clients)

    def retarget(self, **changes: Any) -> Self:
        """Return the method with another target, if that needs no training."""
        if not self.dial.retargets:
            raise InputError(f"{type(self).__name__} has to train again for another target.")
        for name in changes:
            known("setting that can change without training anew", name, list(self.dial.retargets))
        return replace(self, **changes)

    def newcomer(
        self, server: State, logits: Tensor, s: Tensor, rng: np.random.Generator, task: Task
    ) -> Rule:
        """Return the rule of a client that joins later, from its rows' scores and groups."""
        raise InputError(f"{type(self).__name__} cannot take in a client without training again.")

    def path(self, server: State, shares: np.ndarray) -> Path:
        """Return rules, of which one can be certified, for a client that was not in training.

        They depend on the server's state and the client's `shares` of two groups, ``(2,)``, only.
        """
        raise InputError(f"{type(self).__name__} has no rules to certify: take transport.")


_objective = lru_cache(Objective)  # used in every step


def training_settings(method: Method) -> Method:
    """Return the method with default values of all settings that only `rules` uses.

    Two methods with equal training settings train the same model.
    """
    free = (field for field in fields(method) if field.name in method.dial.retargets)
    return replace(method, **{field.name: cast("Any", field.default) for field in free})
