"""What all plans have in common."""

import json

import pytest
from dealt import assert_disjoint
from hypothesis import given, settings
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.partition import (
    PLANS,
    by_column,
    dirichlet_mixture,
    dirichlet_shares,
    fixed_shares,
    from_dict,
    together,
)

COMPAS = pff.load("compas")


@given(
    clients=st.integers(1, 60),
    under=st.floats(0, 1),
    share=st.floats(0.05, 0.95),
    other=st.floats(0.05, 0.95),
    concentration=st.floats(0.5, 200),
    validation=st.floats(0, 0.5),
    seed=st.integers(0, 9),
)
@settings(max_examples=40, deadline=None)
def test_any_partition_is_disjoint_or_refused(
    clients, under, share, other, concentration, validation, seed
):
    for plan in (
        fixed_shares(clients, under, share, validation),
        dirichlet_mixture(clients, under, (share, other), (concentration, 9.0), validation),
    ):
        try:
            part = plan.split(COMPAS, seed)
        except pff.InputError as error:
            assert "compas has" in str(error)  # noqa: PT017
            continue
        assert_disjoint(part)
        sizes = [len(t) + len(v) for t, v in zip(part.train, part.validation, strict=True)]
        assert set(sizes) == {3000 // clients}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fixed_shares(0), "at least one client, got 0"),
        (lambda: fixed_shares(5, share=1.5), r"share must be in \[0, 1\], got 1.5"),
        (lambda: fixed_shares(validation=1.0), r"validation must be in \[0, 1\), got 1"),
        (lambda: dirichlet_mixture(-3), "at least one client, got -3"),
        (lambda: dirichlet_mixture(concentration=(0, 1)), "concentration must be positive"),
        (lambda: fixed_shares(rows=9), "say clients or column, too"),
        (lambda: fixed_shares(3, rows=0), "at least 1; say clients"),
        (lambda: together(test=1.0), r"test must be in \[0, 1\), got 1"),
        (lambda: together(validation=-0.1), r"validation must be in \[0, 1\), got -0.1"),
        (lambda: from_dict({"kind": "Lottery"}), "Unknown plan 'Lottery': choose one of Fixed"),
        (lambda: from_dict({"kind": "ByColumn", "colour": 3}), "colour do not make a plan ByCol"),
        (lambda: from_dict({"kind": "Together", "test": 2}), r"test must be in \[0, 1\), got 2"),
        (lambda: by_column("x", test=2), r"test must be in \[0, 1\), got 2"),
        (lambda: fixed_shares(9999).split(COMPAS, 0), "no row for each"),
        (lambda: by_column("shoe size").split(COMPAS, 0), "no column 'shoe size'"),
        (lambda: dirichlet_mixture(means=(1.0, 0.2)), "means must be between 0 and 1"),
        (lambda: by_column("priors_count").split(COMPAS, 0), "Client '.*' of .* has .* rows, at"),
        (lambda: by_column("race").split(COMPAS, 0), "is the label or the sensitive attribute"),
        (lambda: by_column("two_year_recid").split(COMPAS, 0), "is the label or the sensitive"),
    ],
)
def test_bad_plans_are_refused_with_a_sentence(call, message):
    with pytest.raises(pff.InputError, match=message):
        call()


PART = st.floats(0, 1, exclude_max=True)
EACH = {
    "FixedShares": st.builds(fixed_shares, st.integers(1, 99), PART, PART, PART, st.integers(1)),
    "DirichletMixture": st.builds(
        dirichlet_mixture, st.integers(1), means=st.just((0.7, 0.4)), validation=PART
    ),
    "DirichletShares": st.builds(dirichlet_shares, st.integers(1), st.floats(0.1, 9)),
    "ByColumn": st.builds(by_column, st.text(), PART, PART, st.integers(1)),
    "Together": st.builds(together, PART, PART),
}


@pytest.mark.parametrize("kind", PLANS)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_a_plan_is_its_description(kind, data):
    plan = data.draw(EACH[kind])
    assert plan.to_dict()["kind"] == kind
    again = from_dict(json.loads(json.dumps(plan.to_dict())))
    assert again == from_dict(plan.to_dict()) == plan
    assert type(again) is PLANS[kind]
    assert hash(again) == hash(plan)
    assert again.words == plan.words


def test_words_and_columns():
    plans = [
        fixed_shares(),
        dirichlet_mixture(),
        dirichlet_shares(3),
        by_column("site"),
        together(),
    ]
    assert [plan.words for plan in plans] == [
        "fixed shares", "Dirichlet shares", "drawn shares", "by site", "together",
    ]  # fmt: skip
    assert [plan.column for plan in plans] == [None, None, None, "site", None]
    assert fixed_shares(20).to_dict() == {
        "kind": "FixedShares",
        "clients": 20,
        "under_fraction": 0.2,
        "share": 0.8,
        "validation": 0.0,
        "rows": None,
    }
