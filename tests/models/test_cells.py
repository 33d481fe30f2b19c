"""Cells of probabilities, against the lattice written out and largest remainders by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pfedfair.data.task import outputs
from pfedfair.models import Cells, probabilities
from pfedfair.models.cells import Simplex


def lattice(classes, steps):
    """All vectors of `classes` whole numbers >= 0 that add up to `steps`."""
    if classes == 1:
        return [(steps,)]
    return [(k, *rest) for k in range(steps + 1) for rest in lattice(classes - 1, steps - k)]


def points(simplex):
    """The lattice point of every cell; the centre is the point pulled to the middle a little."""
    raw = simplex.centres * (simplex.steps + 1) - 1 / simplex.classes
    np.testing.assert_allclose(raw, np.rint(raw), atol=1e-9)
    return np.rint(raw).astype(int)


def largest_remainders(p, steps):
    """Hamilton's method: whole parts first, then one more for the largest remainders."""
    scaled = [q * steps for q in p]
    whole = [math.floor(v) for v in scaled]
    order = sorted(range(len(p)), key=lambda c: whole[c] - scaled[c])
    for c in order[: steps - sum(whole)]:
        whole[c] += 1
    return tuple(whole)


@st.composite
def vectors(draw, least=3, most=5):
    """Probabilities, some of them 0 or alike."""
    parts = st.one_of(st.floats(1e-9, 1), st.sampled_from([0.0, 0.25, 0.5, 1.0]))
    raw = np.array(draw(st.lists(parts, min_size=least, max_size=most)))
    if raw.sum() == 0:
        raw[0] = 1.0
    return raw / raw.sum()


@given(vectors(), st.integers(5, 150))
@settings(deadline=None, max_examples=200)
def test_vector_is_in_the_cell_of_its_largest_remainders(p, most):
    simplex = Simplex(len(p), most)
    cell = simplex.locate(torch.from_numpy(p)).item()
    point = tuple(points(simplex)[cell])
    assert point == largest_remainders(p, simplex.steps)
    everywhere = np.array(lattice(len(p), simplex.steps))
    distance = ((everywhere - p * simplex.steps) ** 2).sum(1)
    assert ((np.array(point) - p * simplex.steps) ** 2).sum() <= distance.min() + 1e-9


@given(st.integers(3, 6), st.integers(0, 500))
@settings(deadline=None, max_examples=60)
def test_as_many_cells_as_there_may_be(classes, more):
    most = classes + more
    simplex = Simplex(classes, most)
    assert simplex.number == len(lattice(classes, simplex.steps)) <= most
    assert len(lattice(classes, simplex.steps + 1)) > most
    assert sorted(map(tuple, points(simplex))) == sorted(lattice(classes, simplex.steps))


@pytest.mark.parametrize("classes", range(2, 13))
@pytest.mark.parametrize("most", [20, 60, 500])
def test_centres_are_in_their_own_cells(classes, most):
    simplex = Simplex(classes, most)
    assert simplex.centres.shape == (simplex.number, classes)
    np.testing.assert_allclose(simplex.centres.sum(1), 1)
    assert (simplex.centres > 0).all()
    found = simplex.locate(torch.from_numpy(simplex.centres))
    np.testing.assert_array_equal(found, np.arange(simplex.number))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.integers(1, 700))
@settings(deadline=None)
def test_two_classes_have_bins_of_equal_width(upper, bins):
    p = torch.tensor([[1 - v, v] for v in upper], dtype=torch.float64)
    expected = [min(math.floor(v * bins), bins - 1) for v in upper]
    assert Simplex(2, bins).locate(p).tolist() == expected


@pytest.mark.parametrize("classes", [3, 5, 20])
def test_a_certain_prediction_is_in_a_corner(classes):
    simplex = Simplex(classes, 300)
    cells = simplex.locate(torch.eye(classes, dtype=torch.float64))
    np.testing.assert_array_equal(points(simplex)[cells], simplex.steps * np.eye(classes))


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@given(st.integers(2, 5), st.integers(2, 5), st.integers(0, 999))
@settings(deadline=None, max_examples=60)
def test_cells_of_label_and_group_are_pairs(classes, groups, seed):
    cells = Cells(classes, 60, groups, 20)
    label, group = Simplex(classes, 60), Simplex(groups, 20)
    assert cells.number == label.number * group.number
    rng = np.random.default_rng(seed)
    both = []
    for number in (classes, groups):  # one log-odds for two
        z = 2 * rng.normal(size=(2, 30, outputs(number)))
        both.append((z, softmax(np.concatenate([0 * z, z], -1) if number == 2 else z)))
    (z, p), (head, q) = both
    place = cells.locate(torch.from_numpy(np.concatenate([z, head], -1))).numpy()
    assert place.shape == (2, 30)
    np.testing.assert_array_equal(place // group.number, label.locate(torch.from_numpy(p)))
    np.testing.assert_array_equal(place % group.number, group.locate(torch.from_numpy(q)))


@given(st.integers(2, 6), st.integers(0, 99))
@settings(deadline=None, max_examples=30)
def test_without_a_head_there_is_the_label_only(classes, seed):
    cells = Cells(classes, 100)
    assert (cells.group, cells.number) == (None, Simplex(classes, 100).number)
    z = torch.from_numpy(np.random.default_rng(seed).normal(size=(3, 8, outputs(classes))))
    assert torch.equal(cells.locate(z), Simplex(classes, 100).locate(probabilities(z)))


def test_extreme_scores_have_a_cell():
    z = torch.tensor([[1e4, -1e4, 0.0], [0.0, 0.0, 0.0], [-80.0, 80.0, 80.0]])
    places = Cells(3, 100).locate(z)
    assert len(set(places.tolist())) == 3
    assert Cells(2, 10).locate(torch.tensor([[-1e4], [0.0], [1e4]])).tolist() == [0, 5, 9]


def test_settings_make_the_same_cells_again():
    """They are what a saved run keeps."""
    for given_ in ((3, 50), (2, 20, 3, 20), (4, 80, 2, 20)):
        cells = Cells(*given_)
        again = Cells(*cells.settings)
        width = outputs(given_[0]) + (outputs(given_[2]) if len(given_) > 2 else 0)
        z = torch.randn(1, 40, width, generator=torch.Generator().manual_seed(0))
        assert torch.equal(cells.locate(z), again.locate(z))
