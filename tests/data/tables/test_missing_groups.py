"""Rows whose sensitive attribute is missing."""

import numpy as np
import pandas as pd
import pytest

import pfedfair as pff
from made_people import people
from pfedfair.runs.decisions import decide_file, reader_of
from pfedfair.runs.model import read_model

pytestmark = pytest.mark.filterwarnings("ignore::pfedfair.CollapseWarning")


@pytest.fixture
def frame():
    found = people()
    found["sex"] = found["sex"].astype(object)
    found.loc[[0, 7, 11], "sex"] = None
    found.loc[[20, 21], "sex"] = ["unknown", "Unknown"]
    return found


def test_excluded_rows_are_those_of_a_table_without_them(frame):
    data = pff.from_frame(frame, "hired", "sex", unknown="UNKNOWN")
    dropped = frame.drop(index=[0, 7, 11, 20, 21]).reset_index(drop=True)
    same = pff.from_frame(dropped, "hired", "sex")
    assert data.digest == same.digest
    assert data.group_names == ("f", "m")
    assert (data.without_sensitive, same.without_sensitive) == (5, 0)
    assert list(data.rows[:3]) == [1, 2, 3]
    assert data.rows[-1] == len(frame) - 1
    assert data.notes[0].startswith("5 of 260 rows without a value of 'sex' are left out")
    assert "missing_sensitive='group' makes a group of them" in data.notes[0]


def test_a_group_of_missing_values(frame):
    data = pff.from_frame(frame, "hired", "sex", missing_sensitive="group", merge_groups=True,
                          unknown=["Unknown"])  # fmt: skip
    assert data.group_names == ("f", "m + missing")  # too few rows for a group of their own
    many = frame.assign(sex=frame["sex"].where(frame.index % 4 > 0, "Unknown"))
    data = pff.from_frame(many, "hired", "sex", missing_sensitive="group", unknown="Unknown")
    assert data.group_names == ("f", "m", "missing")
    is_missing = many["sex"].isna() | many["sex"].isin(["unknown", "Unknown"])
    np.testing.assert_array_equal(data.s == 2, is_missing)
    assert data.without_sensitive == 0


def test_refused_with_the_number(frame):
    with pytest.raises(pff.InputError, match="'sex' has 5 missing values: fill or drop them"):
        pff.from_frame(frame, "hired", "sex", missing_sensitive="refuse", unknown="unknown")
    with pytest.raises(pff.InputError, match=r"Unknown way to treat missing .* 'drop': choose one"):
        pff.from_frame(frame, "hired", "sex", missing_sensitive="drop")


def test_several_attributes_and_bands(frame):
    several = frame.assign(age=np.where(frame.index % 5, 20.0 + frame.index % 40, np.nan))
    given = {"bands": {"age": [30, 40]}, "unknown": "unknown"}
    data = pff.from_frame(several, "hired", ["age"], **given)
    assert data.group_names == ("under 30", "30 to under 40", "40 and over")
    assert data.without_sensitive == several["age"].isna().sum()
    both = pff.from_frame(several, "hired", "age,sex", merge_groups=True, **given)
    lost = several["age"].isna() | ~several["sex"].isin(["f", "m"])
    assert both.without_sensitive == lost.sum()
    grouped = pff.from_frame(several, "hired", "age", missing_sensitive="group", **given)
    assert grouped.group_names[-1] == "missing"
    assert (grouped.s == 3).sum() == several["age"].isna().sum()


def test_test_rows_without_groups_are_left_out_too(frame):
    data = pff.from_frame(frame, "hired", "sex", test=frame, unknown="unknown")
    assert data.without_sensitive == 10
    assert data.held.sum() == (~data.held).sum() == 255


def test_a_word_that_no_row_has_is_noted(frame):
    data = pff.from_frame(frame, "hired", "sex", unknown="unknown,n.a.")
    assert any("No row has the unknown S 'n.a.'" in note for note in data.notes)
    quiet = pff.from_frame(frame, "hired", "sex", unknown="unknown,NA")  # as files are read
    assert not any("No row has the unknown S" in note for note in quiet.notes)
    with pytest.raises(pff.InputError, match=r"No row has a value of S \('sex'\)"):
        pff.from_frame(frame, "hired", "sex", unknown="f,m,unknown")


def test_a_run_says_how_many_and_keeps_the_numbers_of_rows(frame, pfedfair, tmp_path):
    frame.to_csv(tmp_path / "people.csv", index=False)
    asked = ("train", "people.csv", "--label", "hired", "--sensitive", "sex", "--client", "site",
             "--method", "transport", "--rounds", 2, "--unknown", "Unknown")  # fmt: skip
    code, out, err = pfedfair(*asked, "--out", "run")
    assert code == 0, err
    text = " ".join(out.split())
    assert "Note: 5 of 260 rows without a value of 'sex' are left out, of training and" in text
    assert "--missing-sensitive group makes a group of them" in text
    assert text.count("5 of 260 rows without a value of 'sex' are left out.") == 1
    assert "5 of 260 rows without a value" in (tmp_path / "run" / "report.html").read_text()
    run = pff.load_run("run")
    assert run.card["data"]["without_sensitive"] == 5
    stored = pd.read_parquet("run/predictions.parquet")
    assert set(stored["row"]) == set(range(260)) - {0, 7, 11, 20, 21}
    assert (frame["sex"].to_numpy()[stored["row"]] == stored["group"]).all()
    assert "5 of 260 rows without a value of 'sex' are left out." in pfedfair("report", "run")[1]
    code, _, err = pfedfair(*asked, "--missing-sensitive", "refuse")
    assert code == 2
    assert "has 5 missing values" in err


def test_a_loaded_run_measures_the_same_rows(frame, tmp_path):
    data = pff.from_frame(frame, "hired", "sex", unknown="unknown")
    federation = data.federate(pff.partition.by_column("site"))
    run = pff.train(federation, pff.methods.Transport(rounds=2, target_ddp=0.1))
    run.save(tmp_path)
    again = pff.load_run(tmp_path)
    pd.testing.assert_frame_equal(again.table(), run.table())
    one, other = (r.retarget(target_ddp=0.3).rules() for r in (run, again))
    pd.testing.assert_frame_equal(one, other)


@pytest.mark.parametrize("way", ["exclude", "group"])
def test_predict_knows_the_group_of_missing_values(frame, tmp_path, way):
    many = frame.assign(sex=frame["sex"].where(frame.index % 4 > 0, "Unknown"))
    data = pff.from_frame(many, "hired", "sex", missing_sensitive=way, unknown="unknown")
    federation = data.federate(pff.partition.by_column("site"))
    pff.train(federation, pff.methods.Transport(rounds=2)).save(tmp_path / "run")
    many.to_csv(tmp_path / "new.csv", index=False)
    reader = reader_of(read_model(tmp_path / "run"), client_column="site")
    summary = decide_file(reader, reader.open(tmp_path / "new.csv"), tmp_path / "out.csv")
    found = pd.read_csv(tmp_path / "out.csv", keep_default_na=False)
    is_missing = ~many["sex"].isin(["f", "m"]).to_numpy()
    assert ((found["decision"] == "") == (is_missing & (way == "exclude"))).all()
    assert bool(summary.problems) == (way == "exclude")


def test_predict_with_bands_knows_the_group_of_missing_values(frame):
    rng = np.random.default_rng(0)
    age = pd.Series(rng.uniform(20, 60, len(frame))).where(frame.index % 4 > 0)
    data = pff.from_frame(frame.assign(age=age), "hired", "age", bands={"age": [40]},
                          missing_sensitive="group")  # fmt: skip
    run = pff.train(data.federate(pff.partition.by_column("site")), pff.methods.FedAvg(rounds=1))
    codes = run.personal_model(0).codes(age)
    np.testing.assert_array_equal(codes, data.s)
