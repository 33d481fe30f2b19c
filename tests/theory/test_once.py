"""What is made of the same arrays is made once, and never of others."""

import gc

import numpy as np

from pfedfair.theory.once import once


def read_only(*numbers):
    array = np.array(numbers, dtype=float)
    array.flags.writeable = False
    return array


def doubling():
    calls = []

    @once
    def double(array, other):
        calls.append(None)
        return 2 * array + other

    return double, calls


def test_of_the_same_read_only_arrays_once():
    double, calls = doubling()
    one, other, again = read_only(1, 2), read_only(5, 6), read_only(1, 2)
    found = double(one, other)
    assert double(one, other) is found
    assert len(calls) == 1
    assert not found.flags.writeable
    for pair in ((again, other), (other, one), (one, one)):  # equal is not the same
        np.testing.assert_array_equal(double(*pair), 2 * pair[0] + pair[1])
    assert len(calls) == 4


def test_what_may_change_is_made_again():
    double, calls = doubling()
    one, other = np.ones(2), read_only(5, 6)
    first = double(one, other)
    one += 1
    np.testing.assert_array_equal(double(one, other), first + 2)
    assert len(calls) == 2
    assert first.flags.writeable


def test_nothing_is_kept_of_arrays_that_are_gone():
    """So another array in their place in memory is not taken for them."""
    double, calls = doubling()
    other = read_only(5, 6)
    for k in range(200):
        np.testing.assert_array_equal(double(read_only(k, 1), other), [2 * k + 5, 8])
    gc.collect()
    assert len(calls) == 200
    known = next(c.cell_contents for c in double.__closure__ if isinstance(c.cell_contents, dict))
    assert known == {}
