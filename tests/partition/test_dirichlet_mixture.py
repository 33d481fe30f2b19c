import numpy as np
import pytest

import pfedfair as pff
from pfedfair.partition import dirichlet_mixture


def test_dirichlet_means_are_exact_and_shares_vary():
    part = dirichlet_mixture(50).split(pff.load("adult"), seed=0)
    shares = part.share_s1
    assert shares[:10].mean() == pytest.approx(0.8, abs=0.003)  # rounded to whole rows
    assert shares[10:].mean() == pytest.approx(0.2, abs=0.003)
    assert 0.05 < shares[:10].std() < 0.13  # Beta(16, 4): 0.087
    again = dirichlet_mixture(50).split(pff.load("adult"), seed=0)
    np.testing.assert_array_equal(shares, again.share_s1)


def test_means_of_the_two_kinds_are_independent():
    part = dirichlet_mixture(50, means=(0.7, 0.4)).split(pff.load("adult"), seed=0)
    assert part.share_s1[:10].mean() == pytest.approx(0.7, abs=0.003)
    assert part.share_s1[10:].mean() == pytest.approx(0.4, abs=0.003)
