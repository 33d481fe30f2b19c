"""Random draws by row identifier, or by inputs: the same applicant gets the same draw twice.

A draw is a number in [0, 1) made from a key, the client's name and the row's id, by BLAKE2b. It
does not depend on the order of rows, on other rows, or on the rule: with a stricter target the
same rows are the next to get the decision. A draw cannot be computed without the key.
"""

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from torch import Tensor

SIZE = 32  # bytes of a key


def key_of(seed: int, w: Tensor) -> bytes:
    """Return a run's key: the same for the same run, unknown without its model."""
    model = w.detach().contiguous().numpy().tobytes()
    return blake2b(model, key=str(seed).encode(), digest_size=SIZE).digest()


def key_from_text(key: str) -> bytes:
    """Return a key made from a typed text."""
    return blake2b(key.encode(), person=b"pfedfair", digest_size=SIZE).digest()


def of_client(key: bytes, client: str) -> bytes:
    """Return a client's key: the same id has another draw at another client."""
    return blake2b(client.encode(), key=key, digest_size=SIZE).digest()


def row_ids(x: np.ndarray, s: np.ndarray, seen: Counter[bytes] | None = None) -> list[bytes]:
    """Identify rows by all inputs of a model, and by how many equal rows came before.

    Equal rows must have draws of their own: a rule that randomises would else decide on all of them
    in one way. `seen` counts the rows of earlier parts of a table.
    """
    seen = Counter() if seen is None else seen
    rows, ids = np.ascontiguousarray(x + 0 if x.dtype.kind == "f" else x), []  # -0 is 0
    for row, group in zip(rows, s, strict=True):
        id = row.tobytes() + int(group).to_bytes(2)
        before = seen[id]
        seen[id] += 1
        ids.append(id + b" %d" % before if before else id)
    return ids


def draw(key: bytes, ids: Iterable[bytes]) -> np.ndarray:
    """Return the random draw of each id, by a client's key.

    >>> key = of_client(key_from_text("a secret"), "north")
    >>> bool((draw(key, [b"1", b"2"])[::-1] == draw(key, [b"2", b"1"])).all())
    True
    """
    hashes = (blake2b(id, key=key, digest_size=8).digest() for id in ids)
    integers = np.frombuffer(b"".join(hashes), dtype="<u8")
    return (integers >> np.uint64(11)) * 2.0**-53
