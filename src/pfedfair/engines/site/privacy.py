"""Clipping and noise: how a site's answer is blurred before it leaves.

The order matters: clip, spend, add noise, and only then look at what would leave. A check of the
update as it was would tell of it, by whether it refuses.
"""

import logging
import secrets
from collections.abc import Mapping, Sequence
from math import inf, sqrt
from math import log as natural_log
from typing import Any

import numpy as np
import torch

from pfedfair._util.errors import InputError
from pfedfair.methods import State

log = logging.getLogger("pfedfair")


def stricter(run: Mapping[str, Any], node: Mapping[str, Any]) -> tuple[float, float, float]:
    """The stricter of what the run and the site ask for: clip, epsilon and delta."""
    found = []
    for key in ("clip", "epsilon", "delta"):
        asked = [float(config[key]) for config in (run, node) if key in config]
        found.append(min((value for value in asked if value != 0), default=0.0))
    clip, epsilon, delta = found
    check_privacy(clip, epsilon, delta)
    return clip, epsilon, delta


def check_privacy(clip: float, epsilon: float, delta: float) -> None:
    if not (clip >= 0 and epsilon >= 0):
        raise InputError("clip and epsilon must be 0 (none) or positive numbers.")
    if epsilon > 0 and clip == 0:
        raise InputError("epsilon needs clip, the limit on how far a site's update may go.")
    if epsilon > 1:
        raise InputError(
            f"epsilon must be at most 1, got {epsilon:g}: for more, this kind of noise is no proof."
        )
    if epsilon > 0 and not 0 < delta < 1:
        raise InputError(f"delta must be between 0 and 1, got {delta:g}.")


def relative_noise(epsilon: float, delta: float) -> float:
    """The noise's standard deviation over what it hides, of one answer."""
    return sqrt(2 * natural_log(1.25 / delta)) / epsilon


def noise_of(clip: float, epsilon: float, delta: float) -> float:
    """The standard deviation of the noise on each weight.

    Replacing all rows of a site changes a clipped update by twice the clipping norm at the most:
    that is what it hides, so epsilon is that of the whole site.
    """
    return 2 * clip * relative_noise(epsilon, delta) if epsilon > 0 else 0.0


def clipped(sent: State, server: State, clip: float) -> State:
    """The same answer, its way from the server's models shortened to the norm `clip` if longer.

    A way that is no number (training failed) is none.
    """
    if any(name not in server or server[name].shape != sent[name].shape for name in sent):
        raise InputError("clip and epsilon are for methods that send their model and nothing else.")
    ways = {name: tensor.double() - server[name].double() for name, tensor in sent.items()}
    norm = sqrt(sum(float(way.square().sum()) for way in ways.values()))
    if not norm < inf:
        log.error("pfedfair: training failed here, with numbers that cannot be: no way is sent")
    part = min(1.0, clip / norm) if 0 < norm < inf else 0.0
    return {
        name: (server[name].double() + (part * way if part else 0.0)).to(server[name].dtype)
        for name, way in ways.items()
    }


def within(
    sent: State, server: State, models: Sequence[str], limit: float
) -> tuple[State, list[str]]:
    """The same answer, its models no further from the server's than `limit`; and which were.

    As a root mean square over a model's weights. In a secure sum nobody else can shorten them.
    """
    made, short = dict(sent), []
    for name in models:
        if name not in sent:
            continue
        way = sent[name].double() - server[name].double()
        far = float(way.square().mean().sqrt())
        if limit < far < inf:
            made[name] = (server[name].double() + way * (limit / far)).to(server[name].dtype)
            short.append(name)
    return made, short


def blurred(sent: State, deviation: float) -> State:
    """The same answer with Gaussian noise that nobody can guess."""
    rng = np.random.default_rng(secrets.randbits(256))
    return {
        name: tensor + torch.from_numpy(rng.normal(0.0, deviation, tensor.shape)).to(tensor.dtype)
        for name, tensor in sent.items()
    }
