"""Noise for privacy: exact samples of discrete distributions, from the operating system.

Whole numbers only: the last digits of floating-point noise reveal what it was added to (Mironov,
2012). The samplers are those of Canonne, Kamath and Steinke (2020), "The Discrete Gaussian for
Differential Privacy", arXiv:2004.00010, for many numbers at once. All probabilities are ratios of
integers, and no draw can be repeated: this is the one kind of random number that no seed gives.
"""

import os
from collections.abc import Callable

import numpy as np

BITS = 20
UNIT = 2**BITS  # an epsilon is a multiple of 1 / UNIT; the deviation of `gaussian`
MIN_EPSILON = 1e-6
MAX_EPSILON = 1e6


def laplace(epsilon: float, n: int) -> np.ndarray:
    """Return n draws x of discrete Laplace noise, with probabilities that go as exp(-epsilon |x|).

    Algorithm 2 of the paper with t = 2^20 and s = epsilon 2^20, which is rounded down, so that the
    noise is at least as large as `epsilon` requires.
    """
    if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
        raise ValueError(f"no noise is made for an epsilon of {epsilon:g}")
    s = int(epsilon * UNIT)
    return _redraw(lambda m: _laplace(s, m), n)


def gaussian(n: int) -> np.ndarray:
    r"""Return n draws of discrete Gaussian noise with :math:`\sigma = 2^{20}`.

    Algorithm 3 of the paper with t = sigma (any t is exact; the paper takes sigma + 1): a draw y of
    discrete Laplace noise of scale t is kept with probability :math:`\exp(-(|y| - t)^2 / 2 t^2)`.
    """

    def propose(m: int) -> tuple[np.ndarray, np.ndarray]:
        y = _redraw(lambda k: _laplace(1, k), m)
        # |y| / t exceeds 2^11 with probability exp(-2^11): the square is below 2^63.
        return y, _bernoulli_exp((np.abs(y) - UNIT) ** 2, 2 * BITS + 1)

    return _redraw(propose, n)


def _redraw(propose: Callable[[int], tuple[np.ndarray, np.ndarray]], n: int) -> np.ndarray:
    """Return n accepted draws; `propose` returns draws and which of them are accepted."""
    found = np.zeros(n, dtype=np.int64)
    left = np.arange(n)
    while len(left):
        drawn, accepted = propose(len(left))
        found[left[accepted]] = drawn[accepted]
        left = left[~accepted]
    return found


def _laplace(s: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Propose draws of discrete Laplace noise of scale UNIT / s; they may be rejected."""
    u = _bits(n, BITS).astype(np.int64)
    accepted = _series(u, BITS)
    v = np.zeros(n, dtype=np.int64)
    left = np.flatnonzero(accepted)
    while len(left):  # geometric: how often an event of probability exp(-1) happens in a row
        left = left[_series(np.full(len(left), UNIT), BITS)]
        v[left] += 1
    size = (u + UNIT * v) // s
    negative = _bits(n, 1) == 1
    return np.where(negative, -size, size), accepted & ~(negative & (size == 0))


def _bernoulli_exp(numerator: np.ndarray, bits: int) -> np.ndarray:
    """Return for each number a whether an event of probability exp(-a / 2^bits) happens.

    Algorithm 1 of the paper: as often as a / 2^bits has a 1, an event of probability exp(-1), and
    then one for the rest, by the series of the exponential.
    """
    happens = np.ones(len(numerator), dtype=bool)
    whole, rest = numerator >> bits, numerator & (2**bits - 1)
    left = np.flatnonzero(whole)
    while len(left):
        happens[left] = _series(np.full(len(left), 2**bits), bits)
        whole[left] -= 1
        left = left[happens[left] & (whole[left] > 0)]
    left = np.flatnonzero(happens)
    happens[left] = _series(rest[left], bits)
    return happens


def _series(numerator: np.ndarray, bits: int) -> np.ndarray:
    """Do the same for numbers from 0 to 2^bits."""
    happens = np.zeros(len(numerator), dtype=bool)
    left, k = np.arange(len(numerator)), 1
    while len(left):
        below = _bits(len(left), bits) < numerator[left].astype(np.uint64)
        goes_on = below & (_below(k, len(left)) == 0)
        happens[left[~goes_on]] = k % 2 == 1
        left, k = left[goes_on], k + 1
    return happens


def _below(k: int, n: int) -> np.ndarray:
    """Return n integers from 0 to k - 1, all equally probable."""
    last = np.uint64(2**64 // k * k - 1)
    words = _words(n)
    while (beyond := words > last).any():
        words[beyond] = _words(int(beyond.sum()))
    return words % np.uint64(k)


def _bits(n: int, bits: int) -> np.ndarray:
    return _words(n) >> np.uint64(64 - bits)


def _words(n: int) -> np.ndarray:
    return np.frombuffer(os.urandom(8 * n), dtype=np.uint64).copy()
