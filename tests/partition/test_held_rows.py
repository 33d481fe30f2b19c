"""Rows for the test only: no client trains on them, and they are the pool, whatever the plan."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from dealt import assert_disjoint
from hypothesis import given, settings
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.data.dataset import PaperPlan
from pfedfair.partition import (
    PLANS,
    by_column,
    dirichlet_mixture,
    dirichlet_shares,
    fixed_shares,
    together,
)

RNG = np.random.default_rng(0)
ROWS = 900
FRAME = pd.DataFrame(
    {"x": RNG.random(ROWS), "y": RNG.integers(0, 2, ROWS), "s": RNG.integers(0, 2, ROWS),
     "site": RNG.choice(["a", "b", "c"], ROWS)}
)  # fmt: skip
SHARES = PaperPlan((40, 10), (10, 40), n_under=1, n_over=3, test_fraction=1 / 2)
DATA = replace(pff.from_frame(FRAME, "y", "s"), paper_plan=SHARES)
EACH = {
    "FixedShares": fixed_shares(validation=0.2),
    "DirichletMixture": dirichlet_mixture(5, concentration=(50, 50), validation=0.2),
    "DirichletShares": dirichlet_shares(5, validation=0.2),
    "ByColumn": by_column("site", validation=0.2),
    "Together": together(validation=0.2),
}


def test_every_plan_is_here():
    assert set(EACH) == set(PLANS)


@pytest.mark.parametrize("kind", EACH)
@given(part=st.floats(0.3, 0.6), chance=st.integers(0, 99))
@settings(max_examples=10)
def test_held_rows_never_train_and_are_the_pool(kind, part, chance):
    held = np.random.default_rng(chance).random(ROWS) < part
    found = EACH[kind].split(replace(DATA, held=held), seed=chance)
    assert_disjoint(found)
    assert not held[np.concatenate([*found.train, *found.validation])].any()
    assert np.array_equal(np.sort(found.pool), np.flatnonzero(held))
    assert all(held[rows].all() for rows in found.test)
    assert all(len(rows) for rows in (*found.train, *found.validation, *found.test))


@pytest.mark.parametrize("kind", ["ByColumn", "Together"])
def test_clients_with_all_of_their_rows_leave_none_out(kind):
    held = np.arange(ROWS) % 3 == 0
    found = EACH[kind].split(replace(DATA, held=held), seed=1)
    assert len(np.concatenate([*found.train, *found.validation, *found.test])) == ROWS


@pytest.mark.parametrize("kind", ["FixedShares", "DirichletMixture"])
def test_too_few_rows_to_train_or_to_test_are_distinguished(kind):
    with pytest.raises(pff.InputError, match=r"has \d+ to train and \d+ to test: ask for fewer"):
        EACH[kind].split(replace(DATA, held=np.arange(ROWS) < 850), seed=0)
    with pytest.raises(pff.InputError, match=r"has \d+ to train and \d to test: ask for fewer"):
        EACH[kind].split(replace(DATA, held=np.arange(ROWS) < 9), seed=0)


@pytest.mark.parametrize("kind", EACH)
def test_without_held_rows_nothing_changed(kind):
    once, again = (EACH[kind].split(data, 4) for data in (DATA, replace(DATA, held=None)))
    assert all(map(np.array_equal, once.train, again.train))
    assert np.array_equal(once.pool, again.pool)
