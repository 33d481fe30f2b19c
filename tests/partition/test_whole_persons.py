"""All rows of a person are on one side of every split, by an oracle that looks at all pairs."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from dealt import assert_disjoint
from hypothesis import given, settings
from hypothesis import strategies as st
from test_held_rows import EACH, SHARES

import pfedfair as pff
from pfedfair.partition import PLANS, by_column, stratified
from pfedfair.partition.persons import Persons, mark_shared


def visits(seed, persons=400, mean=3.0, wander=0.1):
    """Rows of persons, some of whom have rows at several clients and in several groups."""
    rng = np.random.default_rng(seed)
    size = rng.geometric(1 / mean, persons)
    person = np.repeat(np.arange(persons), size)
    n = len(person)
    frame = pd.DataFrame({"x": rng.normal(size=n), "person": [f"p{k:03}" for k in person]})
    for name, values in {"y": [0, 1], "s": [0, 1], "site": ["a", "b", "c"]}.items():
        own = rng.choice(values, persons)[person]
        frame[name] = np.where(rng.random(n) < wander, rng.choice(values, n), own)
    return frame.sample(frac=1, random_state=seed, ignore_index=True).astype({"y": int, "s": int})


def dataset(frame):
    return replace(pff.from_frame(frame, "y", "s", person="person"), paper_plan=SHARES)


def sides(part):
    """Every side of every split, as lists of rows."""
    pool = np.setdiff1d(part.pool, np.concatenate(part.test))
    return [np.concatenate(part.train), np.concatenate(part.validation),
            np.concatenate([*part.test, pool])]  # fmt: skip


def assert_no_person_on_two_sides(frame, parts):
    seen = {}
    for k, rows in enumerate(parts):
        for person in frame["person"].iloc[rows]:
            assert seen.setdefault(person, k) == k, person


@pytest.mark.parametrize("kind", PLANS)
@given(seed=st.integers(0, 10_000), mean=st.floats(1, 6), wander=st.sampled_from([0, 0.1, 0.5]))
@settings(max_examples=12, deadline=None)
def test_no_person_is_on_two_sides(kind, seed, mean, wander):
    frame = visits(seed, 500, mean, wander)
    part = EACH[kind].split(dataset(frame), seed)
    assert_disjoint(part)
    assert_no_person_on_two_sides(frame, sides(part))
    assert all(len(rows) for rows in (*part.train, *part.validation, *part.test))


@pytest.mark.parametrize("kind", ["FixedShares", "DirichletMixture", "DirichletShares"])
@pytest.mark.parametrize("seed", range(3))
def test_where_clients_are_made_no_person_is_at_two(kind, seed):
    frame = visits(seed, 500)
    part = EACH[kind].split(dataset(frame), seed)
    hands = [np.concatenate(pair) for pair in zip(part.train, part.validation, strict=True)]
    assert_no_person_on_two_sides(frame, [*hands, *part.test])


@pytest.mark.parametrize("kind", ["ByColumn", "Together"])
@pytest.mark.parametrize("seed", range(5))
def test_sides_have_about_the_wanted_sizes_also_of_each_group(kind, seed):
    frame = visits(seed, 900)
    part = EACH[kind].split(dataset(frame), seed)
    s = frame["s"].to_numpy()
    for train, check, test in zip(part.train, part.validation, part.test, strict=True):
        rows = np.concatenate([train, check, test])
        assert len(test) / len(rows) == pytest.approx(0.25, abs=0.02)
        assert len(check) / (len(check) + len(train)) == pytest.approx(0.2, abs=0.02)
        assert s[test].mean() == pytest.approx(s[rows].mean(), abs=0.06)


@pytest.mark.parametrize("kind", ["FixedShares", "DirichletMixture", "DirichletShares"])
def test_hands_have_about_as_many_rows_as_without_persons(kind):
    frame = visits(1, 500)
    data = dataset(frame)
    part, plain = (EACH[kind].split(one, 3) for one in (data, replace(data, person=None)))
    for own, usual in zip((*part.train, *part.test), (*plain.train, *plain.test), strict=True):
        assert abs(len(own) - len(usual)) <= 8  # a few persons have so many rows
    np.testing.assert_allclose(part.shares, plain.shares, atol=0.2)


@pytest.mark.parametrize("kind", PLANS)
def test_without_persons_nothing_changes(kind):
    frame = visits(0, 400)
    plain = replace(pff.from_frame(frame.drop(columns="person"), "y", "s"), paper_plan=SHARES)
    once, again = (EACH[kind].split(one, 2)
                   for one in (plain, replace(dataset(frame), person=None)))  # fmt: skip
    for name in ("train", "validation", "test"):
        assert all(map(np.array_equal, getattr(once, name), getattr(again, name)))


def test_persons_with_one_row_each_are_split_as_evenly_as_rows():
    frame = visits(0, 300, mean=1.0).assign(person=np.arange(300))
    part = EACH["Together"].split(dataset(frame), 0)
    s = frame["s"].to_numpy()
    for group in (0, 1):
        rows = np.flatnonzero(s == group)
        assert np.isin(rows, part.test[0]).sum() == pytest.approx(len(rows) / 4, abs=1)


def test_clients_who_train_on_at_most_some_rows_share_their_persons_sides():
    frame = visits(3, 600, wander=0.4)
    part = by_column("site", rows=150).split(dataset(frame), 0)
    assert_no_person_on_two_sides(frame, sides(part))
    assert all(len(rows) <= 160 for rows in part.train)


@given(
    size=st.lists(st.integers(1, 30), min_size=2, max_size=60),
    fraction=st.floats(0.05, 0.5),
    seed=st.integers(0, 999),
)
@settings(max_examples=60, deadline=None)
def test_a_side_misses_its_size_by_half_of_a_person_at_most(size, fraction, seed):
    person = np.repeat(np.arange(len(size)), size)
    s = np.random.default_rng(seed).integers(0, 2, len(size))[person]
    rows = np.arange(len(person))
    first, second = stratified(
        rows, s, fraction, np.random.default_rng(seed), Persons(person, seed, 0)
    )
    np.testing.assert_array_equal(np.sort(np.concatenate([first, second])), rows)
    assert not set(person[first]) & set(person[second])
    assert abs(len(first) - fraction * len(rows)) <= max(size)


def test_a_person_with_most_rows_leaves_no_side_empty():
    person = np.repeat([0, 1, 2, 3, 4, 5], [100, 5, 5, 5, 5, 5])
    for seed in range(20):
        persons = Persons(person, seed, 0)
        rng = np.random.default_rng(seed)
        first, _ = stratified(np.arange(125), np.zeros(125, int), 0.2, rng, persons)
        assert len(first) == 25


def test_shared_persons_are_marked():
    person = np.array([0, 1, 1, 2, 0, 3])
    marked = mark_shared(person, [np.array([0, 1]), np.array([2, 3, 5])])
    np.testing.assert_array_equal(marked, [0, -2, -2, 2, 0, 3])  # row 4 is nobody's


def test_a_column_cannot_name_clients_and_persons():
    with pytest.raises(pff.InputError, match="says whose a row is: it cannot make clients, too"):
        by_column("person").split(dataset(visits(0)), 0)
