"""What the sites' tables must have in common."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.data import Encoder
from pfedfair.engines.site.schema import Description, Schema, agree, describe


def described(federation):
    rows = federation.partition.train
    names = federation.partition.names
    return [
        describe(federation.data, own, name, 0, "site")
        for own, name in zip(rows, names, strict=True)
    ]


def test_the_agreed_encoding_is_that_of_all_rows_together(federation):
    schema, refused = agree(described(federation))
    assert not refused
    together = federation.encoder
    assert schema.encoder.categories == together.categories
    for column in together.mean:
        assert schema.encoder.mean[column] == pytest.approx(together.mean[column], rel=1e-12)
        assert schema.encoder.scale[column] == pytest.approx(together.scale[column], rel=1e-12)
    assert Schema.from_json(schema.to_json()) == schema


@given(
    st.lists(
        st.lists(st.floats(-1e6, 1e6) | st.just(3.0), min_size=20, max_size=25),
        min_size=1,
        max_size=4,
    )
)
def test_moments_of_any_split_are_those_of_the_whole(parts):
    values = np.concatenate(parts) + 1e7
    half = np.arange(len(values)) % 2
    frame = pd.DataFrame({"x": values, "y": half, "s": half})
    data = pff.from_frame(frame, "y", "s")
    cuts = np.split(np.arange(len(values)), np.cumsum([len(p) for p in parts])[:-1])
    found = [describe(data, rows, str(i), i, "") for i, rows in enumerate(cuts)]
    encoder = agree(found)[0].encoder
    whole = Encoder.fit(data, np.arange(len(values)))
    assert encoder.mean["x"] == pytest.approx(whole.mean["x"], rel=1e-12)
    assert encoder.scale["x"] == pytest.approx(whole.scale["x"], rel=1e-5, abs=1e-3)


def test_a_column_that_is_constant_everywhere_has_scale_1():
    def site(name, value):
        numbers, names = {"x": (30 * value, 0.0)}, (("0", "1"), ("f", "m"), ("y", "s"))
        return Description(name, 0, 30, numbers, {}, *names, ())

    found = [site(str(i), 0.1) for i in range(3)]
    assert agree(found)[0].encoder.scale == {"x": 1.0}
    scale = agree([*found, site("3", 0.2)])[0].encoder.scale["x"]
    assert scale == pytest.approx(np.std([0.1] * 3 + [0.2]))


def test_a_description_goes_through_json_and_needs_some_rows(federation):
    one = described(federation)[0]
    assert Description.from_json(one.to_json()) == one
    with pytest.raises(pff.InputError, match="5 training rows, at least 20 are needed"):
        describe(federation.data, np.arange(5), "x", 0, "")


def test_what_most_sites_have_is_agreed(federation):
    a, b, c = described(federation)
    odd = replace(a, numbers={k: v for k, v in a.numbers.items() if k != "b"})
    schema, refused = agree([odd, b, c])
    assert list(refused) == [a.site]
    assert "column 'b' is missing" in refused[a.site]
    assert set(schema.encoder.mean) == {"a", "b", "c"}


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 0}, {"rows": "90"}, {"rows": 1e12}, {"labels": []}, {"groups": []},
        {"numbers": {"a": [float("nan"), 1.0]}}, {"numbers": {"a": [1.0, -1.0]}}, {"site": ""},
    ],
    ids=str,
)  # fmt: skip
def test_descriptions_that_cannot_be_are_refused(federation, change):
    given = json.loads(described(federation)[0].to_json())
    Description.from_json(json.dumps(given))
    with pytest.raises(ValueError, match="a description must have"):
        Description.from_json(json.dumps(given | change))
