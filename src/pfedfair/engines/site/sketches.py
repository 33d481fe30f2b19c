"""Sketches: a few random sums of a site's masked numbers, by which a liar's length shows.

If a secure sum cannot be right, or most sites are worse off with it, the server asks for sketches:
of every tensor of at least `MIN_NUMBERS` numbers the sums with random signs, one for every
`NUMBERS` of them and at most `MOST`. Such a sum of numbers with norm r is as large as r, on average
(Johnson and Lindenstrauss). Masks are linear: sites tell the sketches of the masks that they share,
both of each pair, and the server takes them off the sketch of what each has sent. So a site cannot
choose its own sketch. The signs follow from the seeds of the private masks of all sites in the sum:
each was committed to its own with its keys, and the server cannot know the others before the list
of survivors is signed. So it can try neither signs nor lists.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import sqrt
from statistics import median

import numpy as np

from pfedfair.engines.site.masking import Shapes, length_of, mask

MIN_NUMBERS = 32
NUMBERS = 16
MOST = 16
LONG = 3.0  # times the median norm, if it were known exactly
AGAINST = -0.6  # cosine with the median direction
ENOUGH = 8  # sums, for a direction or zeros to say something
COUNT = ""  # the vector's first number, by which it counts the sites: an honest site sends 1
Sketch = dict[str, np.ndarray]


def nonce_of(seed: bytes) -> str:
    """Return a site's random number for the signs, by the seed of its private mask."""
    return sha256(b"pfedfair nonce of " + seed).hexdigest()


def commitment(nonce: str) -> str:
    return sha256(f"pfedfair nonce {nonce}".encode()).hexdigest()


def seed_of(survivors: str, nonces: Mapping[int, str]) -> bytes:
    """Return the seed of the signs, by the text that the sites in the sum signed."""
    return sha256(json.dumps([survivors, sorted(nonces.items())]).encode()).digest()


def sketch(vectors: Sequence[np.ndarray], shapes: Shapes, seed: bytes) -> list[Sketch]:
    """Return the sketch of each vector of masked numbers, modulo 2^64; and its first number."""
    found: list[Sketch] = [{COUNT: vector[:1].copy()} for vector in vectors]
    start = 1  # the first number counts the sites
    for name, shape in shapes:
        stop = start + length_of(((name, shape),)) - 1
        many = min(MOST, (stop - start) // NUMBERS) if stop - start >= MIN_NUMBERS else 0
        sums = np.zeros((len(vectors), many), dtype=np.int64)
        for k in range(many):
            stream = mask(sha256(seed + f"{name} {k}".encode()).digest(), stop - start)
            signs = 1 - 2 * (stream & 1)
            for i, vector in enumerate(vectors):
                sums[i, k] = (vector[start:stop] * signs).sum()
        for one, numbers in zip(found, sums, strict=True):
            one[name] = numbers
        start = stop
    return found


def find_liars(sketches: Mapping[int, Mapping[str, np.ndarray]]) -> dict[int, str]:
    """Return the sites whose sketches are much longer than the others', 0, or against them.

    `sketches` are of comparable numbers. With few sums in a sketch a norm is a rough estimate, and
    has to be longer.
    """
    numbers = list(sketches)
    liars: dict[int, str] = {}
    for name, first in sketches[numbers[0]].items():
        if not len(first):
            continue
        each = np.stack([sketches[number][name].astype(np.float64) for number in numbers])
        norms = np.sqrt((each**2).mean(1))
        usual = median(norms.tolist())
        units = each / np.maximum(np.linalg.norm(each, axis=1, keepdims=True), 1e-300)
        middle = np.median(units, axis=0)
        cosines = units @ middle / max(float(np.linalg.norm(middle)), 1e-300)
        for number, norm, cosine in zip(numbers, norms, cosines, strict=True):
            if usual > 0 and norm > LONG * (1 + 3 / sqrt(len(first))) * usual:
                liars[number] = f"'{name}' is about {norm / usual:.2g} times as long as usual"
            elif usual > 0 and norm == 0 and len(first) >= ENOUGH:
                liars[number] = f"'{name}' is zeros"
            elif len(first) >= ENOUGH and cosine < AGAINST:
                liars.setdefault(number, f"'{name}' points against the others'")
    return liars
