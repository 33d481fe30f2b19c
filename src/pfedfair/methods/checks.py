"""Checks of settings: invalid values are refused in a sentence."""

from typing import Any

from pfedfair._util.errors import InputError

INFINITY = float("inf")


def at_least(least: int, settings: Any, *names: str) -> None:
    for name in names:
        if getattr(settings, name) < least:
            raise InputError(f"{name} must be at least {least}, got {getattr(settings, name)}.")


def above_zero(settings: Any, *names: str) -> None:
    for name in names:
        if not 0 < getattr(settings, name) < INFINITY:
            raise InputError(f"{name} must be a positive number, got {getattr(settings, name):g}.")


def zero_or_more(settings: Any, *names: str) -> None:
    for name in names:
        if not 0 <= getattr(settings, name) < INFINITY:
            raise InputError(f"{name} must be a number >= 0, got {getattr(settings, name):g}.")


def share(settings: Any, *names: str) -> None:
    for name in names:
        if not 0 <= getattr(settings, name) <= 1:
            raise InputError(f"{name} must be in [0, 1], got {getattr(settings, name):g}.")


def no_eta(settings: Any) -> None:
    """Refuse a weight of the fairness penalty for a method without it."""
    if settings.eta != 0:
        raise InputError(
            f"{type(settings).__name__} has its own objective: leave out eta, got {settings.eta:g}."
        )


def target(settings: Any) -> None:
    """Refuse an invalid target, confidence level or part of held-out rows."""
    share(settings, "target_ddp")
    confidence = settings.confidence
    if confidence and not 0.5 <= confidence < 1:
        raise InputError(
            f"confidence must be in [0.5, 1), or 0 for a target on average; got {confidence:g}."
        )
    held(settings)


def held(settings: Any) -> None:
    """Refuse an invalid part of held-out rows."""
    if not 0 < settings.held <= 0.5:  # with more, a small client might have no row to train on
        raise InputError(f"held must be above 0 and at most 0.5, got {settings.held:g}.")
