"""The rules of clipping and noise; the noise itself is the framework's."""

from collections.abc import Mapping
from math import log, sqrt
from typing import Any

from pfedfair.errors import InputError


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


def noise_of(clip: float, epsilon: float, delta: float) -> float:
    """The standard deviation of the noise on each weight."""
    return 2 * clip * sqrt(2 * log(1.25 / delta)) / epsilon if epsilon > 0 else 0.0
