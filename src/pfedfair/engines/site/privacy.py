"""Clipping and noise on a site's answer, before it is sent.

The order matters: clip, spend, add noise, and only then check the answer. A check of the update
before the noise would reveal something of it by refusing.
"""

import logging
from collections.abc import Mapping, Sequence
from math import inf, sqrt
from typing import Any

import torch

from pfedfair._util import noise
from pfedfair._util.errors import InputError
from pfedfair.engines.site.accounting import relative_noise
from pfedfair.methods import State

log = logging.getLogger("pfedfair")
MIN_EPSILON = 1e-3
FAR_NOISE = 4.0  # deviations of the noise, as root mean square over the weights: never of few
MAX_STEPS = 2**30  # of a clipped update's norm: its square fits into 64 bits


def strictest(run: Mapping[str, Any], node: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return the strictest clip, epsilon and delta of the run's and the site's settings."""
    found = []
    for key in ("clip", "epsilon", "delta"):
        values = [float(config[key]) for config in (run, node) if key in config]
        found.append(min((value for value in values if value != 0), default=0.0))
    clip, epsilon, delta = found
    check_privacy(clip, epsilon, delta)
    return clip, epsilon, delta


def check_privacy(clip: float, epsilon: float, delta: float) -> None:
    if not (clip >= 0 and epsilon >= 0):
        raise InputError("clip and epsilon must be 0 (none) or positive numbers.")
    if epsilon > 0 and clip == 0:
        raise InputError("epsilon needs clip, the limit on how far a site's update may go.")
    if 0 < epsilon < MIN_EPSILON:
        raise InputError(f"epsilon must be at least {MIN_EPSILON:g}, got {epsilon:g}.")
    if epsilon > 0 and not 0 < delta < 1:
        raise InputError(f"delta must be between 0 and 1, got {delta:g}.")


def max_steps(epsilon: float, delta: float) -> int:
    """Return the largest norm of an update in steps of the grid on which noise is added.

    Noise has a deviation of `noise.UNIT` steps. Replacing all rows of a site changes a clipped
    update by at most twice the clipping norm: this is the sensitivity, so epsilon protects the
    whole site.
    """
    return min(int(noise.UNIT / (2 * relative_noise(epsilon, delta))), MAX_STEPS)


def noise_deviation(clip: float, epsilon: float, delta: float) -> float:
    """Return the standard deviation of the noise on each weight."""
    return clip / max_steps(epsilon, delta) * noise.UNIT if epsilon > 0 else 0.0


def clip_update(sent: State, server: State, clip: float) -> State:
    """Clip the update of an answer, its difference from the server's models, to the norm `clip`.

    An update with infinite or NaN values (training failed) counts as zero.
    """
    if any(name not in server or server[name].shape != sent[name].shape for name in sent):
        raise InputError("clip and epsilon are for methods that send their model and nothing else.")
    updates = {name: tensor.double() - server[name].double() for name, tensor in sent.items()}
    norm = sqrt(sum(float(way.square().sum()) for way in updates.values()))
    if not norm < inf:
        log.error("pfedfair: training failed here, with numbers that cannot be: no way is sent")
    part = min(1.0, clip / norm) if 0 < norm < inf else 0.0
    return {
        name: (server[name].double() + (part * way if part else 0.0)).to(server[name].dtype)
        for name, way in updates.items()
    }


def limit_change(
    sent: State, server: State, models: Sequence[str], limit: float
) -> tuple[State, list[str]]:
    """Shorten updates of more than `limit`, as root mean square; return the names of those, too."""
    made, shortened = dict(sent), []
    for name in models:
        if name not in sent:
            continue
        way = sent[name].double() - server[name].double()
        far = float(way.square().mean().sqrt())
        if limit < far < inf:
            made[name] = (server[name].double() + way * (limit / far)).to(server[name].dtype)
            shortened.append(name)
    return made, shortened


def add_noise(sent: State, server: State, clip: float, most: int) -> State:
    """Add discrete Gaussian noise to a clipped update, on a grid of `most` steps for `clip`.

    Numbers are rounded towards zero, so the norm stays within `most`: as whole numbers, exactly.
    All that follows the noise is arithmetic on its result and on what the server knows.
    """
    ways = [(tensor.double() - server[name].double()).ravel() for name, tensor in sent.items()]
    way = torch.cat(ways).nan_to_num(0.0, 0.0, 0.0)
    steps = (way * (most / max(float(way.norm()), clip))).long()
    while int(steps.square().sum()) > most**2:  # rounding errors
        steps -= steps.sign()
    noisy = (steps + torch.from_numpy(noise.gaussian(len(steps)))).double() * (clip / most)
    parts = torch.split(noisy, [len(one) for one in ways])
    return {
        name: (server[name].double() + part.view_as(tensor)).to(tensor.dtype)
        for (name, tensor), part in zip(sent.items(), parts, strict=True)
    }
