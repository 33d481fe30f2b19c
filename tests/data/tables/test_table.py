import numpy as np
import pandas as pd
import pytest

import pfedfair as pff


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [0, 0, 0, 0]}, "'y' must have 2 to 20 different values, it has 1"),
        ({"s": ["m", "m", "m", "m"]}, "'s' must have 2 to 100 different values, it has 1"),
        ({"s": ["m", "f", "x", "m"]}, "has 3 groups with fewer than 30 rows, 'f' with 1 the first"),
        ({"y": [0, None, 1, 0]}, "'y' has 1 missing values"),
        ({"y": [0, "?", 1, 0]}, "'y' has 1 missing values"),
        ({"x": [[1], [2], [3], [4]]}, "Column 'x' holds lists"),
    ],
)
def test_bad_tables_are_refused_with_a_sentence(change, message):
    frame = pd.DataFrame({"x": [0.0, 1, 2, 3], "y": [0, 1, 0, 1], "s": ["m", "f", "f", "m"]})
    with pytest.raises(pff.InputError, match=message):
        pff.from_frame(frame.assign(**change), "y", "s")


def test_labels_are_coded_in_order_and_twenty_are_the_most():
    frame = pd.DataFrame({"x": np.arange(42.0), "y": np.arange(42) % 21, "s": np.arange(42) % 2})
    data = pff.from_frame(frame[frame["y"] > 0], "y", "s")
    assert data.label_names == tuple(map(str, range(1, 21)))
    np.testing.assert_array_equal(data.y, frame["y"][frame["y"] > 0] - 1)
    with pytest.raises(pff.InputError, match="'y' must have 2 to 20 different values, it has 21"):
        pff.from_frame(frame, "y", "s")


def test_roles_and_column_names_are_checked():
    frame = pd.DataFrame({"x": [0.0, 1, 2, 3], "y": [0, 1, 0, 1], "s": ["m", "f", "f", "m"]})
    for call, message in [
        (lambda: pff.from_frame(frame, "y", "y"), "cannot be both the label and the sensitive"),
        (lambda: pff.from_frame(frame, "y", "s", drop="x,q"), "no column 'q'"),
        (lambda: pff.from_frame(frame, "y", "s", drop=["z"]), "no column 'z' to drop"),
        (lambda: pff.from_frame(frame.set_axis(list("xyy"), axis=1), "y", "x"), "more than one"),
        (lambda: pff.from_frame(frame, "y", "s", drop=["x"]).federate(
            pff.partition.by_column("x", min_rows=1), sensitive_as_input=False), "no column left"),
    ]:  # fmt: skip
        with pytest.raises(pff.InputError, match=message):
            call()


def test_load_says_what_is_wrong(csv, tmp_path):
    assert len(pff.load(csv, "hired", "sex")) == 260
    for arguments, message in [
        (("adlut",), "Unknown data set 'adlut': did you mean 'adult'"),
        (("none.csv", "y", "s"), "There is no file none.csv"),
        ((csv,), "say which column is the label"),
        ((csv, "fired", "sex"), "no column 'fired' for the label"),
        (("adult", "y", "s"), "has its own label"),
    ]:
        with pytest.raises(pff.InputError, match=message):
            pff.load(*arguments)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 nothing")
    with pytest.raises(pff.InputError, match="is not a readable table"):
        pff.load(broken, "y", "s")


PEOPLE = pd.DataFrame(
    {
        "x": np.random.default_rng(0).normal(size=80),
        "y": ["yes", "no"] * 40,
        "s": ["m", "m", "f", "f"] * 20,
        "t": ["old"] * 40 + ["young"] * 40,
        "site": ["a"] * 40 + ["b"] * 40,
    }
)


def test_the_positive_label_is_the_last():
    data = pff.from_frame(PEOPLE, "y", "s", positive="no")
    assert data.label_names == ("yes", "no")
    np.testing.assert_array_equal(data.y, PEOPLE["y"] == "no")
    numbers = PEOPLE.assign(y=(PEOPLE["y"] == "yes").astype(int))
    for positive in (0, "0", 0.0):
        assert pff.from_frame(numbers, "y", "s", positive=positive).label_names == ("1", "0")
    flags = PEOPLE.assign(y=PEOPLE["y"] == "yes")
    assert pff.from_frame(flags, "y", "s", positive=False).label_names == ("True", "False")
    three = PEOPLE.assign(y=np.arange(80) % 3)
    assert pff.from_frame(three, "y", "s", positive=1).label_names == ("0", "2", "1")
    with pytest.raises(pff.InputError, match="Unknown label 'Yes': did you mean 'yes'"):
        pff.from_frame(PEOPLE, "y", "s", positive="Yes")


def test_the_positive_label_reaches_load_whatever_it_is(tmp_path):
    path = tmp_path / "t.csv"
    PEOPLE.assign(y=(PEOPLE["y"] == "yes").astype(int)).to_csv(path, index=False)
    assert pff.load(path, "y", "s", positive=0).label_names == ("1", "0")
    with pytest.raises(pff.InputError, match="leave out positive"):
        pff.load("adult", positive=">50K")


def test_an_ordered_column_has_its_own_order():
    grade = pd.Categorical(["low", "high"] * 40, ["low", "high"], ordered=True)
    assert pff.from_frame(PEOPLE.assign(y=grade), "y", "s").label_names == ("low", "high")
    assert pff.from_frame(PEOPLE.assign(y=grade.as_unordered()), "y", "s").label_names == (
        "high", "low",
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore::pfedfair.CollapseWarning")
def test_s_that_is_dropped_is_no_input():
    plan = pff.partition.by_column("site")
    data = pff.from_frame(PEOPLE, "y", "s", drop=["s"])
    assert not data.aware
    assert not data.federate(plan).table.task.aware
    (note,) = [note for note in data.notes if note.startswith("S (")]
    assert note == (
        "S ('s') is no input of the model, as it is to be dropped; decision rules by group still "
        "ask for it."
    )
    run = pff.train(data.federate(plan), pff.methods.FedAvg(rounds=2), network="linear")
    model = run.personal_model(0)
    np.testing.assert_array_equal(
        model.predict_proba(PEOPLE, PEOPLE["s"]), model.predict_proba(PEOPLE, PEOPLE["s"][::-1])
    )
    assert pff.from_frame(PEOPLE, "y", "s").aware
    with pytest.raises(pff.InputError, match="'t' is a part of S: drop all of s,t, or none"):
        pff.from_frame(pd.concat([PEOPLE] * 2), "y", "s,t", drop=["t"])


@pytest.mark.parametrize("name", ["y.1", "s.2"])
def test_a_second_label_or_s_as_pandas_names_it_is_refused(name):
    frame = PEOPLE.assign(**{name: np.arange(80) % 7})
    with pytest.raises(pff.InputError, match=f"'{name}' is called like a second '{name[0]}'"):
        pff.from_frame(frame, "y", "s")
    assert name not in pff.from_frame(frame, "y", "s", drop=[name]).numeric
    assert name in pff.from_frame(frame, "y", "s", keep=[name]).numeric
    assert "x.1" in pff.from_frame(frame.rename(columns={name: "x.1"}), "y", "s").numeric


def test_tables_without_names_or_rows():
    raw = PEOPLE.set_axis(["0.5", "yes", "m", "27", "a"], axis=1)
    with pytest.raises(pff.InputError, match=r"look like values \(0.5, 27\): put a line of names"):
        pff.from_frame(raw, "y", "s")
    counted = PEOPLE.set_axis(range(5), axis=1)
    with pytest.raises(pff.InputError, match="no column 'y' for the label: choose one of 0, 1, 2"):
        pff.from_frame(counted, "y", "s")
    assert len(pff.from_frame(counted, "1", "2")) == 80
    with pytest.raises(pff.InputError, match="names of columns, but no rows"):
        pff.from_frame(PEOPLE.iloc[:0], "y", "s")
    with pytest.raises(pff.InputError, match="'y' must have 2 to 20 different values, it has 1"):
        pff.from_frame(PEOPLE.iloc[:1], "y", "s")


def test_names_near_and_names_with_spaces():
    with pytest.raises(pff.InputError, match=r"no column 'Site' to drop.*did you mean 'site'"):
        pff.from_frame(PEOPLE, "y", "s", drop=["Site"])
    twice = pd.concat([PEOPLE] * 2)
    assert pff.from_frame(twice, "y", "s, t").sensitive_column == "s,t"
    wide = pd.concat([PEOPLE, pd.DataFrame(0, PEOPLE.index, [f"c{k}" for k in range(300)])], axis=1)
    with pytest.raises(pff.InputError, match="c44 and 255 more"):
        pff.from_frame(wide, "label", "s")


EXTREMES = {
    "tiny": 1e-200, "smallest": 1e-315, "large": 1e200, "huge": 1e300, "largest": 1.7e308,
}  # fmt: skip


@pytest.mark.parametrize("encoding", ["piecewise", "standard"])
@pytest.mark.parametrize("size", EXTREMES)
@pytest.mark.filterwarnings("ignore::pfedfair.CollapseWarning")
def test_numbers_of_any_size_are_numbers(size, encoding):
    """They give the inputs that the same numbers give in another unit."""
    unit = np.clip(PEOPLE["x"] / 3, -1, 1)
    frame = PEOPLE.assign(x=unit * EXTREMES[size])
    data = pff.from_frame(frame, "y", "s", encoding=encoding, drop=["t"])
    federation = data.federate(pff.partition.by_column("site"))
    inputs = federation.table.inputs(slice(None)).numpy()
    assert np.isfinite(inputs).all()
    if size in ("tiny", "large", "huge"):
        usual = pff.from_frame(PEOPLE.assign(x=unit), "y", "s", encoding=encoding, drop=["t"])
        same = usual.federate(pff.partition.by_column("site")).table.inputs(slice(None)).numpy()
        np.testing.assert_allclose(inputs, same, atol=1e-6)
    run = pff.train(federation, pff.methods.FedAvg(rounds=1), network="linear")
    assert np.isfinite(run.shapes()["contribution"]).all()
    far = frame.assign(x=1e308)
    assert np.isfinite(run.personal_model(0).predict_proba(far, far["s"])).all()


def test_columns_that_say_nothing_are_named():
    data = pff.from_frame(PEOPLE.assign(one=1, word="a"), "y", "s")
    assert "'one' is the same in every row; 'word' is the same" in data.notes[-1]
    assert "one" not in data.numeric
    assert "word" not in data.categorical


def test_complex_numbers_are_refused():
    with pytest.raises(pff.InputError, match="Column 'z' holds complex numbers"):
        pff.from_frame(PEOPLE.assign(z=PEOPLE["x"] + 1j), "y", "s")


@pytest.mark.parametrize("cell", [[1, 2], {"a": 1}, {"a": [1]}, np.arange(3)], ids=repr)
def test_lists_and_the_like_from_parquet(tmp_path, cell):
    path = tmp_path / "t.parquet"
    PEOPLE.assign(z=[cell] * 80).to_parquet(path)
    with pytest.raises(pff.InputError, match=r"Column 'z' holds lists or the like: .* or drop it"):
        pff.load(path, "y", "s")
    assert len(pff.load(path, "y", "s", drop=["z"])) == 80
    with pytest.raises(pff.InputError, match="Column 'z' holds lists"):
        pff.load(path, "z", "s")
    data = pff.load(path, "y", "s", drop=["z"])
    with pytest.raises(pff.InputError, match="Column 'z' holds lists"):
        data.federate(pff.partition.by_column("z"))
