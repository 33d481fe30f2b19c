import numpy as np
import pytest
from dealt import assert_disjoint
from hypothesis import given, settings
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.partition import together

COMPAS = pff.load("compas", sensitive="male,age_cat")


@given(test=st.floats(0, 0.9), validation=st.floats(0, 0.9), seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_one_client_has_every_row_once(test, validation, seed):
    part = together(test, validation).split(COMPAS, seed)
    assert part.names == ("everybody",)
    assert_disjoint(part)
    rows = np.concatenate([part.train[0], part.validation[0], part.test[0]])
    np.testing.assert_array_equal(np.sort(rows), np.arange(len(COMPAS)))
    size = np.bincount(COMPAS.s)
    assert (abs(np.bincount(COMPAS.s[part.pool], minlength=6) - test * size) <= 0.5).all()


def test_centralised_training(table):
    federation = table.federate(together(), seed=0)
    assert len(federation) == 1
    run = pff.train(federation, pff.methods.FedAvg(rounds=3))
    assert run.table()["n_test"].tolist() == [len(federation.partition.pool)]
    with pytest.raises(pff.InputError, match="'everybody' has no held-out rows"):
        pff.train(table.federate(together(test=0.0)), pff.methods.FedAvg(rounds=1)).table()
