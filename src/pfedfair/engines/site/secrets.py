"""A site's secret on the site's disk, and the random streams derived from it.

The random draws that hold out rows depend on it and never on the run's seed, which the server
knows. Noise has no seed at all, see `pfedfair._util.noise`.
"""

import hashlib
import os
import re
import secrets
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError
from pfedfair._util.files import temporary_path
from pfedfair._util.seeds import mixed
from pfedfair.data.tables.cells import factor, floats

NAME = "secret"
EMPTY = np.uint64(0x9E3779B97F4A7C15)  # for a missing value


def secret_of(folder: Path) -> bytes:
    """Return the site's secret: created once, readable only by its owner, the same in every run."""
    path = folder / NAME
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        temporary = temporary_path(path)
        temporary.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(temporary, flags, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)  # of two processes at once, the first wins
        except FileExistsError:
            pass
        finally:
            temporary.unlink(missing_ok=True)
    text = path.read_text().strip()
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise InputError(f"{path} does not hold a secret: delete it, and a new one is made.")
    return bytes.fromhex(text)


def seed_for(secret: bytes, purpose: str) -> int:
    """Return a secret random seed, a different one for each purpose."""
    return int.from_bytes(_digest(purpose.encode(), secret)) >> 1


def derive_row_keys(frame: pd.DataFrame, secret: bytes) -> np.ndarray:
    """Return a key for each row, ``(n,)``, that depends on its cells and the secret only.

    It does not depend on other rows: their number, their order, or the kind of column that their
    cells make. Equal rows have the same key.
    """
    total = np.zeros(len(frame), dtype=np.uint64)
    for name in frame.columns:
        key = np.uint64(int.from_bytes(_digest(f"column {name}".encode(), secret)))
        total += mixed(_cells(frame[name], secret) ^ key)
    each, inverse = np.unique(total, return_inverse=True)
    keys = [int.from_bytes(_digest(value.tobytes(), secret)) for value in each]
    return np.array(keys, dtype=np.uint64)[inverse]


def _cells(column: "pd.Series[Any]", secret: bytes) -> np.ndarray:
    """Return 64 bits for each cell: those of a number, or the digest of a text."""
    types = pd.api.types
    if types.is_numeric_dtype(column) and not types.is_bool_dtype(column):
        return _bits(floats(column))
    codes, words = factor(column)
    numbers = pd.to_numeric(pd.Series([*words, ""], dtype=object), errors="coerce")
    bits = _bits(numbers.to_numpy(np.float64))
    for i, word in enumerate(words):
        if np.isnan(numbers[i]):
            bits[i] = int.from_bytes(_digest(word.encode(), secret))
    return np.asarray(bits[codes])


def _bits(values: np.ndarray) -> np.ndarray:
    found = (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64).copy()  # -0.0 is 0.0
    found[np.isnan(values)] = EMPTY
    return found


def _digest(data: bytes, secret: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=8, key=secret).digest()
