"""Groups of several attributes: how they are made, dealt, kept apart, and asked for."""

import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.data.tables.groups import FEWEST, cross
from pfedfair.data.task import Task
from pfedfair.partition import by_column, dirichlet_shares


def table(n=900, classes=2, seed=0):
    """Two attributes that make six groups, three sites, a label."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 2)), columns=["u", "v"])
    frame["sex"] = rng.choice(["f", "m"], n)
    frame["race"] = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    frame["site"] = rng.choice(["north", "south", "west"], n)
    score = frame["u"] + 0.5 * (frame["sex"] == "m") + rng.normal(size=n)
    return frame.assign(y=np.digitize(score, np.linspace(-0.8, 0.8, classes - 1)))


def refused(call, message):
    with pytest.raises(pff.InputError, match=message) as error:
        call()
    text = str(error.value)
    assert "\n" not in text
    assert text.endswith(".")


# --- making groups -----------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(0, 60), min_size=6, max_size=6),
    merge=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=100)
def test_every_combination_that_occurs_is_a_group(sizes, merge, seed):
    pairs = [(a, b) for a in ("f", "m") for b in ("p", "q", "r")]
    rows = [pair for pair, n in zip(pairs, sizes, strict=True) for _ in range(n)]
    rows = [rows[i] for i in np.random.default_rng(seed).permutation(len(rows))]
    frame = pd.DataFrame(rows, columns=["one", "two"])
    if any(frame[c].nunique() < 2 for c in frame):
        refused(lambda: cross(frame, ["one", "two"], merge), "must have 2 to 100 different values")
        return
    count = Counter(" x ".join(pair) for pair in rows)
    small = [name for name, n in count.items() if n < FEWEST] if len(count) > 2 else []
    if small and not merge:
        first = min(small)
        refused(
            lambda: cross(frame, ["one", "two"]),
            f"'one x two' has {len(small)} groups? with fewer than {FEWEST} rows, '{first}' with "
            f"{count[first]} .*merge_groups=True",
        )
        return
    large = sorted(set(count) - set(small))
    if small and sum(count[name] for name in small) < FEWEST and large:
        large.remove(min(large, key=lambda name: count[name]))  # too few even so
    rest = " + ".join(sorted(set(count) - set(large)))
    names = (*large, rest) if small else tuple(large)
    if len(names) < 2:
        refused(lambda: cross(frame, ["one", "two"], merge), "makes 1 groups?: 2 to 20")
        return
    s, found = cross(frame, ["one", "two"], merge)
    assert found == names
    expected = [" x ".join(p) if " x ".join(p) in large else rest for p in rows]
    assert [found[z] for z in s] == expected
    if len(names) > 2:
        assert np.bincount(s).min() >= FEWEST


def test_two_groups_may_be_as_small_as_they_like():
    frame = pd.DataFrame({"s": ["f"] * 500 + ["m"] * 3})
    s, names = cross(frame, ["s"])
    assert names == ("f", "m")
    assert np.bincount(s).tolist() == [500, 3]


def test_numbers_keep_their_order_and_their_names():
    frame = pd.DataFrame({"s": [10, 9, 2] * 80, "t": [True, False] * 120})
    s, names = cross(frame, ["s"])
    assert names == ("2", "9", "10")
    assert s[:3].tolist() == [2, 1, 0]
    s, names = cross(frame, ["s", "t"])
    assert [names[z] for z in s[:3]] == ["10 x True", "9 x False", "2 x True"]


def test_more_groups_than_can_be_compared():
    frame = pd.DataFrame({"a": np.arange(2500) % 5, "b": np.arange(2500) // 5 % 5})
    refused(lambda: cross(frame, ["a", "b"]), "'a x b' makes 25 groups: 2 to 20 can be compared")


def test_a_group_that_is_called_other_is_not_mixed_up_with_the_rest():
    """Merged groups and a value of the table may not have the same name."""
    frame = table(600)
    rare = np.where(frame.index < 20, "d", "e")
    frame["race"] = frame["race"].replace("c", "other").where(frame.index >= 40, rare)
    data = pff.from_frame(frame, "y", "race", drop=["site", "sex"], merge_groups=True)
    assert len(set(data.group_names)) == len(data.group_names)
    run = pff.train(data.federate(dirichlet_shares(2)), pff.methods.Constant())
    np.testing.assert_array_equal(run.personal_model(0).codes(frame["race"]), data.s)


def test_groups_and_labels_are_arrays_of_their_own():
    """PyTorch warns of memory that cannot be written to."""
    data = pff.from_frame(table(), "y", "sex,race")
    assert data.s.flags.writeable
    assert data.y.flags.writeable


# --- data sets ---------------------------------------------------------------------------------


def test_from_frame_takes_the_attributes_out_of_the_inputs():
    data = pff.from_frame(table(), "y", "sex,race", drop=["site"])
    assert data.group_names == ("f x a", "f x b", "f x c", "m x a", "m x b", "m x c")
    assert data.numeric == ("u", "v")
    assert data.categorical == {}
    assert data.sensitive_column == "sex,race"
    expected = data.frame["sex"] + " x " + data.frame["race"]
    assert [data.group_names[z] for z in data.s] == expected.tolist()
    federation = data.federate(by_column("site"))
    assert federation.encoder.columns == ["u", "v"]
    np.testing.assert_array_equal(federation.table.s, data.s)
    blind = data.federate(by_column("site"), sensitive_as_input=False)
    np.testing.assert_array_equal(blind.table.x, federation.table.x)
    aware, unaware = (Task(6, 2, aware) for aware in (True, False))
    assert (federation.table.task, blind.table.task) == (aware, unaware)


@pytest.mark.parametrize(
    ("sensitive", "message"),
    [
        ("sex,shoes", "no column 'shoes' for the sensitive"),
        ("sex,y", "'y' cannot be both the label and the sensitive attribute"),
        ("u", "'u' must have 2 to 100 different values, it has 900"),
        ("sex,", "no column '' for the sensitive"),
    ],
)
def test_bad_attributes(sensitive, message):
    refused(lambda: pff.from_frame(table(), "y", sensitive), message)


def test_too_few_rows_of_a_group():
    frame = table(300)
    frame["race"] = np.where(frame.index < 9, "d", frame["race"])
    refused(
        lambda: pff.from_frame(frame, "y", "race"),
        "'race' has 1 groups? with fewer than 30 rows, 'd' with 9 .*merge_groups=True",
    )
    data = pff.from_frame(frame, "y", "race", merge_groups=True)
    assert data.group_names[-1].endswith(" + d")  # 9 are too few even so
    assert (data.s == len(data.group_names) - 1)[:9].all()
    assert np.bincount(data.s).min() >= FEWEST


def test_adult_by_sex_and_race():
    data = pff.load("adult", sensitive="sex,race")
    plain = pff.load("adult")
    assert len(data.group_names) == 10
    frame = plain.frame
    expected = (frame["sex"] + " x " + frame["race"]).value_counts()
    size = np.bincount(data.s)
    assert {name: size[z] for z, name in enumerate(data.group_names)} == expected.to_dict()
    assert set(plain.categorical) - set(data.categorical) == {"race"}
    assert "sex" not in data.categorical
    assert data.paper_plan is None
    np.testing.assert_array_equal(data.y, plain.y)
    refused(lambda: pff.partition.fixed_shares().split(data, 0), "has no plan of shares")


def test_another_attribute_makes_an_input_of_the_old_one():
    plain = pff.load("adult")
    data = plain.by(["race"])
    assert data.group_names == tuple(sorted(plain.frame["race"].unique()))
    assert data.sensitive_column == "race"
    assert "race" not in data.categorical
    assert "sex" in data.categorical
    rows = np.arange(2000)
    encoder = pff.data.Encoder.fit(data, rows)
    assert encoder.categories["sex"] == ("Female", "Male")
    assert plain.by(["sex"]).group_names == plain.group_names
    np.testing.assert_array_equal(plain.by(["sex"]).s, plain.s)


def test_by_and_back_again():
    """What was part of the sensitive attribute is an input, or the attribute, the next time."""
    both = pff.from_frame(table(), "y", "sex,race", drop=["site"])
    once = both.by(["sex"])
    assert once.group_names == ("f", "m")
    assert set(once.categorical) == {"race"}
    assert once.federate(dirichlet_shares(2)).encoder.columns == ["u", "v", "race"]


def test_by_a_column_that_is_no_group():
    refused(lambda: pff.load("adult", sensitive="shoes"), "no column 'shoes' of adult")
    refused(lambda: pff.load("adult", sensitive="income"), "no column 'income' of adult")
    refused(lambda: pff.load("adult", sensitive="fnlwgt"), "must have 2 to 100 different values")


def test_compas_by_race_needs_merging():
    message = "'race' has 1 groups? with fewer than 30 rows, 'Native American' with 11"
    refused(lambda: pff.load("compas", sensitive="race"), message)
    merged = pff.load("compas", sensitive="race", merge_groups=True)
    assert "Native American" not in merged.group_names
    assert np.bincount(merged.s).min() >= FEWEST


# --- names of groups, when decisions are made --------------------------------------------------


def model(frame, sensitive, **options):
    data = pff.from_frame(frame, "y", sensitive, drop=["site"], **options)
    return data, pff.train(
        data.federate(dirichlet_shares(2)), pff.methods.Constant()
    ).personal_model(0)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (["f", "m"], ["a", "b"]),
        ([0, 1], ["a", "b"]),
        ([0, 1], [3, 4]),
        ([False, True], [0, 1]),
        ([0, 1], [1.5, 2.5]),
        ([1.0, 2.0], ["a", "b"]),
    ],
    ids=["texts", "code and text", "codes", "truth and code", "code and number", "number and text"],
)
def test_columns_of_attributes_are_found_again(one, two):
    frame = table(400)
    frame["sex"] = [one[k] for k in frame["sex"] == "m"]
    frame["race"] = [two[k] for k in frame["race"] == "b"]
    data, client = model(frame, "sex,race")
    assert len(data.group_names) == 4
    np.testing.assert_array_equal(client.codes(frame[["sex", "race"]]), data.s)
    np.testing.assert_array_equal(client.codes(data.s), data.s)  # the numbers of the groups
    names = [data.group_names[z] for z in data.s]
    np.testing.assert_array_equal(client.codes(names), data.s)


def test_strangers_are_refused_and_merged_groups_are_known():
    frame = table(400)
    data, client = model(frame, "sex,race")
    strange = pd.DataFrame({"sex": ["f", "x"], "race": ["a", "a"]})
    refused(lambda: client.codes(strange), "must be f x a or .* found 'x x a'")
    frame.loc[:5, "race"] = "d"
    data, client = model(frame, "sex,race", merge_groups=True)
    assert "f x d + m x d" in data.group_names[-1]
    np.testing.assert_array_equal(client.codes(frame[["sex", "race"]]), data.s)
    refused(lambda: client.codes(strange), "found 'x x a'")
    names = [data.group_names[z] for z in data.s]
    np.testing.assert_array_equal(client.codes(names), data.s)


# --- dealing groups to clients -----------------------------------------------------------------


def test_largest_group_decides_who_is_underrepresented():
    frame = table(900)
    frame["site"] = np.where(frame["race"] == "b", "south", frame["site"])
    data = pff.from_frame(frame, "y", "race")
    part = by_column("site").split(data, 0)
    most = [np.bincount(data.s[rows]).argmax() for rows in part.train]
    overall = np.bincount(data.s[np.concatenate(part.train)]).argmax()
    expected = ["overrepresented" if z == overall else "underrepresented" for z in most]
    assert list(part.roles) == expected
    assert "underrepresented" in expected


@pytest.mark.parametrize(
    ("sizes", "names"),
    [
        ({"a": 100, "b": 10, "c": 10, "d": 40}, ("a", "b + c + d")),
        ({"a": 5, "b": 5, "c": 100, "d": 90, "e": 80, "f": 60}, ("c", "d", "e", "a + b + f")),
    ],
)
def test_too_few_even_together_join_the_smallest_group(sizes, names):
    frame = pd.DataFrame({"g": np.repeat(list(sizes), list(sizes.values()))})
    s, found = cross(frame, ["g"], merge_groups=True)
    assert found == names
    assert np.bincount(s).min() >= FEWEST


def test_one_group_of_everybody_is_refused():
    frame = pd.DataFrame({"g": np.repeat(["a", "b", "c"], [100, 10, 10])})
    with pytest.raises(pff.InputError, match="makes 1 group: 2 to 20"):
        cross(frame, ["g"], merge_groups=True)


def test_a_part_of_a_table_may_have_one_small_group():
    frame = pd.DataFrame({"g": ["a"] * 3, "y": [1] * 3, "x": [0.5] * 3})
    part = pff.from_frame(frame, "y", "g", part=True)
    assert (part.group_names, part.label_names) == (("a",), ("1",))
    with pytest.raises(pff.InputError, match="2 to 20"):
        pff.from_frame(frame, "y", "g")


# --- the command line --------------------------------------------------------------------------


@pytest.fixture
def pfedfair(pfedfair, monkeypatch):
    """Commands on a wide screen."""
    monkeypatch.setenv("COLUMNS", "160")
    return pfedfair


@pytest.fixture
def own(tmp_path):
    """A function that writes a table of one's own and says how to read it."""

    def write(classes=2, sensitive="sex,race", **columns):
        path = tmp_path / "own.csv"
        table(600, classes).assign(**columns).to_csv(path, index=False)
        return (path, "--label", "y", "--sensitive", sensitive, "--client", "site")

    return write


@pytest.mark.parametrize(
    "options",
    [
        ("--method", "fedavg", "--rounds", 2),
        ("--method", "pfedfair", "--criterion", "eo", "--rounds", 2),
        ("--method", "pfedfair", "--criterion", "eopp", "--target-ddp", 0.1, "--rounds", 2),
        ("--method", "transport", "--rounds", 8),
        ("--method", "transport", "--rounds", 8, "--criterion", "eo"),
    ],
    ids=lambda options: " ".join(map(str, options[1:])),
)
@pytest.mark.parametrize("classes", [2, 3])
def test_train_with_two_attributes(pfedfair, own, options, classes):
    code, out, err = pfedfair("train", *own(classes), *options, "--out", "new")
    assert code == 0, err
    for name in ("f x a", "f x b", "f x c", "m x a", "m x b", "m x c"):
        assert name in out
    for site in ("north", "south", "west"):
        assert re.search(rf"^ *{site} ", out, re.M)
    assert "DDP" in out
    assert pff.load_model("new", "west").group_names[0] == "f x a"


def test_transports_newcomer_with_two_attributes(pfedfair, own, tmp_path):
    arguments = own(3)
    code, _, err = pfedfair("train", *arguments, "--method", "transport", "--rounds", 8,
                            "--out", "first")  # fmt: skip
    assert code == 0, err
    table(200, 3, seed=5).drop(columns=["y", "site"]).to_csv(tmp_path / "new.csv", index=False)
    code, out, err = pfedfair("personalise", "first", "--input", "new.csv", "--out", "second")
    assert code == 0, err
    assert "newcomer: 200 rows" in out
    assert "m x c" in out
    rows = pd.read_csv(tmp_path / "new.csv")
    given_ = rows[["sex", "race"]]
    assert len(pff.load_model(tmp_path / "second", 0).decide(rows, given_)) == 200


def test_small_groups_are_merged_if_asked(pfedfair, own):
    rare = np.where(np.arange(600) < 7, "d", table(600)["race"])
    arguments = (*own(race=rare), "--method", "fedavg", "--rounds", 1)
    code, out, err = pfedfair("train", *arguments)
    assert (code, out) == (2, "")
    assert re.search(r"2 groups with fewer than 30 rows, 'f x d' .*--merge-groups", err)
    assert len(err.strip().splitlines()) == 1
    code, out, err = pfedfair("train", *arguments, "--merge-groups")
    assert code == 0, err
    assert "f x d + m x d" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--criterion", "nonsense"), "Unknown criterion 'nonsense': choose one of dp, eo, eopp"),
        (("--method", "fa"), "FA is made for two groups, the data has 6"),
        (("--method", "fairfed", "--criterion", "eo"), "FairFed supports demographic parity"),
        (
            ("--method", "pfedfair", "--penalty", "pearson"),
            "pearson is made for two groups, .* one of kde, mi, hgr, ermi",
        ),
        (("--method", "logofair", "--blind"), "LoGoFair is made for two groups|S must be an input"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_exit_code_2(pfedfair, own, tmp_path, options, message):
    code, out, err = pfedfair("train", *own(), *options, "--out", "new")
    assert (code, out) == (2, "")
    assert re.search(message, err)
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "new").exists()


def test_compare_for_equalised_odds(pfedfair, own):
    """Transport has a point for each of several limits, 0 among them."""
    code, _, err = pfedfair(
        "compare", *own(2, "race"), "--methods", "fedavg-kde,transport", "--etas", "0.5",
        "--criterion", "eo", "--seeds", 1, "--rounds", 8, "--jobs", 1, "--out", "both",
    )  # fmt: skip
    assert code == 0, err
    results = pff.read_results("both")
    assert {"eo", "eopp", "share_s2", "npr_s2"} <= set(results.columns)
    assert set(results["method"]) == {"constant", "fedavg-kde", "transport"}
    assert results["eo"].between(0, 1).all()


def test_bundled_data_by_another_attribute(pfedfair):
    code, out, err = pfedfair(
        "train", "compas", "--sensitive", "race", "--merge-groups", "--partition", "dirichlet",
        "--clients", 3, "--method", "transport", "--rounds", 8,
    )  # fmt: skip
    assert code == 0, err
    assert "Hispanic" in out
    assert "pool" in out
