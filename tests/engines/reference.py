"""The specification: the same algorithms as a plain loop over clients, in everyday PyTorch.

One ``nn.Sequential`` per client, autograd, ``torch.optim``, no stacks. Slow, and easy to check
against the papers. Tests hold `pfedfair.engines.local` equal to it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from pfedfair._util import seeds
from pfedfair.engines.local import Fitted
from pfedfair.federation import Federation, minibatches
from pfedfair.methods import Method
from pfedfair.methods.ditto import Ditto
from pfedfair.methods.fedavg import FedAvg
from pfedfair.methods.fedprox import FedProx
from pfedfair.methods.local import Local
from pfedfair.methods.moreau import PROX_EPOCHS_FROM, Moreau
from pfedfair.methods.perfedavg import PerFedAvg
from pfedfair.methods.pfedfair import PFedFair
from pfedfair.methods.pfedme import PFedMe
from pfedfair.models import MLP
from pfedfair.models.base import with_group
from pfedfair.rules import Likeliest

Rows = tuple[Tensor, Tensor, Tensor]  # x, y, s


@dataclass
class Client:
    """One client and its rows."""

    number: int
    x: Tensor
    y: Tensor
    s: Tensor
    seed: int
    batch: int
    epochs: int

    def round(self, t: int) -> Iterator[Rows]:
        for epoch in range(t * self.epochs, (t + 1) * self.epochs):
            yield from self.epoch(epoch)

    def epoch(self, number: int) -> Iterator[Rows]:
        rng = seeds.generator(self.seed, seeds.MINIBATCH, self.number, number)
        for part in minibatches(np.arange(len(self.y)), self.batch, rng):
            yield self.x[part], self.y[part], self.s[part]


def sequential(network: MLP, w: Tensor) -> nn.Sequential:
    """Build the network that a flat row of parameters describes."""
    layers: list[nn.Module] = []
    for _, fan_in, fan_out in network.layers:
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    vector_to_parameters(w, model.parameters())
    return model


def clean_loss(model: nn.Module, rows: Rows) -> Tensor:
    x, y, _ = rows
    return binary_cross_entropy_with_logits(model(x)[:, 0], y)


def fair_loss(model: nn.Module, rows: Rows, eta: float) -> Tensor:
    x, _, s = rows
    if eta == 0:
        return clean_loss(model, rows)
    score = torch.sigmoid(model(x)[:, 0])
    positive = torch.special.ndtr((score - 0.5) / 0.1)
    gaps = [positive[s == z].mean() - positive.mean() for z in set(s.tolist())]
    penalty = sum((gap**2 / 2 for gap in gaps), torch.zeros(()))
    return (1 - eta) * clean_loss(model, rows) + eta * penalty


def distance(model: nn.Module, anchor: nn.Module) -> Tensor:
    pairs = zip(model.parameters(), anchor.parameters(), strict=True)
    return sum((((a - b.detach()) ** 2).sum() for a, b in pairs), torch.zeros(()))


def optimiser(name: str, model: nn.Module, lr: float) -> torch.optim.Optimizer:
    kinds: dict[str, type[torch.optim.Optimizer]] = {
        "adam": torch.optim.Adam,
        "sgd": torch.optim.SGD,
    }
    return kinds[name](model.parameters(), lr=lr)  # type: ignore[call-arg]


def descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()


def local(algorithm: Local, model: nn.Module, client: Client, t: int) -> nn.Module:
    theta = copy.deepcopy(model)
    steps = optimiser(algorithm.optimiser, theta, algorithm.alpha)
    for t in range(algorithm.rounds):  # it has no rounds with others
        for rows in client.round(t):
            descend(steps, fair_loss(theta, rows, algorithm.eta))
    return theta


def fedavg(algorithm: Method, model: nn.Module, client: Client, t: int, eta: float) -> nn.Module:
    w = copy.deepcopy(model)
    steps = optimiser(algorithm.optimiser, w, algorithm.alpha)
    for rows in client.round(t):
        descend(steps, fair_loss(w, rows, eta))
    return w


def fedprox(algorithm: FedProx, model: nn.Module, client: Client, t: int) -> nn.Module:
    w = copy.deepcopy(model)
    steps = optimiser(algorithm.optimiser, w, algorithm.alpha)
    for rows in client.round(t):
        tie = algorithm.mu / 2 * distance(w, model)
        descend(steps, fair_loss(w, rows, algorithm.eta) + tie)
    return w


def perfedavg(algorithm: PerFedAvg, model: nn.Module, client: Client, t: int) -> nn.Module:
    w = copy.deepcopy(model)
    steps = optimiser(algorithm.optimiser, w, algorithm.alpha)
    batches = list(client.round(t))
    for k, adapt_rows in enumerate(batches):
        adapted = copy.deepcopy(w)
        inner = optimiser("sgd", adapted, algorithm.alpha_inner)
        descend(inner, fair_loss(adapted, adapt_rows, algorithm.eta))
        judged = fair_loss(adapted, batches[(k + 1) % len(batches)], algorithm.eta)
        grads = torch.autograd.grad(judged, list(adapted.parameters()))
        for parameter, g in zip(w.parameters(), grads, strict=True):
            parameter.grad = g
        steps.step()
    return w


def adapt(algorithm: PerFedAvg, model: nn.Module, client: Client) -> nn.Module:
    theta = copy.deepcopy(model)
    steps = optimiser("sgd", theta, algorithm.alpha_inner)
    for epoch in range(PROX_EPOCHS_FROM, PROX_EPOCHS_FROM + algorithm.adapt_epochs):
        for rows in client.epoch(epoch):
            descend(steps, fair_loss(theta, rows, algorithm.eta))
    return theta


def prox(algorithm: Moreau, w: nn.Module, rows: Rows) -> nn.Module:
    theta = copy.deepcopy(w)
    steps = optimiser(algorithm.inner, theta, algorithm.alpha_inner)
    for _ in range(algorithm.K):
        tie = algorithm.gamma / 2 * distance(theta, w)
        descend(steps, fair_loss(theta, rows, algorithm.eta) + tie)
    return theta


def pfedme(algorithm: PFedMe, model: nn.Module, client: Client, t: int) -> nn.Module:
    w = copy.deepcopy(model)
    steps = optimiser(algorithm.optimiser, w, algorithm.alpha)
    for rows in client.round(t):
        theta = prox(algorithm, w, rows)
        descend(steps, algorithm.gamma / 2 * distance(w, theta))
    return w


def pfedfair(algorithm: PFedFair, model: nn.Module, client: Client, t: int) -> nn.Module:
    w = copy.deepcopy(model)
    steps = optimiser(algorithm.optimiser, w, algorithm.alpha)
    for rows in client.round(t):
        theta = prox(algorithm, w, rows)
        g = torch.autograd.grad(clean_loss(w, rows), list(w.parameters()))
        if algorithm.envelope_gradient == "point":
            fair = fair_loss(theta, rows, algorithm.eta)
            g_fair = torch.autograd.grad(fair, list(theta.parameters()))
        else:
            tie = algorithm.gamma / 2 * distance(w, theta)
            g_fair = torch.autograd.grad(tie, list(w.parameters()))
        for parameter, a, b in zip(w.parameters(), g, g_fair, strict=True):
            parameter.grad = a + algorithm.lam * b
        steps.step()
    return w


def personal(
    algorithm: Moreau, start: nn.Module, w: nn.Module, client: Client, epochs: range
) -> nn.Module:
    theta = copy.deepcopy(start)
    steps = optimiser(algorithm.inner, theta, algorithm.alpha_inner)
    for epoch in epochs:
        for rows in client.epoch(epoch):
            tie = algorithm.gamma / 2 * distance(theta, w)
            descend(steps, fair_loss(theta, rows, algorithm.eta) + tie)
    return theta


# What a client does in a round of each method, and at the end; w is the mean of the answers.
Round = Callable[[Any, nn.Module, Client, int], nn.Module]
ROUNDS: dict[type[Method], Round] = {
    FedAvg: lambda a, w, client, t: fedavg(a, w, client, t, a.eta),
    FedProx: fedprox,
    PerFedAvg: perfedavg,
    PFedMe: pfedme,
    PFedFair: pfedfair,
    Ditto: lambda a, w, client, t: fedavg(a, w, client, t, eta=0.0),
    Local: local,
}


def fit(federation: Federation, algorithm: Method, network: MLP, seed: int) -> Fitted:
    """Do what `pfedfair.engines.local.fit` does, one client after the other."""
    if (algorithm.penalty, algorithm.mix, algorithm.weighting) != ("kde", "convex", "uniform"):
        raise NotImplementedError("the specification covers KDE, the convex mix and the plain mean")
    kind, a = type(algorithm), cast(Any, algorithm)
    if kind not in ROUNDS:
        raise NotImplementedError(f"the specification has no {kind.__name__}")
    table = federation.table
    x = with_group(table.x, table.s, network.groups)
    clients = [
        Client(i, x[rows], table.y[rows], table.s[rows], seed, algorithm.batch, algorithm.epochs)
        for i, rows in enumerate(federation.partition.train)
    ]
    model: nn.Module = sequential(network, network.init(seeds.generator(seed, seeds.INIT)))
    v = [model for _ in clients]  # Ditto's personal models
    for t in range(algorithm.rounds if algorithm.place == "federated" else 0):
        answers = [ROUNDS[kind](a, model, client, t) for client in clients]
        if kind is Ditto:
            epochs = range(t * algorithm.epochs, (t + 1) * algorithm.epochs)
            v = [personal(a, v[c.number], model, c, epochs) for c in clients]
        mean = torch.stack([flat(answer) for answer in answers]).mean(0)
        if kind is PFedMe:
            mean = (1 - a.beta) * flat(model) + a.beta * mean
        model = sequential(network, mean)
    if kind is Local:
        kept = [local(a, model, client, 0) for client in clients]
    elif kind is PerFedAvg:
        kept = [adapt(a, model, client) for client in clients]
    elif kind in (PFedMe, PFedFair, Ditto):
        last = range(PROX_EPOCHS_FROM, PROX_EPOCHS_FROM + a.prox_epochs)
        starts = v if kind is Ditto else [model] * len(clients)
        kept = [personal(a, starts[c.number], model, c, last) for c in clients]
    else:
        kept = [model] * len(clients)
    theta = torch.stack([flat(one) for one in kept])
    return Fitted(flat(model), theta, [Likeliest()] * len(clients), {}, {})


def flat(model: nn.Module) -> Tensor:
    return parameters_to_vector(model.parameters()).detach()
