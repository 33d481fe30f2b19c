"""NumPy's scalars as Python's numbers, which are all that files and hashes accept."""

from dataclasses import fields
from operator import index
from typing import Any

import numpy as np

from pfedfair._util.errors import InputError


def to_scalars(settings: Any) -> None:
    """Convert NumPy's scalars in the fields of a dataclass, also of a frozen one, in place."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, np.generic):
            object.__setattr__(settings, field.name, value.item())


def to_int(name: str, value: Any) -> int:
    """Return Python's or NumPy's whole number as an ``int``.

    >>> to_int("seed", np.int64(3))
    3
    """
    try:
        return index(value)
    except TypeError:
        raise InputError(f"{name} must be a whole number, got {value!r}.") from None
