"""predict and export as a user types them, and what `train` leaves for them."""

import json
import re
import resource
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree

import numpy as np
import pandas as pd
import pytest

import pfedfair as pff

OWN = ("--label", "hired", "--sensitive", "sex", "--client", "site")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept") / "first"


@pytest.fixture
def first(pfedfair, csv, kept, tmp_path):
    """A copy of a run on people.csv, which is trained once, and the rows without labels."""
    if not kept.exists():
        own = ("--method", "transport", "--rounds", 8, "--out", kept, "-q",
               "--target-ddp", 0.01, "--max-randomised", 1)  # fmt: skip
        code, _, err = pfedfair("train", csv, *OWN, *own)
        assert code == 0, err
    copytree(kept, tmp_path / "first")
    frame = pd.read_csv(csv).drop(columns="hired")
    frame.insert(0, "nr", [f"{k:04d}" for k in range(len(frame))])
    frame.to_csv("new.csv", index=False)
    return frame


PREDICT = ("predict", "first", "--client", "site 1", "--input", "new.csv")


def test_predict_writes_a_row_for_each_and_says_what_is_wrong(pfedfair, first, tmp_path):
    frame = first.copy()
    frame.loc[:1, "sex"] = [None, "x"]
    frame.to_csv("new.csv", index=False)
    code, out, err = pfedfair(*PREDICT, "--output", "out.csv", "--id", "nr", "--keep-columns", "a")
    assert code == 0, err
    text = " ".join(out.split())
    assert "new.csv, by the model of client site 1" in text
    assert "2 rows have no decision: sex is empty (1); sex is 'x', not f or m (1)" in text
    assert "Saved to out.csv: 260 rows" in text
    found = pd.read_csv("out.csv", dtype={"nr": str})
    assert list(found) == [
        "row",
        "nr",
        "a",
        "decision",
        "score",
        "chance",
        "rule",
        "problem",
        "warning",
    ]
    assert list(found["nr"]) == list(frame["nr"])
    np.testing.assert_allclose(found["a"], frame["a"])
    rest = frame.iloc[2:]
    expected = pff.load_run("first").personal_model("site 1").predict(rest, ids=rest["nr"])
    assert (found["decision"][2:].astype(int) == expected).all()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_predict_to_parquet_quietly_with_all_columns_and_a_key(pfedfair, first):
    more = ("--client-column", "site", "--keep-columns", "all", "--key", "secret", "-q")
    code, out, err = pfedfair(
        "predict", "first", "--input", "new.csv", "--output", "out.parquet", *more
    )
    assert (code, out, err) == (0, "", "")
    found = pd.read_parquet("out.parquet")
    assert list(found["site"]) == list(first["site"]) == list(found["client"])
    assert (found["problem"] == "").all()


def test_a_copied_column_called_like_one_of_the_output_is_renamed(pfedfair, first):
    twice = first.assign(problem="mine", **{"input.problem": "too", "score": range(len(first))})
    twice.to_csv("new.csv", index=False)
    code, out, err = pfedfair(*PREDICT, "--output", "out.csv", "--keep-columns", "all")
    assert code == 0, err
    assert "'problem' is written as 'input.input.problem', 'score' is written as" in out
    found = pd.read_csv("out.csv", keep_default_na=False)
    assert (found["problem"] == "").all()
    assert (found["input.problem"] == "too").all()
    assert (found["input.input.problem"] == "mine").all()
    assert list(found["input.score"]) == list(range(len(first)))
    assert found["score"].between(0, 1).all()


@pytest.mark.parametrize("row", [1, 3])
def test_a_line_with_too_many_cells_is_named(pfedfair, first, row):
    path = Path("new.csv")
    lines = path.read_text().splitlines()
    lines[row] += ",x"
    path.write_text("\n".join(lines))
    code, _, err = pfedfair(*PREDICT, "--output", "out.csv")
    assert code == 2
    n = lines[0].count(",") + 1
    assert f"ine {row + 1} of new.csv has {n + 1} cells, its first line {n} names" in err
    assert "C error" not in err


def test_predict_after_personalise_needs_no_client(pfedfair, first):
    assert pfedfair("personalise", "first", "--input", "new.csv", "--out", "site", "-q")[0] == 0
    code, out, err = pfedfair("predict", "site", "--input", "new.csv", "--output", "out.csv")
    assert code == 0, err
    assert "by the model of client newcomer" in out


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("--client 1", "There is no client '1': the names are site 0, site 1, site 2"),
        ("--client site", "There is no client 'site': .*site 0, site 1, site 2"),
        (
            "",
            "Say which client's model decides, by --client, or --client-column: site 0, site 1, "
            "site 2",
        ),
        ("--client-column town", "no column 'town' in the rows"),
        ("--client-column site --id number", "no column 'number' in the rows"),
        ("--client-column site --keep-columns q", "no column 'q' in the rows"),
        ("--client-column site --output new.csv", "new.csv is the input"),
        ("--client-column site --output out.txt", "must end in .csv or .parquet"),
        ("--client-column site --output first", "must end in .csv or .parquet"),
        ("--client-column site --input nothere.csv", "There is no file nothere.csv"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(
    pfedfair, first, tmp_path, command, message
):
    given = command.split()
    for option, usual in (("--input", "new.csv"), ("--output", "out.csv")):
        given += [] if option in given else [option, usual]
    before = sorted(tmp_path.rglob("*"))
    code, out, err = pfedfair("predict", "first", *given)
    assert code == 2
    assert re.search(message, err)
    assert len(err.strip().splitlines()) == 1
    assert out == ""
    assert sorted(tmp_path.rglob("*")) == before


def test_an_output_is_not_written_over_unless_asked(pfedfair, first, tmp_path):
    (tmp_path / "out.csv").write_text("mine")
    code, _, err = pfedfair(*PREDICT, "--output", "out.csv")
    assert code == 2
    assert "say --overwrite" in err
    assert (tmp_path / "out.csv").read_text() == "mine"
    assert pfedfair(*PREDICT, "--output", "out.csv", "--overwrite", "-q")[0] == 0


def test_damaged_files_are_one_sentence(pfedfair, first, tmp_path):
    path = tmp_path / "first" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:200])
    commands = (*PREDICT, "--output", "o.csv"), ("export", "first", "--client", "site 1")
    more = ("report", "first"), ("personalise", "first", "--input", "new.csv")
    for command in (*commands, *more):
        code, _, err = pfedfair(*command)
        assert code == 2
        assert "is damaged" in err
        assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "o.csv").exists()


@contextmanager
def files_no_larger_than(size):
    """As on a disk that is nearly full: the system refuses to write more."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_full_disk_leaves_no_half_file(pfedfair, first, tmp_path, kind):
    with files_no_larger_than(2000):
        code, _, err = pfedfair(*PREDICT, "--output", f"out.{kind}", "-q")
    assert code == 2
    assert f"Error: out.{kind}: File too large." in err
    assert len(err.strip().splitlines()) == 1
    assert not [p for p in tmp_path.iterdir() if p.name.startswith((".", "out"))]


def test_a_full_disk_while_training_can_be_mended(pfedfair, csv, tmp_path):
    command = ("train", csv, *OWN, "--method", "fedavg", "--rounds", 1, "--out", "full", "-q")
    with files_no_larger_than(3000):
        code, _, err = pfedfair(*command)
    assert code == 2
    assert len(err.strip().splitlines()) == 1
    assert not [p for p in (tmp_path / "full").iterdir() if p.name.startswith(".")]
    assert pfedfair(*command)[0] == 0
    assert pff.load_run("full").table()["accuracy"].notna().all()


def test_the_same_command_writes_the_same_bytes(pfedfair, csv, tmp_path):
    for out in ("one", "two"):
        own = ("--method", "transport", "--rounds", 8, "--out", out, "-q")
        assert pfedfair("train", csv, *OWN, *own)[0] == 0
    for path in (tmp_path / "one").iterdir():
        if path.name != "timings.parquet":
            assert (tmp_path / "two" / path.name).read_bytes() == path.read_bytes(), path.name
    card = json.loads((tmp_path / "one" / "run.json").read_text())
    assert card["command"].startswith("pfedfair train ")
    assert card["command"].endswith("--rounds 8 -q")
    assert card["columns"]["client"] == "site"


def test_export_writes_a_graph_and_a_card_of_points(pfedfair, first, tmp_path):
    code, out, err = pfedfair("export", "first", "--client", "site 1")
    assert code == 0, err
    assert (tmp_path / "first" / "site_1.onnx").exists()
    assert "site_1.rule.json" in out  # a lot decides
    code, _, err = pfedfair("export", "first", "--client", "site 1")
    assert code == 2
    assert "exists: choose another --output" in err
    code, out, err = pfedfair(
        "export", "first", "--client", "site 1", "--to", "scorecard", "--output", "card.csv"
    )
    assert code == 0, err
    card = pd.read_csv("card.csv")
    assert set(card["part"]) >= {"base", "number", "level", "group", "rule", "error"}
    code, _, err = pfedfair("export", "first", "--client", "site 1", "--to", "pdf")
    assert code == 2
    assert "Unknown format 'pdf': choose one of onnx, scorecard" in err
