"""Conversion of settings from texts to their types."""

from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

from pfedfair._util.errors import InputError, setting

NONE = ("", "none", "None")


def parsed(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Read settings of a dataclass from texts, or from numbers that JSON or TOML made of them."""
    hints = get_type_hints(kind)
    return {name: _value(name, hints[name], value) for name, value in given.items()}


def _value(name: str, hint: Any, value: Any) -> Any:
    choices = get_args(hint) or (hint,)
    if type(None) in choices and (value is None or value in NONE):
        return None
    if choices == (bool,) and isinstance(value, str):
        if value.lower() not in ("true", "false"):
            raise InputError(f"{setting(name)} must be true or false, got '{value}'.")
        return value.lower() == "true"
    if int in choices or float in choices:
        return number(name, value, int in choices)
    if isinstance(value, list):
        return tuple(tuple(pair) for pair in value)
    if isinstance(value, str) and str not in choices:
        raise InputError(f"{setting(name)} cannot be read from '{value}'.")
    return value


def number(name: str, value: Any, integer: bool = False) -> float | int:
    """Read a number, or an integer."""
    try:
        found = float(value)
        if integer and found != int(found):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        kind = "a whole number" if integer else "a number"
        raise InputError(f"{setting(name)} must be {kind}, got '{value}'.") from None
    return int(found) if integer else found
