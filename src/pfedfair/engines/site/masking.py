"""Masked integers modulo 2^64, of which only the sum can be read.

A number x is sent as round(x * 2^bits), plus pseudorandom masks. A site shares one mask with every
other site, which one of the two adds and the other subtracts, and has a private one: in the sum of
all, the shared masks cancel. Sums of integers are exact, and the error of other numbers is at most
half a step of 2^-bits for each site. All sums must stay within a quarter of the range of 64 bits,
so that an overflow is detected.

Masks are AES-256 in counter mode: without the key they cannot be distinguished from random numbers.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple

import numpy as np
import torch

from pfedfair._util.errors import InputError
from pfedfair.methods import State

MASKED = "masked"  # the name of the vector in an answer
MIN_SITES = 3  # sites in a sum: of two, each would know the other's numbers
MAX_SUM = 2**62  # of all sites
BITS = {"sum": 24, "size": 24, "uniform": 40}  # after the point; no server can change them
Shapes = tuple[tuple[str, tuple[int, ...]], ...]  # names and shapes, in the vector's order


class Scale(NamedTuple):
    """How a message is quantised: the same at all sites and the server.

    `how` is the method's `sums`.
    """

    how: Mapping[str, str]
    models: tuple[str, ...]

    def bits(self, name: str) -> int:
        return BITS[self.how[name]]


def min_threshold(sites: int) -> int:
    """Return how many sites must sign and unmask a sum: the least that a site accepts.

    Two lists of survivors with `threshold` signatures each have 2 * threshold - sites signers in
    common or more, and a site signs twice only if it colludes with the server. So the threshold is
    more than (sites + 1) / 2 against a server with one site.

    >>> [min_threshold(n) for n in range(3, 10)]
    [3, 3, 4, 4, 5, 5, 6]
    """
    return (sites + 3) // 2


def max_integer(sites: int) -> float:
    """Return the largest integer that each of so many `sites` may add to a sum."""
    return 0.99 * MAX_SUM / sites


def shapes_of(message: State) -> Shapes:
    return tuple((name, tuple(message[name].shape)) for name in sorted(message))


def quantise(message: State, server: State, scale: Scale, weight: int, sites: int) -> np.ndarray:
    """Return a message as integers, of which those of `sites` sites can be added up.

    Models are differences from the server's; means are multiplied by the site's `weight`.
    """
    found = [np.ones(1, dtype=np.int64)]  # the sum counts the sites
    for name in sorted(message):
        x = message[name].double().numpy()
        if name in scale.models:
            x = x - server[name].double().numpy()
        if scale.how[name] == "size":
            x = x * weight
        steps = np.rint(x * 2.0 ** scale.bits(name))
        if not (np.abs(steps) <= max_integer(sites)).all():
            raise InputError(
                f"'{name}' has numbers that are too large for a secure sum, or none at all (NaN)."
            )
        found.append(steps.astype(np.int64).ravel())
    return np.concatenate(found)


def dequantise(
    total: np.ndarray, forms: Shapes, server: State, scale: Scale, weights: list[int]
) -> State:
    """Return the message that one client would send for all: sums and means over the sites."""
    if total[0] != len(weights) or not ((total >= -MAX_SUM) & (total <= MAX_SUM)).all():
        raise InputError(
            "The sum cannot be: a site has masked other numbers than it should. A secure "
            "sum does not reveal which one."
        )
    found: State = {}
    for name, part in zip((name for name, _ in forms), split(total[1:], forms), strict=True):
        x = part.astype(np.float64) * 2.0 ** -scale.bits(name)
        how = scale.how[name]
        if how != "sum":
            x = x / (sum(weights) if how == "size" else len(weights))
        if name in scale.models:
            x = x + server[name].double().numpy()
        tensor = torch.from_numpy(np.ascontiguousarray(x))
        found[name] = tensor.to(server[name].dtype) if name in scale.models else tensor
    return found


def state_digest(t: int, server: State) -> str:
    """Return a digest of the round and the server's state, which may recur in another run.

    The rest of what an answer depends on (the method's settings, the encoding) is not included: if
    it differs a little, the answer is almost the same.
    """
    found = sha256(str(t).encode())
    for name, tensor in sorted(server.items()):
        found.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return found.hexdigest()[:32]


def order_digest(
    state_digest: str, key: str, rounds: int, max_change: float, weights: Mapping[int, int]
) -> str:
    """Return a digest of the order to every site in a sum; `key` is of the run's settings.

    Shared masks depend on it: they cancel only if all sites got the same order. A server that sent
    the others another model, or a tiny weight or limit, would otherwise see one site in the sum.
    """
    words = [state_digest, key, int(rounds), float(max_change), sorted(weights.items())]
    return sha256(json.dumps(words).encode()).hexdigest()


def length_of(forms: Shapes) -> int:
    """Return the length of the vector that a message of these shapes is sent as."""
    return 1 + sum(int(np.prod(shape, dtype=np.int64)) for _, shape in forms)


def split(flat: np.ndarray, forms: Shapes) -> list[np.ndarray]:
    """Split a vector into arrays of these shapes."""
    sizes = [int(np.prod(shape, dtype=np.int64)) for _, shape in forms]
    ends = np.cumsum(sizes)[:-1]
    return [part.reshape(shape) for part, (_, shape) in
            zip(np.split(flat, ends), forms, strict=True)]  # fmt: skip


def mask(key: bytes, length: int) -> np.ndarray:
    """Return pseudorandom 64-bit integers, determined by the key."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(stream.update(bytes(8 * length)), dtype="<i8").astype(np.int64)


def pair_masks(number: int, keys: Mapping[int, bytes], length: int) -> np.ndarray:
    """Return the sum of a site's shared masks: of two sites the one with the lower number adds."""
    total = np.zeros(length, dtype=np.int64)
    for other, key in keys.items():
        shared = mask(key, length)
        total += shared if number < other else -shared
    return total
