"""NumPy's scalars are as good as Python's numbers; files and hashes know the latter only."""

from dataclasses import fields
from operator import index
from typing import Any

import numpy as np

from pfedfair._util.errors import InputError


def to_scalars(settings: Any) -> None:
    """Make Python's numbers of NumPy's in the fields of a dataclass, also of a frozen one."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, np.generic):
            object.__setattr__(settings, field.name, value.item())


def whole(name: str, value: Any) -> int:
    """Return a whole number, Python's or NumPy's, as Python's.

    >>> whole("seed", np.int64(3))
    3
    """
    try:
        return index(value)
    except TypeError:
        raise InputError(f"{name} must be a whole number, got {value!r}.") from None
