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
from pfedfair.data.tables.piecewise import Piecewise
from pfedfair.engines.site.rows import Site, as_sites, federate_site
from pfedfair.engines.site.schema import Description, Schema, agree, describe, difference


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
    alike = as_sites(federation, "site")  # rows with pooled values
    together = Encoder.fit(alike.data, np.concatenate(alike.partition.train), "site")
    assert schema.encoder.categories == federation.encoder.categories
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
    data = pff.from_frame(frame, "y", "s", encoding="standard", keep=["x"])  # also a constant
    cuts = np.split(np.arange(len(values)), np.cumsum([len(p) for p in parts])[:-1])
    found = [describe(data, rows, str(i), i, "", least=1) for i, rows in enumerate(cuts)]
    encoder = agree(found)[0].encoder
    whole = Encoder.fit(data, np.arange(len(values)))
    assert encoder.mean["x"] == pytest.approx(whole.mean["x"], rel=1e-12)
    assert encoder.scale["x"] == pytest.approx(whole.scale["x"], rel=1e-5, abs=1e-3)


def test_a_column_that_is_constant_everywhere_has_scale_1():
    def site(name, value):
        numbers, names = {"x": (30 * value, 0.0, 30)}, (("0", "1"), ("f", "m"), ("y", "s"))
        return Description(name, 0, 30, numbers, {}, *names, ())

    found = [site(str(i), 0.1) for i in range(3)]
    assert agree(found)[0].encoder.scale == {"x": 1.0}
    scale = agree([*found, site("3", 0.2)])[0].encoder.scale["x"]
    assert scale == pytest.approx(np.std([0.1] * 3 + [0.2]))


def test_a_description_goes_through_json_and_needs_some_rows(federation):
    one = described(federation)[0]
    assert Description.from_json(one.to_json()) == one
    with pytest.raises(pff.InputError, match=r"5 training rows, 0 of them .* 10 .*: at least 20 "):
        describe(federation.data, np.arange(5), "x", 0, "")
    with pytest.raises(pff.InputError, match="'x' has 5 training rows: at least 20 are needed"):
        describe(federation.data, np.arange(5), "x", 0, "", least=1)


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
        {"numbers": {"a": [float("nan"), 1.0, 90]}}, {"numbers": {"a": [1.0, -1.0, 90]}},
        {"numbers": {"a": [1.0, 1.0, 10**9]}}, {"site": ""},
    ],
    ids=str,
)  # fmt: skip
def test_descriptions_that_cannot_be_are_refused(federation, change):
    given = json.loads(described(federation)[0].to_json())
    Description.from_json(json.dumps(given))
    with pytest.raises(ValueError, match="a description must have"):
        Description.from_json(json.dumps(given | change))


# --- ramps -------------------------------------------------------------------------------------


def sites(frame, cuts, label="y", sensitive="s", **options):
    """Descriptions of the parts of a table, each read by itself."""
    found = []
    for i, rows in enumerate(np.split(np.arange(len(frame)), cuts)):
        part = frame.iloc[rows].reset_index(drop=True)
        data = pff.from_frame(part, label, sensitive, part=True, **options)
        found.append(describe(data, np.arange(len(part)), str(i), i, ""))
    return found


def mixed(n=600, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.integers(0, 4, n).astype(float)})
    frame["b"] = frame["b"].where(rng.random(n) < 0.8)
    frame["c"] = rng.choice(["u", "v", "w"], n, p=[0.6, 0.37, 0.03])
    frame["day"] = pd.date_range("2020-01-01", periods=n, freq="D").astype(str)
    return frame.assign(y=np.arange(n) % 2, s=np.arange(n) // 2 % 2)


def test_sites_agree_on_knots_categories_and_missing_values():
    frame = mixed()
    found = sites(frame, [200, 400])
    found = [Description.from_json(one.to_json()) for one in found]
    schema, refused = agree(found)
    assert not refused
    assert isinstance(schema.encoder, Piecewise)
    assert Schema.from_json(schema.to_json()) == schema
    whole = Piecewise.fit(pff.from_frame(frame, "y", "s", part=True), np.arange(len(frame)))
    assert schema.encoder.names == whole.names
    assert schema.encoder.numbers["b"] == whole.numbers["b"]
    assert whole.categories["c"].names == ("u", "v", "w")
    assert schema.encoder.categories["c"].names == ("u", "v")  # w has fewer than 10 at each site
    few = (frame["c"] == "w").groupby(np.arange(600) // 200).sum()
    assert 0 < max(few) < 10
    assert schema.encoder.categories["c"].other == 0  # so few are not even others
    assert schema.encoder.transform(frame).shape == (600, schema.encoder.width)


def test_a_description_has_no_single_number_and_no_rare_word():
    frame = mixed(60)
    frame["name"] = [f"person {i // 2}" for i in range(60)]
    for one in sites(frame, [30], drop=["day"]):
        text = one.to_json()
        assert "person" not in text
        assert not any(repr(float(a)) in text for a in frame["a"])
        for values in one.summary.numbers.values():
            assert values.counts.min() >= 10
        rows = [n for column in one.summary.categories.values() for n in column.counts.values()]
        assert min(rows) >= 10


def test_a_site_with_another_encoding_is_refused():
    frame = mixed().drop(columns=["b", "day"])
    a, b, c = sites(frame, [200, 400])
    (odd,) = sites(frame.iloc[:200], [], encoding="standard")
    _, refused = agree([replace(odd, site="0"), b, c])
    assert refused == {"0": "its encoding is standard, it should be piecewise"}
    assert a.agreed == b.agreed


def test_empty_cells_are_told_in_the_standard_encoding_too():
    frame = mixed().drop(columns=["day", "c"])
    frame["a"] = frame["a"].round().clip(-1, 1)  # none is rare
    found = [Description.from_json(one.to_json())
             for one in sites(frame, [200, 400], encoding="standard")]  # fmt: skip
    encoder = agree(found)[0].encoder
    data = pff.from_frame(frame, "y", "s", encoding="standard")
    whole = Encoder.fit(data, np.arange(len(frame)))
    assert encoder.gaps == whole.gaps == ("b",)
    np.testing.assert_allclose(encoder.transform(frame), whole.transform(frame), atol=1e-6)


@pytest.mark.parametrize("column", ["b", "c", "day"])
@pytest.mark.parametrize("encoding", ["piecewise", "standard"])
@pytest.mark.parametrize("kind", [float, object])
@pytest.mark.parametrize("where", [0, 2])
def test_a_column_that_is_empty_at_one_site_fits_whatever_it_is(column, encoding, kind, where):
    """An empty column has no kind: it may hold numbers, categories or dates elsewhere."""
    frame, cuts = mixed(), [200, 400]
    parts = np.split(np.arange(600), cuts)
    found, sites_data = [], []
    for i, rows in enumerate(parts):
        part = frame.iloc[rows].reset_index(drop=True)
        if i == where:
            part[column] = pd.Series([None] * len(part), dtype=kind)
        data = pff.from_frame(part, "y", "s", part=True, encoding=encoding)
        sites_data.append(data)
        told = describe(data, np.arange(len(part)), str(i), i, "")
        found.append(Description.from_json(told.to_json()))
    schema, refused = agree(found)
    assert not refused
    assert difference(schema.agreed, found[where]) is None  # also if it comes later
    site = Site(str(where), 0, sites_data[where], np.arange(200), np.zeros(0, dtype=np.int64))
    made = federate_site(site, schema)
    assert np.isfinite(made.table.inputs(slice(None)).numpy()).all()
    other = found[where - 1]
    assert difference(schema.agreed, other) is None
    assert sorted(map(len, schema.encoder.names)) == sorted(map(len, other.names))


def test_an_empty_column_that_nobody_else_has_is_refused():
    frame = mixed()
    _, b, c = sites(frame, [200, 400])
    (odd,) = sites(frame.iloc[:200].assign(more=np.nan), [])
    _, refused = agree([replace(odd, site="0"), b, c])
    assert refused == {"0": "column 'more' is not one of the agreed columns; drop it"}


@pytest.mark.parametrize("encoding", ["piecewise", "standard"])
@pytest.mark.parametrize("timed", [(1,), (0, 1)], ids=["one has times", "two have times"])
def test_dates_without_times_fit_dates_with_times(encoding, timed):
    frame = mixed()
    hours = pd.date_range("2020-01-01 08:00", periods=600, freq="7h").astype(str)
    frame["day"] = pd.Series(hours)
    data, found = [], []
    for i, rows in enumerate(np.split(np.arange(600), [200, 400])):
        part = frame.iloc[rows].reset_index(drop=True)
        if i not in timed:
            part["day"] = part["day"].str[:10]
        data.append(pff.from_frame(part, "y", "s", part=True, encoding=encoding))
        found.append(describe(data[i], np.arange(len(part)), str(i), i, ""))
    schema, refused = agree(found)
    assert not refused
    assert ("day (hour)" in schema.encoder.names[1]) == (len(timed) == 2)
    for i, own in enumerate(data):
        assert difference(schema.agreed, found[i]) is None
        site = Site(str(i), 0, own, np.arange(200), np.zeros(0, dtype=np.int64))
        made = federate_site(site, schema)
        assert made.table.width == schema.encoder.width
    if len(timed) == 2 and encoding == "piecewise":
        told = schema.encoder.categories["day (hour)"]
        assert "0" in told.names
        assert sum(told.shares) == pytest.approx(1)
