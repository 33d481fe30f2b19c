import numpy as np
import pandas as pd
import pytest

import pfedfair as pff
from pfedfair.data import Encoder


def test_numbers_are_standardised_on_training_rows_only(table):
    rows = np.arange(50)
    encoder = Encoder.fit(table, rows)
    x = encoder.transform(table.frame)
    np.testing.assert_allclose(x[rows, :3].mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(x[rows, :3].std(0), 1, rtol=1e-5)
    a = table.frame["a"]
    expected = (a.iloc[200] - a.iloc[:50].mean()) / a.iloc[:50].std(ddof=0)
    assert x[200, 0] == pytest.approx(expected, rel=1e-5)
    assert x.shape[1] == encoder.width == 3 + 3  # S is not included


def test_categories_are_one_hot_and_an_unseen_one_is_all_zero(table):
    frame = table.frame.assign(colour=["violet", *table.frame["colour"][1:]])
    x = Encoder.fit(table, np.arange(len(table))).transform(frame)
    assert x[0, 3:6].sum() == 0
    np.testing.assert_array_equal(x[1:, 3:6].sum(1), 1)


def test_a_column_that_is_constant_in_training_does_not_explode():
    """The standard deviation of a constant 0.1 is 1e-17, not 0."""
    n = 300
    frame = pd.DataFrame({"x": [0.1] * n, "y": [0, 1] * (n // 2), "s": [0, 0, 1, 1] * (n // 4)})
    frame.loc[n - 1, "x"] = 0.2
    data = pff.from_frame(frame, "y", "s")
    x = Encoder.fit(data, np.arange(n - 1)).transform(frame)
    np.testing.assert_allclose(x[:-1, 0], 0, atol=1e-6)
    assert x[-1, 0] == pytest.approx(0.1)


def test_an_empty_number_is_as_the_mean_and_flagged_if_training_rows_had_such():
    frame = pd.DataFrame({"x": [1.0, np.nan, 3.0, np.inf], "z": [0.0, 1, 2, 3]})
    frame["y"], frame["s"] = [0, 1, 0, 1], [0, 0, 1, 1]
    data = pff.from_frame(frame, "y", "s")
    encoder = Encoder.fit(data, np.arange(4))
    assert (encoder.mean["x"], encoder.scale["x"], encoder.gaps) == (2.0, 1.0, ("x",))
    np.testing.assert_array_equal(
        encoder.transform(frame)[:, [0, 2]], [[-1, 0], [0, 1], [1, 0], [0, 1]]
    )
    assert encoder.width == 3
    assert Encoder.fit(data, np.array([0, 2])).transform(frame)[1, 0] == 0


def test_an_empty_category_is_a_category_of_its_own():
    frame = pd.DataFrame({"c": ["a", None, "a", None], "y": [0, 1, 0, 1], "s": [0, 0, 1, 1]})
    data = pff.from_frame(frame, "y", "s")
    assert Encoder.fit(data, np.arange(4)).categories["c"] == ("?", "a")


def test_the_client_column_is_not_an_input(table):
    data = pff.from_frame(table.frame, "hired", "sex")
    assert "site" in data.categorical
    federation = data.federate(pff.partition.by_column("site"))
    assert list(federation.encoder.categories) == ["colour"]
