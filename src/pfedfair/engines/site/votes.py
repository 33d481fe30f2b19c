"""A site's vote on the server's next state: is it better for the site's rows without some answers?

The server proposes its next state from all answers, and from all but a few. A site measures each
on its own training rows, and answers with one bit for each proposal.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np
import torch

from pfedfair.data.task import outputs
from pfedfair.methods import Clients, Method, State
from pfedfair.methods.newton.likelihood import loss_of
from pfedfair.methods.phases import Phase
from pfedfair.rules import Likeliest, Rule

LIKELIEST: Rule = Likeliest()
HARM = 0.01  # of a loss, relative, or of an accuracy
UNFAIR = 0.02  # of a gap: by so much less is better if losses are not worse
WIDE = 0.05  # of a gap: a smaller loss does not make up for it
SURE = 3.0  # standard errors of the mean difference of losses


class Measured(NamedTuple):
    """How a state does on a site's rows: each row's loss, and the gap between groups."""

    losses: np.ndarray
    accuracy: float
    gap: float


def prefers(other: Measured, usual: Measured) -> bool:
    """Return whether one state is clearly better than the usual one: by its losses, or its gap."""
    less = usual.losses - other.losses
    mean, error = float(less.mean()), float(less.std()) / sqrt(len(less))
    if mean > max(HARM * float(usual.losses.mean()), SURE * error):
        return other.gap <= usual.gap + WIDE
    same = mean > -HARM * float(usual.losses.mean())
    return same and other.gap < usual.gap - UNFAIR


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
        losses = loss_of(logits[None].double(), y)[0]
    else:
        logits = clients.scores(algorithm.personalise(state, own, clients)[0], 0)
        rule = algorithm.rules(state, own, clients)[0]
        losses = 1 - rule.draw_chances(logits, s).double().gather(1, y[:, None])[:, 0]
    chances = rule.draw_chances(logits, s).double()
    groups = range(table.task.groups)
    rates = torch.stack([chances[s == k].mean(0) for k in groups if bool((s == k).any())])
    gap = (rates.max(0).values - rates.min(0).values).max()
    right = chances.gather(1, y[:, None]).mean()
    return Measured(losses.numpy(), float(right), float(gap))


def vote(
    algorithm: Method, phase: Phase, states: Sequence[State], own: State, clients: Clients
) -> list[bool]:
    """Return for each state but the first whether it is better than the first."""
    usual, *others = [measure(algorithm, phase, state, own, clients) for state in states]
    return [prefers(other, usual) for other in others]
