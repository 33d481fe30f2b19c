"""Format numbers as text; an unknown one is a dash."""

from typing import Any

UNKNOWN = "–"


def gap(value: float | None) -> str:
    """Return a gap or target with three digits.

    >>> gap(0.03125), gap(None)
    ('0.031', '–')
    """
    return UNKNOWN if value is None else f"{value:.3f}"


def percent(value: float | None) -> str:
    r"""Return a share as percent.

    >>> percent(0.8291).replace("\u00a0", "_")
    '82.9_%'
    """
    return UNKNOWN if value is None else f"{100 * value:.1f}\u00a0%"


def no_break(text: str) -> str:
    r"""Return text without a line break between a number and its percent sign.

    >>> no_break("95 % confidence").replace("\u00a0", "_")
    '95_% confidence'
    """
    return text.replace(" %", "\u00a0%")


def count(value: Any) -> str:
    """Return a number with commas; return text unchanged.

    >>> count(2410), count("few"), count(None)
    ('2,410', 'few', '–')
    """
    if value is None:
        return UNKNOWN
    return value if isinstance(value, str) else f"{value:,}"


def size(value: int | None) -> str:
    r"""Return a number of bytes in a suitable unit.

    >>> size(640).replace("\u00a0", "_"), size(1843200).replace("\u00a0", "_")
    ('640_B', '1.8_MB')
    """
    if value is None:
        return UNKNOWN
    for unit, step in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= step:
            return f"{value / step:.1f}\u00a0{unit}"
    return f"{value}\u00a0B"


def short(value: float | None) -> str:
    """Return a target as it was given, without trailing zeros.

    >>> short(0.05), short(0.0)
    ('0.05', '0')
    """
    return UNKNOWN if value is None else f"{value:.4g}"


def at(values: list[Any] | None, place: int) -> Any:
    """Return a column's value at a position; None if there is no such column."""
    return None if values is None else values[place]


FILTERS = {
    "gap": gap, "percent": percent, "count": count, "size": size, "short": short, "at": at,
    "no_break": no_break,
}  # fmt: skip
