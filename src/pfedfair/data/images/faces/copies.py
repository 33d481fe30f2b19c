"""Find duplicate images: a model may know a test image from its training rows.

Exact copies have equal bytes. Near copies have embeddings with a cosine above a limit. To find
them, every unit vector u is split into its projection P u on a small subspace and the rest, of
which only the length r is stored. By Cauchy and Schwarz, <P u, P v> + r(u) r(v) is at least the
cosine, so pairs for which it is below the limit are excluded; for the others the cosine is
computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from pfedfair._util import seeds
from pfedfair._util.errors import InputError

MOST_ROWS = 60_000  # maximum number of rows for a search of near copies
MOST_PAIRS = 1_000_000
BLOCK = 2_048  # rows at a time
SKETCH = 96  # dimensions of the subspace
SLACK = 1e-4  # more than float32 rounds a sum of squares that is 1


@dataclass(frozen=True)
class Copies:
    """Pairs of rows ``(k, 2)``, the smaller number first; a near pair is not an exact one."""

    exact: np.ndarray
    near: np.ndarray
    cosine: np.ndarray  # of the near pairs
    limit: float
    rows: int
    looked: bool = True  # whether near copies were searched for
    more: bool = False  # whether there are more pairs than these


def copies(
    array: np.ndarray,
    near: float = 0.97,
    sha256: Sequence[str] | None = None,
    centre: bool = False,
) -> Copies:
    """Find exact and near copies among rows of embeddings, or exact ones among pixels.

    Rows are exact copies if their bytes are equal, or their images' hashes if those are given;
    an unknown hash may be empty. With `centre` the mean is subtracted first: the embeddings of some
    encoders all have a similar direction.
    """
    if not 0 < near < 1:
        raise InputError(f"near is a cosine between 0 and 1, got {near:g}.")
    same, more = _same(array, sha256)
    none = np.empty((0, 2), np.int64)
    if array.ndim != 2 or len(array) > MOST_ROWS:
        return Copies(same, none, np.empty(0), near, len(array), looked=False, more=more)
    if centre:
        array = array.astype(np.float32) - array.mean(0, dtype=np.float64).astype(np.float32)
    pairs, cosine, more_near = _near(array, near)
    new = ~np.isin(_code(pairs, len(array)), _code(same, len(array)))
    return Copies(same, pairs[new], cosine[new], near, len(array), more=more or more_near)


def crossing(pairs: np.ndarray, train_rows: np.ndarray, test_rows: np.ndarray) -> int:
    """Count the pairs of which one row is for training and the other for the test.

    >>> crossing(np.array([[0, 1], [2, 3]]), np.array([0, 1, 2]), np.array([3]))
    1
    """
    first, second = pairs.T
    forward = np.isin(first, train_rows) & np.isin(second, test_rows)
    backward = np.isin(second, train_rows) & np.isin(first, test_rows)
    return int((forward | backward).sum())


def words(
    found: Copies,
    name: str,
    train_rows: np.ndarray | None = None,
    test_rows: np.ndarray | None = None,
) -> str:
    """Return a sentence with the copies found, and how many cross from training to test."""
    least = "at least " if found.more else ""
    parts = [f"{least}{_pairs(len(found.exact))} of equal images"]
    if found.looked:
        parts.append(f"{least}{_pairs(len(found.near))} with a cosine above {found.limit:g}")
    if train_rows is not None and test_rows is not None:
        kinds = (found.exact, found.near)
        across = [crossing(pairs, train_rows, test_rows) for pairs in kinds]
        parts = [f"{p} ({n:,} across train and test)" for p, n in zip(parts, across, strict=False)]
    rest = "" if found.looked else "; near copies were not looked for"
    if not found.looked and found.rows > MOST_ROWS:
        rest += f", as there are more than {MOST_ROWS:,} rows"
    return f"Among {found.rows:,} rows of {name} there are {' and '.join(parts)}{rest}."


def _pairs(number: int) -> str:
    return f"{number:,} pair{'s' * (number != 1)}"


def _code(pairs: np.ndarray, rows: int) -> np.ndarray:
    return np.asarray(pairs[:, 0] * rows + pairs[:, 1])


def _same(array: np.ndarray, sha256: Sequence[str] | None) -> tuple[np.ndarray, bool]:
    """Return all pairs of equal rows."""
    keys = [[blake2b(np.ascontiguousarray(row).data, digest_size=16).digest() for row in array]]
    if sha256 is not None:
        hashes = enumerate(sha256)
        keys.append([h.encode() if isinstance(h, str) and h else b"?%d" % i for i, h in hashes])
    found = [_equal(np.unique(np.array(key), return_inverse=True)[1]) for key in keys]
    pairs = np.unique(np.concatenate([pairs for pairs, _ in found]), axis=0)
    return pairs[:MOST_PAIRS], len(pairs) > MOST_PAIRS or any(more for _, more in found)


def _equal(codes: np.ndarray) -> tuple[np.ndarray, bool]:
    several = np.flatnonzero(np.bincount(codes)[codes] > 1)
    order = several[np.argsort(codes[several], kind="stable")]
    parts, number = [np.empty((0, 2), np.int64)], 0
    for group in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        for at, row in enumerate(group[:-1]):
            others = group[at + 1 :]
            parts.append(np.stack([np.full(len(others), row), others], axis=1))
            if (number := number + len(others)) > MOST_PAIRS:
                return np.concatenate(parts)[:MOST_PAIRS], True
    return np.concatenate(parts), False


def _near(array: np.ndarray, limit: float) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return the pairs with a cosine above `limit`, their cosines, and whether there are more."""
    unit = array.astype(np.float32)
    unit /= np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    small = _sketch(unit)
    parts, cosines, number = [np.empty((0, 2), np.int64)], [np.empty(0)], 0
    for i, j in _blocks(len(unit)):
        high = small[i] @ small[j].T > limit - SLACK
        if i == j:
            high = np.triu(high, 1)
        if high.mean() > 0.02:  # too many to compute one by one
            high &= unit[i] @ unit[j].T > limit - SLACK
        first, second = np.nonzero(high)
        pairs = np.stack([first + i.start, second + j.start], axis=1)
        for part in np.array_split(pairs, 1 + len(pairs) // BLOCK):
            u, v = (array[part[:, side]].astype(np.float64) for side in (0, 1))
            size = np.sqrt((u * u).sum(1) * (v * v).sum(1))
            cosine = (u * v).sum(1) / np.where(size > 0, size, 1)
            parts.append(part[cosine > limit])
            cosines.append(cosine[cosine > limit])
            number += len(parts[-1])
        if number > MOST_PAIRS:
            break
    pairs, cosine = np.concatenate(parts), np.concatenate(cosines)
    order = np.lexsort(pairs.T[::-1])[:MOST_PAIRS]
    return pairs[order], cosine[order], number > MOST_PAIRS


def _sketch(unit: np.ndarray) -> np.ndarray:
    """Return rows of lower dimension whose products are at least the cosines."""
    if unit.shape[1] <= 2 * SKETCH:
        return unit
    start = seeds.generator(0).standard_normal((unit.shape[1], SKETCH)).astype(np.float32)
    basis = np.linalg.qr(unit.T @ (unit @ start))[0]
    inside = unit @ basis
    rest = np.sqrt(np.maximum(1 - (inside.astype(np.float64) ** 2).sum(1), 0) + SLACK / 10)
    return np.column_stack([inside, rest]).astype(np.float32)


def _blocks(rows: int) -> Iterator[tuple[slice, slice]]:
    cuts = [slice(at, min(at + BLOCK, rows)) for at in range(0, rows, BLOCK)]
    for number, i in enumerate(cuts):
        for j in cuts[number:]:
            yield i, j
