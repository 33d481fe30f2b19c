"""Numbers that mean something in a sum alone: whole numbers modulo 2^64, hidden by masks.

A number x is sent as round(x * 2^bits), plus masks that look like chance. A site shares one mask
with every other site, which one of the two adds and the other takes off, and has one of its own: in
the sum of all the shared ones are gone. Sums of whole numbers are exact, and of others wrong by
half a step of 2^-bits for each site at the most. Everything has to stay within a quarter of what 64
bits hold, so that a sum never runs over and one that does is noticed.

Masks are AES-256 in counter mode: without the key nobody tells them from chance.
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
FEWEST = 3  # sites in a sum: of two, each would know the other's numbers
ROOM = 2**62  # what all sites together may fill
BITS = {"sum": 24, "size": 24, "uniform": 40}  # after the point; no server has a say in them
Forms = tuple[tuple[str, tuple[int, ...]], ...]  # names and shapes, in the order of the vector


class Scale(NamedTuple):
    """How a message becomes whole numbers: the same at all sites and the server.

    `how` is the method's `sums`.
    """

    how: Mapping[str, str]
    models: tuple[str, ...]

    def bits(self, name: str) -> int:
        return BITS[self.how[name]]


def least_to_open(sites: int) -> int:
    """How many of some sites must open a sum, so that a server cannot open one of one or two sites.

    It may tell each site another list of who is in the sum. To open that of two, `least` sites must
    think of each other site that it is lost, (sites - 2) * least in all; and each site thinks so of
    sites - least others at the most.

    >>> [least_to_open(n) for n in range(3, 10)]
    [3, 3, 4, 4, 5, 5, 6]
    """
    return (sites + 3) // 2


def most(sites: int) -> float:
    """How large a whole number may be, of which so many are added up."""
    return 0.99 * ROOM / sites


def forms_of(message: State) -> Forms:
    return tuple((name, tuple(message[name].shape)) for name in sorted(message))


def whole(message: State, server: State, scale: Scale, people: int, sites: int) -> np.ndarray:
    """A message as whole numbers, of which `sites` can be added up.

    Models as their way from the server's; means times `people`, what the site counts for.
    """
    found = [np.ones(1, dtype=np.int64)]  # in the sum, how many took part
    for name in sorted(message):
        x = message[name].double().numpy()
        if name in scale.models:
            x = x - server[name].double().numpy()
        if scale.how[name] == "size":
            x = x * people
        steps = np.rint(x * 2.0 ** scale.bits(name))
        if not (np.abs(steps) <= most(sites)).all():
            raise InputError(
                f"'{name}' has numbers that are too large for a secure sum, or none at all (NaN)."
            )
        found.append(steps.astype(np.int64).ravel())
    return np.concatenate(found)


def read(total: np.ndarray, forms: Forms, server: State, scale: Scale, people: list[int]) -> State:
    """What one client would have to send for all: sums, and means over those who took part."""
    if total[0] != len(people) or not ((total >= -ROOM) & (total <= ROOM)).all():
        raise InputError(
            "The sum cannot be: a site has masked other numbers than it should. Who it was, a "
            "secure sum does not tell."
        )
    found: State = {}
    for name, part in zip((name for name, _ in forms), split(total[1:], forms), strict=True):
        x = part.astype(np.float64) * 2.0 ** -scale.bits(name)
        how = scale.how[name]
        if how != "sum":
            x = x / (sum(people) if how == "size" else len(people))
        if name in scale.models:
            x = x + server[name].double().numpy()
        tensor = torch.from_numpy(np.ascontiguousarray(x))
        found[name] = tensor.to(server[name].dtype) if name in scale.models else tensor
    return found


def question(t: int, server: State) -> str:
    """A name for what the server asks from: in another run it may be the same.

    The round and the server's state. What else an answer depends on (the method's settings, the
    encoding) may be a little different, and the answer almost the same.
    """
    found = sha256(str(t).encode())
    for name, tensor in sorted(server.items()):
        found.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return found.hexdigest()[:32]


def all_asked(
    question: str, key: str, rounds: int, max_change: float, people: Mapping[int, int]
) -> str:
    """A name for all that is asked of every site in a sum; `key` is that of the run's settings.

    Shared masks depend on it: they cancel where all were asked the same. A server that gave the
    others another model, or a weight or a limit next to nothing, would see one site in the sum.
    """
    words = [question, key, int(rounds), float(max_change), sorted(people.items())]
    return sha256(json.dumps(words).encode()).hexdigest()


def length_of(forms: Forms) -> int:
    """How many numbers a message of such tensors is sent as."""
    return 1 + sum(int(np.prod(shape, dtype=np.int64)) for _, shape in forms)


def split(flat: np.ndarray, forms: Forms) -> list[np.ndarray]:
    """The parts of a vector, in their shapes."""
    sizes = [int(np.prod(shape, dtype=np.int64)) for _, shape in forms]
    ends = np.cumsum(sizes)[:-1]
    return [part.reshape(shape) for part, (_, shape) in
            zip(np.split(flat, ends), forms, strict=True)]  # fmt: skip


def mask(key: bytes, length: int) -> np.ndarray:
    """So many whole numbers, evenly from all of 64 bits; for whoever has the key, the same."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(stream.update(bytes(8 * length)), dtype="<i8").astype(np.int64)


def pair_masks(number: int, keys: Mapping[int, bytes], length: int) -> np.ndarray:
    """All masks that a site shares with others: of two sites the one with the lower number adds."""
    total = np.zeros(length, dtype=np.int64)
    for other, key in keys.items():
        one = mask(key, length)
        total += one if number < other else -one
    return total
