import numpy as np
import pytest
from dealt import assert_disjoint, group_counts

import pfedfair as pff
from pfedfair.partition import fixed_shares

COMPAS = pff.load("compas")


def test_adult_has_the_papers_five_clients():
    part = fixed_shares().split(pff.load("adult"), seed=0)
    assert group_counts(part, part.train) == [(400, 2000)] + [(2000, 400)] * 4
    assert group_counts(part, part.test) == [(100, 500)] + [(500, 100)] * 4
    assert part.roles == ("underrepresented",) + ("overrepresented",) * 4
    assert len(part.pool) == 48_842 - 12_000  # everything that no client trains on
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


def test_too_many_rows_of_a_group_are_refused_with_the_counts():
    message = r"needs 3600 rows of Caucasian \(3000 to train, 600 to test\), compas has 2103"
    with pytest.raises(pff.InputError, match=message):
        fixed_shares(5, under_fraction=1.0, share=1.0).split(COMPAS, seed=0)


def test_rows_of_each_client():
    adult = pff.load("adult")
    assert fixed_shares().rows_each(adult) is None
    assert fixed_shares(20).rows_each(adult) == 600
    assert fixed_shares(20, rows=90).rows_each(adult) == 90
    part = fixed_shares(20, rows=90).split(adult, seed=0)
    assert {len(rows) for rows in part.train} == {90}
