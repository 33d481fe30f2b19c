"""What clients tell of their columns, and that it adds up."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.data.tables.piecewise import Piecewise
from pfedfair.data.tables.summary import Counts, Summary, Values

CELLS = st.lists(st.none() | st.integers(0, 6) | st.floats(-1e6, 1e6), min_size=1, max_size=60).map(
    lambda cells: pd.Series(cells, dtype=float)
)


@given(st.lists(CELLS, min_size=1, max_size=4))
def test_clients_values_add_up_to_those_of_all(parts):
    whole = Values.of(pd.concat(parts))
    found = Values.sum(Values.of(part) for part in parts)
    np.testing.assert_array_equal(found.values, whole.values)
    np.testing.assert_array_equal(found.counts, whole.counts)
    assert found.empty == whole.empty
    assert whole.counts.sum() + whole.empty == sum(map(len, parts))


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1), min_size=1))
def test_clients_counts_of_categories_add_up(parts):
    columns = [pd.Series(part, dtype=object) for part in parts]
    whole, found = Counts.of(pd.concat(columns)), Counts.sum(map(Counts.of, columns))
    assert found == whole


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.integers(0, 5, n).astype(float)})
    frame["c"] = rng.choice(["x", "y", "z"], n, p=[0.7, 0.28, 0.02])
    frame["b"] = frame["b"].where(rng.random(n) < 0.9)
    return pff.from_frame(frame.assign(y=np.arange(n) % 2, s=np.arange(n) // 2 % 2), "y", "s")


@given(st.lists(st.integers(1, 200), min_size=0, max_size=3), st.integers(0, 9))
def test_fitting_on_pooled_rows_is_adding_up_the_clients(cuts, seed):
    data = table(seed=seed)
    rows = np.random.default_rng(seed).permutation(len(data))
    clients = [part for part in np.split(rows, sorted(cuts)) if len(part)]
    summaries = [Summary.of(data, part, None) for part in clients]
    assert Piecewise.of(Summary.sum(summaries)) == Piecewise.fit(data, rows)


def test_a_summary_goes_through_json_and_is_checked():
    sums = Summary.of(table(), np.arange(400), None)
    text = json.dumps(sums.to_dict())
    assert json.dumps(Summary.from_dict(json.loads(text)).to_dict()) == text
    for name, change in [
        ("numbers", {"values": [1.0], "counts": [3, 4], "empty": 0}),
        ("numbers", {"values": [float("nan")], "counts": [3], "empty": 0}),
        ("numbers", {"values": [1.0], "counts": [3], "empty": -1}),
        ("categories", {"levels": {"x": -2}, "other": 0, "empty": 0}),
        ("categories", {"levels": {"x": 2}, "other": 0.5, "empty": 0}),
    ]:
        bad = json.loads(text)
        bad[name][next(iter(bad[name]))] = change
        with pytest.raises(ValueError, match="a summary must have"):
            Summary.from_dict(bad)
