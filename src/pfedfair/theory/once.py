"""What was made of the very same arrays before is not made again.

While clients agree on how they differ, their counts stay the same, and most of what is made of
counts alone. It is remembered for as long as these arrays are there, and only if they are
read-only, so that nobody can have changed them. What is made is read-only, too: so what is made of
that, in turn, is made once.
"""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import finalize

import numpy as np

T = TypeVar("T")


def once(function: Callable[..., T]) -> Callable[..., T]:
    """Remember what a function of arrays returns; it must not hold on to these arrays."""
    known: dict[tuple[int, ...], T] = {}

    @wraps(function)
    def remembering(*arrays: np.ndarray) -> T:
        if any(array.flags.writeable for array in arrays):
            return function(*arrays)
        asked = tuple(map(id, arrays))  # forgotten before another array can have the same
        if asked not in known:
            found = known[asked] = function(*arrays)
            if isinstance(found, np.ndarray):
                found.flags.writeable = False
            for array in arrays:
                finalize(array, known.pop, asked, None).atexit = False
        return known[asked]

    return remembering
