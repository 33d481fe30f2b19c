"""The options about tables, as a user types them."""

import json
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest

import pfedfair as pff
from pfedfair import data
from pfedfair.data.tables import reading
from pfedfair.experiments import spec

OWN = ("--label", "hired", "--client", "site", "--method", "fedavg", "--rounds", 2)


def write(frame, path, **options):
    frame.to_csv(path, index=False, **options)
    return path


@pytest.fixture
def staff(csv):
    """People with an age, and words for the label."""
    frame = pd.read_csv(csv).sample(frac=1, random_state=0, ignore_index=True)
    frame["age"] = 20 + frame.index % 50
    frame["hired"] = frame["hired"].map({0: "turned down", 1: "accepted"})
    return frame


def test_version(pfedfair):
    code, out, _ = pfedfair("--version")
    assert (code, out) == (0, f"pfedfair {pff.__version__}\n")
    done = subprocess.run(
        [sys.executable, "-m", "pfedfair", "--version"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, out)


def test_a_semicolon_file_of_windows_trains_and_says_so(pfedfair, staff, tmp_path):
    staff["town"] = ["Köln", "Genève"] * (len(staff) // 2)
    path = write(staff, tmp_path / "staff.CSV", sep=";", decimal=",", encoding="cp1252")
    code, out, err = pfedfair("train", path, *OWN, "--sensitive", "sex")
    assert code == 0, err
    assert "Note: staff.CSV is not in UTF-8" in out
    assert "Note: Commas are decimal, 1,5 is 1.5" in out


def test_all_options_of_a_table(pfedfair, staff, tmp_path):
    staff.loc[staff.index[:5], "site"] = "tiny"
    train, test = staff.iloc[:200], staff.iloc[200:]
    path = write(train, tmp_path / "train.csv.gz")
    other = write(test, tmp_path / "test.tsv", sep="\t")
    options = ("--sensitive", "age", "--bands", "age:40", "--positive", "accepted")
    more = ("--test", other, "--min-rows", 6, "--out", "run")
    code, out, err = pfedfair("train", path, *OWN, *options, *more)
    assert code == 0, err
    assert "S is made of bands of 'age', whose number is no input: under 40 (" in out
    assert "1 client is left out, with fewer than 6 rows (5 rows in all): tiny (5)." in out
    assert "held-out pool: 60 rows" in out
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["label_names"] == ["turned down", "accepted"]
    assert about["group_names"] == ["under 40", "40 and over"]
    assert about["bands"] == {"age": [40]}
    results = pd.read_parquet(tmp_path / "run" / "results.parquet")
    assert results["n_test"].sum() == 60
    assert set(results["dataset"]) == {"train"}
    model = pff.load_model(tmp_path / "run", "site 1")
    held = test[test["site"] == "site 1"]
    decided = model.predict(held, held["age"])
    right = (pd.Series(decided, held.index) == held["hired"]).mean()
    assert results.set_index("client").loc["site 1", "accuracy"] == pytest.approx(right)


def test_compare_takes_them_too(pfedfair, staff, tmp_path):
    staff.loc[staff.index[:5], "site"] = "tiny"
    path = write(staff.iloc[:200], tmp_path / "train.csv")
    other = write(staff.iloc[200:], tmp_path / "test.csv")
    command = ("compare", path, "--label", "hired", "--client", "site", "--methods", "fedavg",
               "--rounds", 2, "--seeds", 1, "--jobs", 1, "--out", "grid")  # fmt: skip
    options = ("--sensitive", "age", "--bands", "age:40", "--positive", "turned down")
    more = ("--test", other, "--min-rows", 6)
    code, out, err = pfedfair(*command, *options, *more)
    assert code == 0, err
    assert "1 client is left out" in " ".join(out.split())
    results = pd.read_parquet(tmp_path / "grid" / "results.parquet")
    assert results.query("method == 'fedavg'")["n_test"].sum() == 60
    runs = json.loads((tmp_path / "grid" / "experiment.json").read_text())["runs"]
    source = runs[0]["source"]
    assert source["positive"] == "turned down"
    assert source["bands"] == [["age", [40.0]]]
    assert source["test"] == "test.csv"
    write(staff.iloc[210:], other)  # another test is another experiment
    spec.LOADED.clear()
    spec._sha256.cache_clear()
    code, _, err = pfedfair(*command, *options, *more)
    assert code == 2
    assert "holds another experiment" in err


def test_persons(pfedfair, staff, tmp_path):
    """Who comes again is named, and on one side if it is said so."""
    staff = staff.assign(number=[f"p{k}" for k in staff.index % 130])
    staff["hired"] = staff["hired"].to_numpy()[staff.index % 130]
    path = write(staff, tmp_path / "staff.csv")
    asked = ("train", path, *OWN, "--sensitive", "sex", "--out")
    code, out, err = pfedfair(*asked, "without")
    assert code == 0, err
    assert "Values of column 'number' repeat (260 rows, 130 values) and determine the label: if " \
           "they are persons, say --person number" in " ".join(out.split())  # fmt: skip
    code, out, err = pfedfair(*asked, "run", "--person", "number")
    assert code == 0, err
    assert "persons" not in out
    rows = pd.read_parquet(tmp_path / "run" / "predictions.parquet").drop_duplicates("row")
    person = staff["number"].to_numpy()[rows["row"]]
    sides = [set(person[rows["split"] == split]) for split in ("train", "test")]
    assert all(sides)
    assert not sides[0] & sides[1]
    card = json.loads((tmp_path / "run" / "run.json").read_text())
    assert card["columns"]["left_out"]["number"] == "says whose a row is"
    described = json.loads((tmp_path / "run" / "experiment.json").read_text())
    assert described["runs"][0]["source"]["person"] == "number"
    code, out, err = pfedfair(*asked[:-1], "--person", "site")
    assert code == 2
    assert "Column 'site' says whose a row is: it cannot make clients, too" in err


@pytest.mark.parametrize("way", ["same", "copy", "link"])
def test_the_training_rows_are_not_the_test_rows(pfedfair, staff, tmp_path, way):
    path, other = write(staff, tmp_path / "staff.csv"), tmp_path / "other.csv"
    if way == "copy":
        other.write_bytes(path.read_bytes())
    elif way == "link":
        other.symlink_to(path)
    test = path if way == "same" else other
    asked = ("train", path, *OWN, "--sensitive", "sex", "--test", test, "--out", "none")
    code, out, err = pfedfair(*asked)
    assert (code, out) == (2, "")
    assert f"The rows for the test, {test}, are those of {path}: name another file" in " ".join(
        err.split()
    )
    assert "leave out --test" in " ".join(err.split())
    assert not (tmp_path / "none").exists()


def test_a_table_is_read_once_whatever_model_the_method_likes(pfedfair, csv, monkeypatch):
    times = []
    monkeypatch.setattr(data, "read", lambda path: times.append(path) or reading.read(path))
    spec.LOADED.clear()
    options = ("--sensitive", "sex", "--method", "transport")
    code, _, err = pfedfair("train", csv, *OWN, *options)
    assert code == 0, err
    assert times == [csv]
    wide = spec.Source(str(csv), "hired", "sex", model="mlp")
    assert spec.load_source(wide).frame is spec.load_source(replace(wide, model=None)).frame
    assert times == [csv]
    assert repr(spec.load_source(wide)) == repr(pff.load(csv, "hired", "sex", model="mlp"))
    assert spec.load_source(wide).settings == "own-mlp"


def test_s_that_is_dropped_is_no_input(pfedfair, csv):
    own = ("train", csv, *OWN, "--sensitive", "sex", "--drop", "sex")
    code, out, err = pfedfair(*own)
    assert code == 0, err
    assert "Note: S ('sex') is no input of the model, as it is to be dropped" in out
    code, _, err = pfedfair(*own, "--aware")
    assert code == 2
    assert "--drop sex has S, --aware makes it an input: leave one out." in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sensitive", "age"), r"make bands of them, such as --bands age:\d+"),
        (("--sensitive", "age", "--bands", "age"), r"Bands are COLUMN:NUMBERS, as in age:25,45,65"),
        (("--sensitive", "sex", "--bands", "age:30"), "Bands are for sensitive columns"),
        (("--sensitive", "sxe"), r"no column 'sxe'.*did you mean 'sex'"),
        (("--sensitive", "sex", "--positive", "acepted"), "did you mean 'accepted'"),
        (("--sensitive", "sex", "--test", "no.csv"), r"There is no file no\.csv"),
        (("--sensitive", "sex", "--min-rows", 0), "min_rows must be at least 1, got 0"),
    ],
)
def test_bad_options_are_said_in_a_sentence(pfedfair, staff, tmp_path, options, message):
    path = write(staff, tmp_path / "staff.csv")
    code, out, err = pfedfair("train", path, *OWN, *options, "--out", "none")
    assert (code, out) == (2, "")
    assert pd.Series([err]).str.contains(message).all(), err
    assert "Traceback" not in err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("hired,sex,site\n", "but no rows"),
        ("hired,sex,hired,site\n1,f,1,a\n", "more than one column 'hired'"),
        ("1,f,0.5,a\n0,m,0.7,b\n", "no column 'hired' .* look like values"),
        ("hired,sex,site\n1,f,a\n", "must have 2 to 20 different values, it has 1"),
    ],
)
def test_bad_files_are_said_in_a_sentence(pfedfair, tmp_path, text, message):
    path = tmp_path / "staff.csv"
    path.write_text(text)
    code, out, err = pfedfair("train", path, *OWN, "--sensitive", "sex", "--out", "none")
    assert (code, out) == (2, "")
    assert pd.Series([err]).str.contains(message).all(), err
    assert not (tmp_path / "none").exists()


def test_words_and_dates_in_columns_reach_the_shapes(pfedfair, staff, tmp_path):
    staff["pay"] = [str(1.5 * k) for k in range(len(staff))]
    staff.loc[staff.index[::60], "pay"] = "unknown"
    staff["since"] = pd.date_range("2020-01-01", periods=len(staff), freq="37h").astype(str)
    path = write(staff, tmp_path / "staff.csv")
    code, out, err = pfedfair("train", path, *OWN, "--sensitive", "sex", "--out", "run")
    assert code == 0, err
    assert "count as empty (pay 5)" in out
    shapes = pd.read_csv(tmp_path / "run" / "shapes.csv")
    assert {"pay", "since (year)", "since (month)"} <= set(shapes["column"])
    empty = shapes.query("column == 'pay'")["value"].isna()
    assert empty.sum() == 1


def test_personalise_reads_what_train_reads(pfedfair, staff, tmp_path):
    path = write(staff, tmp_path / "staff.csv")
    own = ("train", path, "--label", "hired", "--client", "site", "--sensitive", "age")
    code, _, err = pfedfair(*own, "--bands", "age:40", "--method", "transport", "--out", "run")
    assert code == 0, err
    new = staff.drop(columns=["hired", "site"]).assign(town="Köln")
    new.to_excel(tmp_path / "new.xlsx", index=False)
    code, out, err = pfedfair("personalise", "run", "--input", "new.xlsx")
    assert code == 0, err
    assert "40 and over" in out
    write(new, tmp_path / "new.txt", sep="|", encoding="cp1252")
    code, out, err = pfedfair("personalise", "run", "--input", "new.txt")
    assert code == 0, err
    assert "Note: new.txt is not in UTF-8" in " ".join(out.split())
