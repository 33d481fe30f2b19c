"""Centralised gradient boosting, and thresholds for every client. Not a federated method.

The benchmark for a user who may put all rows into one table: scikit-learn's
``HistGradientBoostingClassifier`` on most of all clients' training rows, S among its inputs, with
early stopping on a tenth of them. The trees use numbers without encoding, and the
categories of a column in the order of their label rates (`OrderedColumns`); with the standard
encoding they use its inputs. Each client then has two thresholds on its scores: the most accurate
ones, by the scores as probabilities, with a gap of at most `target_ddp` among its held-out rows
(Proposition 2 on these rows, see `pfedfair.theory.cuts`). The clients share the trees; they differ
in their thresholds only.

No message is sent: it runs where one process has all rows, and not on Flower.
It needs scikit-learn, which is not installed with pfedfair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from inspect import signature
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor

from pfedfair._util import seeds
from pfedfair._util.errors import InputError
from pfedfair.data.tables.ordinals import OrderedColumns
from pfedfair.data.tables.piecewise import Piecewise
from pfedfair.data.task import Task
from pfedfair.federation import Federation, stack
from pfedfair.methods import checks
from pfedfair.methods.base import TARGETS, Clients, Cost, Dial, Method, Phase, State, States, Tuning
from pfedfair.methods.clients import hold_out, persons_of
from pfedfair.methods.composite import scores
from pfedfair.models import Network, Trees
from pfedfair.models.base import with_group
from pfedfair.partition import stratified
from pfedfair.partition.persons import TREES
from pfedfair.rules import Rule, Thresholds
from pfedfair.theory.cuts import fair_cuts

FEWEST = 50  # rows of each label, for early stopping
STOPPING = 0.1  # part of the rows that it looks at, as in scikit-learn


class OwnState(TypedDict):
    trees: Tensor  # the same row of every client


@dataclass(frozen=True, kw_only=True)
class Pooled(Method):
    """Gradient boosting on all clients' rows, thresholds on each client's held-out rows.

    Attributes
    ----------
    target_ddp
        The largest gap between the groups' positive rates at a client.
    held
        The part of a client's rows that the trees do not see.
    trees, leaves, rate
        The maximal numbers of trees and of leaves of each, and the learning rate.
    """

    target_ddp: float = 0.05
    held: float = 0.2
    trees: int = 300
    leaves: int = 31
    rate: float = 0.1

    place = "pooled"
    dial = Dial(
        setting="target_ddp",
        levels=TARGETS,
        is_target=True,
        retargets=("target_ddp",),
        hint="its rows do not allow more for this target",
    )
    tuning = Tuning(tuned=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.share(self, "target_ddp")
        checks.held(self)
        checks.at_least(1, self, "trees")
        checks.at_least(2, self, "leaves")
        checks.above_zero(self, "rate")

    @property
    def phases(self) -> tuple[Phase, ...]:
        return (Grow(self),)

    def check(self, task: Task) -> None:
        super().check(task)
        _sklearn("sklearn")  # before anything is trained

    def network(self, default: Network, task: Task) -> Network:
        return self._trees(task)

    def _trees(self, task: Task) -> Trees:
        return Trees(self.trees, 2 * self.leaves - 1, task.groups)

    def encode(self, federation: Federation, seed: int) -> Federation:
        encoder, table, rows = federation.encoder, federation.table, federation.partition.train
        if not isinstance(encoder, Piecewise):
            return federation
        clients = Clients(self._trees(table.task), table, rows, range(len(rows)), seed)
        trained = np.concatenate(list(hold_out(clients, self.held)[0].rows))
        ordered = OrderedColumns.by_label(
            encoder, table.x[trained].numpy(), table.y[trained].numpy()
        )
        return replace(federation, encoder=ordered, table=table._replace(encoder=ordered))

    def cost(self) -> Cost:
        return Cost(0.0)

    def personalise(self, server: State, own: State, clients: Clients) -> Tensor:
        return own["trees"].clone()

    def rules(self, server: State, own: State, clients: Clients) -> Sequence[Rule]:
        _, held = hold_out(clients, self.held)
        found = []
        for i in range(len(held)):
            z, _, s = scores(own["trees"][i], held, i)
            chance = torch.sigmoid(torch.from_numpy(z).double()).numpy()
            cuts = fair_cuts(z, chance, s, self.target_ddp)
            found.append(Thresholds(torch.from_numpy(cuts).to(own["trees"])))
        return found

    def grow(self, clients: Clients) -> Tensor:
        """Grow trees on all these clients' rows; return them as a row of `Trees`."""
        batch = stack(clients.table, [np.concatenate(list(clients.rows))])
        network, y = clients.network, batch.y[0].numpy()
        assert isinstance(network, Trees)
        x = with_group(batch.x.flatten(2), batch.s, network.groups)[0].numpy()
        fewest = min((y == 0).sum(), (y == 1).sum())
        if fewest == 0:
            return network.pack([], 20.0 if y.all() else -20.0)
        ensemble, threads = (_sklearn(name) for name in ("sklearn.ensemble", "threadpoolctl"))
        model = ensemble.HistGradientBoostingClassifier(
            max_iter=self.trees,
            max_leaf_nodes=self.leaves,
            learning_rate=self.rate,
            early_stopping=bool(fewest >= FEWEST),
            random_state=int(seeds.generator(clients.seed, seeds.INIT).integers(2**31)),
        )
        held, checked = _early_stopping_rows(clients), {}
        if model.early_stopping and held.any():
            if "X_val" not in signature(model.fit).parameters:
                raise InputError("With persons, pooled needs scikit-learn 1.7 or later: update it.")
            x, y, checked = x[~held], y[~held], {"X_val": x[held], "y_val": y[held]}
        with threads.threadpool_limits(1):
            model.fit(x, y, **checked)
        nodes = [_flat(each[0].nodes) for each in model._predictors]
        return network.pack(nodes, float(model._baseline_prediction.ravel()[0]))


def _early_stopping_rows(clients: Clients) -> np.ndarray:
    """Return a mask of whole persons for early stopping; of no row if scikit-learn is to choose."""
    rows, persons = np.concatenate(list(clients.rows)), persons_of(clients, TREES)
    if persons is None:
        return np.zeros(len(rows), dtype=bool)
    rng = seeds.generator(clients.seed, seeds.PERSONS, TREES)
    held, _ = stratified(rows, clients.table.y.long().numpy(), STOPPING, rng, persons)
    return np.isin(rows, held)


@dataclass(frozen=True)
class Grow(Phase):
    """A phase without rounds, in which trees are grown on all rows."""

    method: Pooled

    name = "grow"
    rounds = 0
    states = States(own=OwnState)

    def start_clients(self, server: State, own: State, clients: Clients) -> State:
        trained, _ = hold_out(clients, self.method.held)
        return {"trees": clients.replicate(self.method.grow(trained))}


def _flat(nodes: np.ndarray) -> np.ndarray:
    """Convert a tree of scikit-learn to `Trees`' nodes, ``(nodes, 5)``."""
    number, leaf = np.arange(len(nodes)), nodes["is_leaf"] > 0
    left, right = (np.where(leaf, number, nodes[side]) for side in ("left", "right"))
    feature, threshold = (np.where(leaf, 0, nodes[k]) for k in ("feature_idx", "num_threshold"))
    return np.stack([feature, threshold, left, right, nodes["value"]], axis=1)


def _sklearn(name: str) -> Any:
    """Import scikit-learn, or what comes with it, when it is needed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise InputError(
            "pooled needs the package scikit-learn: pip install scikit-learn."
        ) from error
