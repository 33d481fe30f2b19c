import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.partition import by_column, dirichlet_mixture, fixed_shares

COMPAS = pff.load("compas")


def group_counts(partition, rows):
    return [tuple(np.bincount(partition.data.s[r], minlength=2)) for r in rows]


def assert_disjoint(partition):
    used = np.concatenate([*partition.train, *partition.validation])
    assert len(used) == len(set(used))
    assert not set(used) & set(partition.pool)
    assert not set(used) & set(np.concatenate(partition.test))


def test_adult_has_the_papers_five_clients():
    part = fixed_shares().split(pff.load("adult"), seed=0)
    assert group_counts(part, part.train) == [(400, 2000)] + [(2000, 400)] * 4
    assert group_counts(part, part.test) == [(100, 500)] + [(500, 100)] * 4
    assert part.roles == ("underrepresented",) + ("overrepresented",) * 4
    assert len(part.pool) == 48_842 - 12_000  # everything that nobody trains on
    assert_disjoint(part)


def test_compas_has_500_and_100():
    part = fixed_shares().split(COMPAS, seed=0)
    assert group_counts(part, part.train) == [(100, 500)] + [(500, 100)] * 4
    assert group_counts(part, part.test) == [(20, 100)] + [(100, 20)] * 4


@pytest.mark.parametrize(("clients", "rows"), [(20, 600), (50, 240)])
def test_twenty_and_fifty_clients_are_two_to_eight(clients, rows):
    part = fixed_shares(clients).split(pff.load("adult"), seed=1)
    few, many = round(0.2 * rows), round(0.8 * rows)
    under = clients // 5
    expected = [(few, many)] * under + [(many, few)] * (clients - under)
    assert group_counts(part, part.train) == expected
    assert part.roles.count("underrepresented") == under


def test_validation_rows_come_out_of_the_training_rows_in_the_clients_shares():
    whole = fixed_shares().split(COMPAS, seed=0)
    part = fixed_shares(validation=0.2).split(COMPAS, seed=0)
    assert group_counts(part, part.validation) == [(20, 100)] + [(100, 20)] * 4
    np.testing.assert_array_equal(part.pool, whole.pool)
    np.testing.assert_allclose(part.share_s1, whole.share_s1)
    np.testing.assert_allclose(part.shares, [[100 / 600, 500 / 600]] + [[500 / 600, 100 / 600]] * 4)
    np.testing.assert_array_equal(part.shares[:, 1], part.share_s1)
    assert_disjoint(part)


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


def test_dirichlet_means_are_exact_and_shares_vary():
    part = dirichlet_mixture(50).split(pff.load("adult"), seed=0)
    shares = part.share_s1
    assert shares[:10].mean() == pytest.approx(0.8, abs=0.003)  # rounded to whole rows
    assert shares[10:].mean() == pytest.approx(0.2, abs=0.003)
    assert 0.05 < shares[:10].std() < 0.13  # Beta(16, 4): 0.087
    again = dirichlet_mixture(50).split(pff.load("adult"), seed=0)
    np.testing.assert_array_equal(shares, again.share_s1)


def test_too_many_rows_of_a_group_are_refused_with_the_counts():
    message = r"needs 3600 rows of Caucasian \(3000 to train, 600 to test\), compas has 2103"
    with pytest.raises(pff.InputError, match=message):
        fixed_shares(5, under_fraction=1.0, share=1.0).split(COMPAS, seed=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fixed_shares(0), "at least one client, got 0"),
        (lambda: fixed_shares(5, share=1.5), r"share must be in \[0, 1\], got 1.5"),
        (lambda: fixed_shares(validation=1.0), r"validation must be in \[0, 1\), got 1"),
        (lambda: dirichlet_mixture(-3), "at least one client, got -3"),
        (lambda: dirichlet_mixture(concentration=(0, 1)), "concentration must be positive"),
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


def test_by_column_makes_one_client_per_value(table):
    part = by_column("site", test=0.25, validation=0.2).split(table, seed=0)
    assert part.names == ("site 0", "site 1", "site 2")
    for i, rows in enumerate(zip(part.train, part.validation, part.test, strict=True)):
        assert set(table.frame["site"].iloc[np.concatenate(rows)]) == {f"site {i}"}
    assert_disjoint(part)
    assert not part.shared_conditional
    with pytest.raises(pff.InputError, match="name the column"):
        fixed_shares().split(table, seed=0)


def test_by_column_refuses_rows_without_a_client(table):
    frame = table.frame.assign(site=[None, *table.frame["site"][1:]])
    data = pff.from_frame(frame, "hired", "sex")
    with pytest.raises(pff.InputError, match="has empty cells"):
        by_column("site").split(data, seed=0)


def test_describe_prints_the_shares(table):
    text = by_column("site").split(table, seed=0).describe()
    assert "share f" in text
    assert "site 2" in text
    assert "held-out pool: " in text
    assert isinstance(by_column("site").split(table, seed=0).table(), pd.DataFrame)


def test_nobody_is_underrepresented_in_a_balanced_federation():
    frame = pd.DataFrame({"s": [0, 1] * 60, "y": [0, 1, 1, 0] * 30, "x": 1.0, "c": ["a"] * 120})
    frame["c"] = np.where(frame.index < 60, "a", "b")
    data = pff.from_frame(frame, "y", "s")
    part = by_column("c").split(data, seed=0)
    assert part.roles == ("overrepresented", "overrepresented")


def test_means_of_the_two_kinds_are_independent():
    part = dirichlet_mixture(50, means=(0.7, 0.4)).split(pff.load("adult"), seed=0)
    assert part.share_s1[:10].mean() == pytest.approx(0.7, abs=0.003)
    assert part.share_s1[10:].mean() == pytest.approx(0.4, abs=0.003)
