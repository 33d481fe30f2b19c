"""The bundled tables are the ones that the paper's lineage uses."""

import numpy as np
import pytest

import pfedfair as pff
from pfedfair.data import Encoder
from pfedfair.data.datasets.compas import compas


def test_adult_has_all_rows_and_the_known_rates():
    data = pff.load("adult")
    assert len(data) == 48_842
    assert data.frame.duplicated().sum() == 52
    assert data.y[data.s == 1].mean() == pytest.approx(0.304, abs=5e-4)
    assert data.y[data.s == 0].mean() == pytest.approx(0.109, abs=5e-4)


def test_compas_is_filtered_and_has_the_known_rates():
    data = pff.load("compas")
    assert (len(data), data.s.sum()) == (6_172, 2_103)
    assert data.y[data.s == 1].mean() == pytest.approx(0.391, abs=5e-4)
    assert data.y[data.s == 0].mean() == pytest.approx(0.488, abs=5e-4)


def test_compas_names_nobody():
    columns = " ".join(pff.load("compas").frame.columns)
    assert not [word for word in ("name", "dob", "case", "date", "id_") if word in columns]


def test_compas_can_be_limited_to_two_races():
    data = compas(others="african-american")
    assert set(data.frame["race"]) == {"Caucasian", "African-American"}
    assert (data.s == 0).sum() == 3_175
    with pytest.raises(pff.InputError, match="african-american"):
        compas(others="nobody")


@pytest.mark.parametrize(("name", "width"), [("adult", 64), ("compas", 11)])
def test_width_is_the_papers_without_s(name, width):
    data = pff.load(name)
    rows = np.arange(0, len(data), 7)
    encoder = Encoder.fit(data, rows)
    assert encoder.width == width
    assert encoder.transform(data.frame.iloc[rows]).shape == (len(rows), width)
