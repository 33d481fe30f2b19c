"""Every random number of a run comes from one root seed, by purpose; noise for privacy has none."""

import numpy as np

PARTITION, INIT, MINIBATCH, POSTERIOR, HELD, NOISE, GUARANTEE, TIES, DUMMY, ADVERSARY = range(10)
PERSONS, NOISE_FLOOR, CERTIFICATE = 10, 11, 12


def generator(seed: int, *purpose: int) -> np.random.Generator:
    """Return an independent stream for a purpose, e.g. ``(MINIBATCH, client, epoch)``.

    A stream depends on nothing but its name, so a client draws the same minibatches at its
    site, in a stack with others, or after a resume.

    >>> generator(0, PARTITION).integers(100) == generator(0, PARTITION).integers(100)
    np.True_
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=purpose))


def mixed(numbers: np.ndarray) -> np.ndarray:
    """Spread 64-bit numbers, one to one: near ones have nothing in common (SplitMix64)."""
    x = np.array(numbers, dtype=np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(x ^ (x >> np.uint64(31)))


def uniforms(marks: np.ndarray, seed: int, *purpose: int) -> np.ndarray:
    """Return a number in [0, 1) for each mark, which depends on no other mark.

    >>> marks = np.array([3, 8, 5], dtype=np.uint64)
    >>> (uniforms(marks, 0, HELD)[1:] == uniforms(marks[1:], 0, HELD)).all()
    np.True_
    """
    key, shift = np.random.SeedSequence(seed, spawn_key=purpose).generate_state(2, np.uint64)
    return np.asarray((mixed(mixed(marks ^ key) + shift) >> np.uint64(11)) * 2.0**-53)
