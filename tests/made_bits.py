"""Files of which one bit is lost."""

import random
from collections.abc import Iterator
from pathlib import Path


def flips(path: Path, tries: int = 60) -> Iterator[bytes]:
    """The file with one bit flipped, in its last number, and in many places by a fixed chance.

    White space that only fills up the head of a safetensors file has no meaning: it is left out.
    """
    whole, chance = path.read_bytes(), random.Random(0)
    head = 8 + int.from_bytes(whole[:8], "little")
    filled = range(len(whole[:head].rstrip()), head)
    places = [len(whole) - 2, *(chance.randrange(len(whole)) for _ in range(tries))]
    for at in (place for place in places if place not in filled):
        found = bytearray(whole)
        found[at] ^= 1 << chance.randrange(8)
        yield bytes(found)
