"""One description of a table: however it was given, it is the same object."""

from dataclasses import asdict, fields
from inspect import signature

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.cli.options import DataOptions
from pfedfair.data.tables.options import TableOptions
from pfedfair.experiments import Source

GIVEN = {
    "label": "hired",
    "sensitive": ["age", "sex"],
    "drop": "a, b",
    "categorical": ("zip",),
    "keep": ["id"],
    "merge_groups": True,
    "positive": "no",
    "bands": {"age": [25, 45]},
    "test": "test.csv",
    "person": "patient",
}


def test_texts_and_lists_are_the_same_options():
    table = TableOptions.parse(name="t.csv", **GIVEN)
    typed = {"sensitive": "age,sex", "drop": ["a", "b"], "categorical": "zip", "keep": "id"}
    assert TableOptions.parse(name="t.csv", **GIVEN | typed | {"bands": ["age:25,45"]}) == table
    assert TableOptions.parse(**asdict(table)) == table
    assert hash(table) == hash(TableOptions.parse(**asdict(table)))
    assert table.given() == ["drop", "categorical", "merge_groups", "keep", "positive", "bands",
                             "test", "person"]  # fmt: skip
    assert TableOptions.parse(label="y", sensitive="s", drop=None).given() == []


def test_a_command_says_the_same():
    table = TableOptions.parse(name="t.csv", **GIVEN)
    options = DataOptions(
        "t.csv", "hired", "age,sex", drop="a,b", categorical="zip", keep="id", merge_groups=True,
        positive="no", bands=["age:25,45"], test="test.csv", client="site", person="patient",
    )  # fmt: skip
    assert options.source == Source(**asdict(table))


def test_every_option_is_one_of_the_command_and_of_from_frame():
    names = {field.name for field in fields(TableOptions)}
    assert names <= set(signature(pff.from_frame).parameters)
    assert names - {"name"} <= {field.name for field in fields(DataOptions)}


TEXTS = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=4)
LISTS = st.lists(TEXTS, max_size=3, unique=True)
EDGES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=4, unique=True).map(sorted)


@settings(max_examples=50)
@given(LISTS, LISTS, st.booleans(), st.none() | TEXTS, st.dictionaries(TEXTS, EDGES, max_size=2))
def test_the_settings_of_a_site_say_the_same(drop, keep, merge, positive, bands):
    table = TableOptions.parse(
        name="t.csv", label="y", sensitive="s", drop=drop, keep=keep, merge_groups=merge,
        positive=positive, bands=bands, test=None,
    )  # fmt: skip
    config = table.to_config()
    assert all(isinstance(value, str | bool) for value in config.values())
    assert TableOptions.of_config(config) == table


@pytest.mark.parametrize("other", ["y", "s"])
def test_a_column_has_one_role(other):
    frame = pd.DataFrame({"y": [0, 1] * 5, "s": [1, 1, 2, 2, 1] * 2, "x": range(10)})
    with pytest.raises(pff.InputError, match=f"'{other}' cannot be both the .* and the weights"):
        pff.from_frame(frame, "y", "s", weight=other)
