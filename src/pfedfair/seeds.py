"""Every random number of a run comes from one root seed, by purpose."""

import numpy as np

PARTITION, INIT, MINIBATCH, POSTERIOR, HELD, NOISE, GUARANTEE, TIES, DUMMY, ADVERSARY = range(10)


def generator(seed: int, *purpose: int) -> np.random.Generator:
    """Return an independent stream for a purpose, e.g. ``(MINIBATCH, client, epoch)``.

    A stream depends on nothing but its name, so a client draws the same minibatches alone at its
    site, in a stack with others, or after a resume.

    >>> generator(0, PARTITION).integers(100) == generator(0, PARTITION).integers(100)
    np.True_
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=purpose))
