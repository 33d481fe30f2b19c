"""Random draws that belong to a person: the same applicant gets the same draw twice.

A draw is a number in [0, 1) made from a key, the client's name and the person's id, by BLAKE2b. It
does not depend on the order of rows, on the other rows, or on the rule: with a stricter target the
same people are the next to get the decision. Nobody can compute a draw without the key.
"""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from torch import Tensor

SIZE = 32  # bytes of a key


def key_of(seed: int, w: Tensor) -> bytes:
    """Return a run's own key: the same for the same run, unknown without its model."""
    model = w.detach().contiguous().numpy().tobytes()
    return blake2b(model, key=str(seed).encode(), digest_size=SIZE).digest()


def typed(key: str) -> bytes:
    """Return a key made from a typed text."""
    return blake2b(key.encode(), person=b"pfedfair", digest_size=SIZE).digest()


def of_client(key: bytes, client: str) -> bytes:
    """Return a client's part of a key: a person has another draw at another client."""
    return blake2b(client.encode(), key=key, digest_size=SIZE).digest()


def draw(key: bytes, ids: Iterable[bytes]) -> np.ndarray:
    """Return the random draw of each id, by a client's key.

    >>> key = of_client(typed("a secret"), "north")
    >>> bool((draw(key, [b"1", b"2"])[::-1] == draw(key, [b"2", b"1"])).all())
    True
    """
    hashed = (blake2b(who, key=key, digest_size=8).digest() for who in ids)
    whole = np.frombuffer(b"".join(hashed), dtype="<u8")
    return (whole >> np.uint64(11)) * 2.0**-53
