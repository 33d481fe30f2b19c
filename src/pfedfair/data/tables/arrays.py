"""Inputs that are arrays: embeddings, scaled by the clients' summed moments, and pixels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from pfedfair._util.errors import InputError, known

SCALINGS = ("standard", "whiten")
COLUMN = "embedding"  # of a table with embeddings
AT_ONCE = 8192  # rows in double precision at a time
LARGE = 2**30  # bytes in single precision; more is stored in half precision
NOISE = 1e-6  # a direction with less of a standardised number's variance is rounding error
SHRINK = 1.0  # added to each direction's variance, relative to a standardised number's


@dataclass(frozen=True, eq=False)
class Moments:
    """A client's moments of its embeddings: their number, their sum, the sum of their squares.

    For whitening the squares are all products of two numbers, ``(d, d)``. The moments of several
    clients sum to those of all their rows.
    """

    n: int
    total: np.ndarray
    square: np.ndarray

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.n + other.n, self.total + other.total, self.square + other.square)


def moments(array: np.ndarray, rows: np.ndarray, products: bool = False) -> Moments:
    """Return one client's moments, in double precision."""
    width = array.shape[1]
    total, square = np.zeros(width), np.zeros((width, width) if products else width)
    for part in _parts(rows):
        x = array[part].astype(np.float64)
        total += x.sum(0)
        square += x.T @ x if products else (x * x).sum(0)
    return Moments(len(rows), total, square)


@dataclass(frozen=True, eq=False)
class EmbeddingScaler:
    """Standardise or whiten embeddings.

    ``x`` becomes ``(x - mean) * turn``, elementwise, or with a `turn` ``(d, k)``
    ``(x - mean) @ turn``: then the k numbers of the training rows are uncorrelated, and those of
    large variance are shrunk to a variance of nearly 1. Those of small variance are not amplified:
    with few rows they are noise.
    """

    mean: np.ndarray
    turn: np.ndarray

    @classmethod
    def fit(
        cls, array: np.ndarray, clients: Sequence[np.ndarray], scaling: str = "standard"
    ) -> EmbeddingScaler:
        """Fit on the training rows of all clients, from the sum of their moments."""
        whiten = known("scaling", scaling, SCALINGS) == "whiten"
        first, *others = (moments(array, rows, whiten) for rows in clients)
        return cls.of(sum(others, first))

    @classmethod
    def of(cls, sums: Moments) -> EmbeddingScaler:
        """Return the scaler for the moments of all clients' rows."""
        mean = sums.total / sums.n
        if sums.square.ndim == 1:
            return cls(*map(_single, (mean, 1 / _spread(sums.square / sums.n - mean**2, mean))))
        covariance = sums.square / sums.n - np.outer(mean, mean)
        spread = _spread(np.diag(covariance), mean)
        size, directions = np.linalg.eigh(covariance / np.outer(spread, spread))
        signal = size > NOISE
        turn = directions[:, signal] / np.sqrt(size[signal] + SHRINK) / spread[:, None]
        return cls(*map(_single, (mean, turn)))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.width,)

    @property
    def width(self) -> int:
        return int(self.turn.shape[-1])

    def transform(self, rows: Any) -> np.ndarray:
        """Return the inputs of the network, ``(n, width)``, from embeddings or a table of them."""
        array = _embeddings(rows)
        if array.ndim != 2 or array.shape[1] != len(self.mean):
            wide = array.shape[1] if array.ndim == 2 else "?"
            raise InputError(
                f"The model takes embeddings of {len(self.mean)} numbers, these have {wide}: make "
                "them with the encoder that the model was trained on."
            )
        large = 4 * len(array) * self.width > LARGE
        out = np.empty((len(array), self.width), np.float16 if large else np.float32)
        for part in _parts(np.arange(len(array))):
            x = array[part].astype(np.float32) - self.mean
            scaled = x * self.turn if self.turn.ndim == 1 else x @ self.turn
            limit = np.finfo(out.dtype).max
            out[part] = np.clip(scaled, -limit, limit)
            if not np.isfinite(out[part]).all():
                row = part[np.flatnonzero(~np.isfinite(out[part]).all(1))[0]]
                raise InputError(f"The embedding in row {row} has numbers that are not finite.")
        return out

    pack = transform

    def unseen(self, rows: Any, packed: np.ndarray) -> tuple[dict[str, int], dict[str, int]]:
        return {}, {}  # they have no cells

    def unknown(self, rows: Any, packed: np.ndarray) -> tuple[()]:
        return ()

    def unpack(self, packed: Tensor) -> Tensor:
        return packed.float()

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "wide"}

    def tensors(self) -> dict[str, np.ndarray]:
        return {"mean": self.mean, "turn": self.turn}


@dataclass(frozen=True)
class Pixels:
    """Unchanged images, ``(3, height, width)`` integers from 0 to 255."""

    shape: tuple[int, ...]

    @property
    def width(self) -> int:
        return int(np.prod(self.shape))

    def transform(self, rows: Any) -> np.ndarray:
        array = np.asarray(rows)
        if array.dtype != np.uint8 or array.shape[1:] != self.shape:
            raise InputError(
                f"The model takes images {self.shape} of bytes, these are {array.shape[1:]} of "
                f"{array.dtype}."
            )
        return array

    pack = transform

    def unseen(self, rows: Any, packed: np.ndarray) -> tuple[dict[str, int], dict[str, int]]:
        return {}, {}  # they have no cells

    def unknown(self, rows: Any, packed: np.ndarray) -> tuple[()]:
        return ()

    def unpack(self, packed: Tensor) -> Tensor:
        return packed.float()

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "pixels", "shape": list(self.shape)}

    def tensors(self) -> dict[str, np.ndarray]:
        return {}


def _embeddings(rows: Any) -> np.ndarray:
    if isinstance(rows, pd.DataFrame):
        if COLUMN not in rows:
            raise InputError(f"The rows lack the column '{COLUMN}', the input of the model.")
        try:
            return np.stack([np.asarray(x, np.float32) for x in rows[COLUMN]])
        except (TypeError, ValueError):
            raise InputError(
                f"The column '{COLUMN}' must hold lists of numbers, all of the same length."
            ) from None
    return np.asarray(rows)


def unfold(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with a column for each number of its embeddings."""
    array = _embeddings(frame).astype(np.float32)
    names = [f"{COLUMN} {k}" for k in range(array.shape[1])]
    rest = frame.drop(columns=COLUMN).reset_index(drop=True)
    return pd.concat([rest, pd.DataFrame(array, columns=names)], axis=1)


def _parts(rows: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(rows), AT_ONCE):
        yield rows[start : start + AT_ONCE]


def _single(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32)


def _spread(variance: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return standard deviations; 1 for a number that is constant."""
    varies = variance > 1e-12 * (mean**2 + variance.max(initial=0.0))
    return np.where(varies, np.sqrt(np.where(varies, variance, 1.0)), 1.0)
