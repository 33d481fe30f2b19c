"""Groups that are bands of a number."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair._util.errors import in_a_command
from pfedfair.data.tables import bands

RNG = np.random.default_rng(0)
N = 400
PEOPLE = pd.DataFrame(
    {
        "age": RNG.integers(18, 80, N),
        "x": RNG.normal(size=N),
        "sex": RNG.choice(["f", "m"], N),
        "y": RNG.integers(0, 2, N),
    }
)


def test_bands_begin_where_they_say():
    data = pff.from_frame(PEOPLE, "y", "age", bands={"age": [25, 45, 65]})
    assert data.group_names == ("under 25", "25 to under 45", "45 to under 65", "65 and over")
    age = PEOPLE["age"]
    expected = (age >= 25).astype(int) + (age >= 45) + (age >= 65)
    np.testing.assert_array_equal(data.s, expected)
    assert data.numeric == ("x",)  # the number itself is no input
    (note,) = data.notes
    assert note.startswith("S is made of bands of 'age', whose number is no input: under 25 (")
    assert f"65 and over ({(age >= 65).sum()} rows)" in note


def test_a_copy_of_the_bands_is_no_input():
    data = pff.from_frame(PEOPLE.assign(old=PEOPLE["age"] >= 50), "y", "age", bands={"age": [50]})
    assert "'old' is a copy of S" in data.notes[-1]


def test_bands_beside_another_attribute():
    data = pff.from_frame(PEOPLE, "y", "sex,age", bands={"age": [50]})
    assert set(data.group_names) == {
        "f x under 50", "m x under 50", "f x 50 and over", "m x 50 and over"
    }  # fmt: skip
    words = np.array(data.group_names)[data.s]
    assert (words[0].split(" x ")[1] == "under 50") == (PEOPLE["age"][0] < 50)


def test_bundled_data_has_bands_too():
    data = pff.load("adult", sensitive="age", bands={"age": [30, 50]})
    age = data.frame["age"]
    np.testing.assert_array_equal(data.s, (age >= 30).astype(int) + (age >= 50))
    assert "age" not in data.numeric
    with pytest.raises(pff.InputError, match="say sensitive, too"):
        pff.load("adult", bands={"age": [30]})


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5, unique=True).map(sorted),
    st.lists(st.floats(-2e6, 2e6), min_size=1, max_size=30),
)
def test_cut_is_pandas_cut(edges, values):
    column = pd.Series(values, name="age")
    names = bands.names(edges)
    expected = pd.cut(column, [-np.inf, *edges, np.inf], right=False, labels=range(len(names)))
    found = bands.cut(column, edges, "It")
    assert found.cat.codes.tolist() == expected.tolist()
    assert bands.cut(found, edges, "It").tolist() == found.tolist()  # names stay as they are


def test_empty_cells_and_words():
    cells = pd.Series(["30", " 70 ", None, "under 25", "?"])
    found = bands.cut(cells, (25, 65), "It")
    assert found.astype(object).where(found.notna(), None).tolist() == [
        "25 to under 65", "65 and over", None, "under 25", None,
    ]  # fmt: skip
    with pytest.raises(pff.InputError, match="It has 'old', which is in no band"):
        bands.cut(pd.Series([1, "old"]), (25,), "It")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"age": []}, "begin at rising numbers, got none"),
        ({"age": [45, 25]}, "begin at rising numbers, got 45, 25"),
        ({"age": [25, 25]}, "rising"),
        ({"age": ["young"]}, "begin at numbers"),
        ({"age": [float("nan")]}, "rising"),
        ({"x": [0]}, "Bands are for sensitive columns, 'x' is none"),
        ({"shoes": [0]}, "'shoes' is none"),
    ],
)
def test_bad_bands_are_refused(given, message):
    with pytest.raises(pff.InputError, match=message):
        pff.from_frame(PEOPLE, "y", "age", bands=given)


def test_a_number_with_many_values_is_offered_bands():
    with pytest.raises(pff.InputError, match=r"such as bands={'age': \[\d+,\d+"):
        pff.from_frame(PEOPLE, "y", "age")
    raised = pytest.raises(pff.InputError, match=r"such as --bands x:-0\.")
    with in_a_command(), raised as refusal:
        pff.from_frame(PEOPLE, "y", "x")
    offered = str(refusal.value).rstrip(".").rpartition(" ")[2]
    data = pff.from_frame(PEOPLE, "y", "x", bands=bands.parse_bands([offered]))  # it works
    assert len(data.group_names) == 4
    with pytest.raises(pff.InputError) as refusal:  # words have no bands
        pff.from_frame(PEOPLE.assign(sex=[f"w{i}" for i in range(N)]), "y", "sex")
    assert "bands" not in str(refusal.value)


def test_typed():
    assert bands.parse_bands(["age:25, 45", "a:b:1.5"]) == {"age": (25, 45), "a:b": (1.5,)}
    for text in ("age", ":25", "age:", "age:old"):
        with pytest.raises(pff.InputError):
            bands.parse_bands([text])
    with pytest.raises(pff.InputError, match="given twice"):
        bands.parse_bands(["age:25", "age:30"])


@pytest.mark.parametrize("sensitive", ["age", "sex,age"])
def test_a_saved_run_cuts_the_numbers_of_new_rows(tmp_path, sensitive):
    data = pff.from_frame(PEOPLE, "y", sensitive, bands={"age": [30, 50]})
    run = pff.train(
        data.federate(pff.partition.together()), pff.methods.FedAvg(rounds=2), network="linear"
    )
    run.save(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["bands"] == {"age": [30, 50]}
    columns = sensitive.split(",")
    names = pd.Series(np.array(data.group_names, dtype=object)[data.s])
    for model in (run.personal_model(0), pff.load_model(tmp_path / "run", 0)):
        raw = PEOPLE[columns] if len(columns) > 1 else PEOPLE["age"]
        np.testing.assert_array_equal(model.codes(raw), data.s)
        chances = model.predict_proba(PEOPLE, raw)
        if len(columns) == 1:
            np.testing.assert_array_equal(model.predict_proba(PEOPLE, names), chances)
            np.testing.assert_array_equal(
                model.predict_proba(PEOPLE, PEOPLE["age"].to_numpy()), chances
            )


def test_a_new_client_of_a_run_with_bands(tmp_path):
    data = pff.from_frame(PEOPLE, "y", "age", bands={"age": [50]})
    federation = data.federate(pff.partition.together())
    pff.train(federation, pff.methods.Transport(rounds=8)).save(tmp_path / "run")
    model = pff.personalise(tmp_path / "run", PEOPLE.drop(columns="y"))
    assert model.codes(pd.Series([49, 50])).tolist() == [0, 1]
    assert len(model.predict(PEOPLE, PEOPLE["age"], random_state=0)) == N
