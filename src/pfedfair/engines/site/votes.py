"""A site's vote on the server's next state: is it better for the site's rows without some answers?

The server proposes its next state from all answers, and from all but a few. A site measures each
on its own training rows, and answers with the number of the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from pfedfair.data.task import outputs
from pfedfair.methods import Clients, Method, State
from pfedfair.methods.phases import Phase
from pfedfair.rules import Likeliest, Rule

LIKELIEST: Rule = Likeliest()
HARM = 0.01  # of a loss, relative, by a site's answer
HARM_OF_ROUND = 0.02  # by a whole round: an honest step may be too long
MAX_STATES = 16  # that are proposed at once
MAX_EARLIER = 3  # in a secure sum, besides the newest
UNFAIR = 0.02  # of a gap: so much less is better if losses are not worse
SURE = 3.0  # standard errors of the mean difference of losses


class Measured(NamedTuple):
    """How a state does on a site's rows: each row's loss, and the gap between groups."""

    losses: np.ndarray
    gap: float


def prefers(other: Measured, usual: Measured, harm: float = HARM) -> bool:
    """Return whether one state is clearly better than the usual one: by its losses, or its gap."""
    if not np.isfinite(usual.losses).all():
        return bool(np.isfinite(other.losses).all())
    less = usual.losses - other.losses
    mean, error = float(less.mean()), float(less.std()) / sqrt(len(less))
    harm *= float(usual.losses.mean())
    if mean > max(harm, SURE * error):
        return True
    return mean > -harm and other.gap < usual.gap - UNFAIR


def measure(
    algorithm: Method, phase: Phase, state: State, own: State, clients: Clients
) -> Measured:
    """Measure a server state after a round of a phase on the rows of one client.

    In a phase that trains it is the global model that counts, otherwise the client's own rule.
    """
    table, rows, rule = clients.table, clients.rows[0], LIKELIEST
    y, s = table.y[rows].long(), table.s[rows]
    if phase.trains:
        logits = clients.scores(algorithm.scorers(state, clients)[0], 0)
        logits = logits[:, : outputs(table.task.classes)]  # without an auxiliary head
        if logits.shape[1] == 1:
            z, hit = logits[:, 0].double(), y.double()
            losses = binary_cross_entropy_with_logits(z, hit, reduction="none")
        else:
            losses = cross_entropy(logits.double(), y, reduction="none")
    else:
        logits = clients.scores(algorithm.personalise(state, own, clients)[0], 0)
        rule = algorithm.rules(state, own, clients)[0]
        losses = 1 - rule.draw_chances(logits, s).double().gather(1, y[:, None])[:, 0]
    chances = rule.draw_chances(logits, s).double()
    groups = range(table.task.groups)
    rates = torch.stack([chances[s == k].mean(0) for k in groups if bool((s == k).any())])
    gap = (rates.max(0).values - rates.min(0).values).max()
    return Measured(losses.numpy(), float(gap))


def vote(
    algorithm: Method,
    phase: Phase,
    states: Sequence[State],
    own: State,
    clients: Clients,
    of_rounds: bool = False,
) -> int:
    """Return which state is best, of those that are clearly better than the first; or 0.

    The states are made from other answers of one round, or (`of_rounds`) of several rounds. As a
    model learns its gap may grow, so there it only counts if the model is trained to be fair.
    """
    usual, *others = [measure(algorithm, phase, state, own, clients) for state in states]
    if of_rounds and algorithm.eta == 0:
        usual, *others = [one._replace(gap=0.0) for one in (usual, *others)]
    harm = HARM_OF_ROUND if of_rounds else HARM
    better = {k: other for k, other in enumerate(others, 1) if prefers(other, usual, harm)}
    return min(better, key=lambda k: float(better[k].losses.mean()), default=0)
