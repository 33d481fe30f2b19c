import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.partition import dirichlet_shares

COMPAS = pff.load("compas", sensitive="male,age_cat")  # six groups


@given(
    clients=st.integers(1, 8),
    concentration=st.floats(0.5, 50),
    test=st.floats(0.1, 0.5),
    validation=st.floats(0, 0.4),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=30)
def test_drawn_shares_deal_every_group_and_no_row_twice(
    clients, concentration, test, validation, seed
):
    data = COMPAS
    part = dirichlet_shares(clients, concentration, test, validation).split(data, seed)
    assert part.shared_conditional
    assert len(part.names) == clients
    used = np.concatenate([*part.train, *part.validation])
    assert len(set(used)) == len(used)
    assert set(used) | set(part.pool) == set(range(len(data)))
    assert not set(used) & set(part.pool)
    tested = np.concatenate(part.test)
    assert len(set(tested)) == len(tested)
    assert set(tested) <= set(part.pool)
    dealt, size = np.bincount(data.s[used], minlength=6), np.bincount(data.s)
    assert (dealt > 0).all()
    assert (dealt <= (1 - test) * size).all()
    assert (dealt >= (1 - test) * size - 2 * clients - 1).all()  # but for rounding down
    np.testing.assert_allclose(part.shares.sum(1), 1)
    for i in range(clients):
        own = np.concatenate([part.train[i], part.validation[i]])
        if len(own):
            expected = np.bincount(data.s[own], minlength=6) / len(own)
            np.testing.assert_allclose(part.shares[i], expected)


def test_a_small_concentration_makes_clients_that_differ():
    data = pff.load("adult", sensitive="sex,race")

    def spread(concentration):
        return dirichlet_shares(10, concentration).split(data, 0).shares.std(0).mean()

    assert spread(0.5) > 2 * spread(50)
    again = [dirichlet_shares(5).split(data, 1).train for _ in range(2)]
    for one, other in zip(*again, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dirichlet_shares(0), "at least one client, got 0"),
        (lambda: dirichlet_shares(3, 0.0), "concentration must be a positive number, got 0"),
        (lambda: dirichlet_shares(3, float("inf")), "concentration must be a positive number"),
        (lambda: dirichlet_shares(3, test=1.0), "test must be between 0 and 1, got 1"),
        (lambda: dirichlet_shares(3, validation=1.0), r"validation must be in \[0, 1\)"),
    ],
)
def test_bad_shares(call, message):
    with pytest.raises(pff.InputError, match=message):
        call()
