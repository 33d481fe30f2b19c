"""Commands on embeddings and images, as a user types them; and each bad input with its sentence."""

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import face_folders
import made_faces
from pfedfair.experiments import read_results

GENERATED = Path(__file__).parents[1] / "data" / "images" / "faces" / "generated"
COLUMNS = ("--label", "smiling", "--sensitive", "male", "--client", "site")
FAST = ("--rounds", 2, "--set", "epochs=1")


@pytest.fixture
def file(tmp_path):
    return made_faces.write(tmp_path / "staff.parquet", *made_faces.people())


@pytest.fixture
def faces(tmp_path):
    return made_faces.celeba(tmp_path / "faces")


@pytest.fixture
def generated(tmp_path):
    return shutil.copytree(GENERATED, tmp_path / "generated")


def flat(text):
    return " ".join(text.split())


def test_train_on_a_file_of_embeddings(pfedfair, file, tmp_path):
    code, out, err = pfedfair("train", file, *COLUMNS, "--rounds", 20, "--out", "run")
    assert code == 0, err
    assert "ridge 0.01" in flat(out)
    assert "pfedfair tune finds better ones for yours" in flat(out)
    results = read_results(tmp_path / "run")
    assert results["client"].tolist() == ["a", "b", "c"]
    assert results["n_test"].tolist() == [24, 24, 32]  # the rows that 'split' holds
    assert set(results["parameters"]) == {9}  # not told S
    code, _, err = pfedfair("report", "run")
    assert code == 0, err
    assert (tmp_path / "run" / "report.md").exists()


def test_aware_and_scaling_and_a_deeper_network(pfedfair, file, tmp_path):
    options = (*COLUMNS, *FAST, "--quiet", "--method", "fedavg")
    cases = {"a": ["--aware"], "b": ["--model", "mlp"], "c": ["--scaling", "whiten"]}
    found = {}
    for name, more in cases.items():
        code, _, err = pfedfair("train", file, *options, *more, "--out", name)
        assert code == 0, err
        found[name] = int(read_results(tmp_path / name)["parameters"].iloc[0])
    assert found == {"a": 10, "b": 8 * 64 + 64 + 64 * 64 + 64 + 64 + 1, "c": 9}


def test_train_on_celeba_says_which_encoder_it_was_and_how_clients_were_scaled(pfedfair, faces):
    code, out, err = pfedfair("train", "celeba", "--data", faces, *FAST)
    assert code == 0, err
    assert "celeba: the encoder is tiny, none of the paper's." in flat(out)
    assert re.search(r"its clients are scaled to [\d.]+ %", flat(out))
    assert "held-out pool: 80 rows" in out
    code, out, err = pfedfair("train", "celeba", "--data", faces, *FAST, "--partition", "together")
    assert code == 0, err
    assert "scaled to" not in flat(out)  # these are not the paper's clients


def test_compare_then_report_on_celeba(pfedfair, faces, tmp_path):
    arguments = ("--methods", "fedavg-kde,pfedfair", "--etas", "0.5", "--seeds", 1, "--jobs", 1)
    code, out, err = pfedfair("compare", "celeba", "--data", faces, *arguments, *FAST, "--out", "c")
    assert code == 0, err
    assert "celeba (tiny), 10 clients, fixed shares, 1 seed" in flat(out)
    code, again, _ = pfedfair("report", "c")
    assert code == 0
    assert "celeba (tiny), 10 clients" in flat(again)
    assert (tmp_path / "c" / "tradeoff.png").stat().st_size > 5000


def test_generated_faces_as_pixels(pfedfair, generated, tmp_path):
    arguments = ("--label", "bright", "--sensitive", "side", "--pixels", 16)
    arguments += ("--partition", "together")
    fast = ("--method", "erm-local", "--rounds", 3)
    code, _, err = pfedfair("train", generated, *arguments, *fast, "--out", "r")
    assert code == 0, err
    assert read_results(tmp_path / "r")["inputs"].unique().tolist() == ["pixels 16x16"]
    code, _, err = pfedfair(
        "train", generated, *arguments, *fast, "--model", "mlp", "--quiet", "--out", "m"
    )
    assert code == 0, err
    assert read_results(tmp_path / "m")["parameters"].min() > 768 * 500


def test_images_that_are_there_twice_are_told(pfedfair, tmp_path):
    table, array = made_faces.people()
    array[10] = array[0]  # one to train, one too
    array[20] = array[1]  # and one to test
    file = made_faces.write(tmp_path / "e.parquet", table, array)
    code, out, _ = pfedfair("train", file, *COLUMNS, *FAST)
    assert code == 0
    assert "2 pairs of equal images (1 across train and test)" in flat(out)


@pytest.mark.parametrize("command", ["train", "compare", "tune", "theory"])
def test_help_knows_the_options_of_images(pfedfair, command):
    code, out, _ = pfedfair(command, "--help")
    assert code == 0
    for option in ("--data", "--encoder", "--pixels", "--scaling", "--skip-missing", "--model"):
        assert option in out
    assert ("--blind" in out) == (command in ("train", "compare"))


def refused(pfedfair, *arguments):
    code, out, err = pfedfair(*arguments)
    assert code == 2
    assert out == ""
    assert "Traceback" not in err
    assert err.strip()
    return flat(err)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["celeba"], "Say where celeba is: --data FOLDER, with its images or embeddings."),
        (["celeba", "--data", "nowhere"], "nowhere does not exist: name the folder"),
        (["compas", "--scaling", "whiten"], "'compas' has no embeddings to scale"),
        (["compas", "--pixels", 16], "'compas' has its own columns: leave out pixels."),
        (["compas", "--encoder", "clip"], "'compas' has its own columns: leave out encoder."),
        (["compas", "--data", "faces"], "'compas' has its own columns: leave out --data."),
        (["compas", "--model", "linaer"], "Unknown model 'linaer': did you mean 'linear'?"),
        (["compas", "--model", "resnet18"], "Unknown model 'resnet18': choose one of additive, "),
        (["staff.parquet", *COLUMNS, "--model", "lienar"], "Unknown model 'lienar'"),
        (["staff.parquet", *COLUMNS, "--pixels", 16], "holds embeddings: leave out pixels."),
        (["staff.parquet", *COLUMNS, "--scaling", "witen"], "Unknown scaling 'witen'"),
        (["staff.parquet", "--label", "smilin", *COLUMNS[2:]], "did you mean 'smiling'?"),
        (["people.csv", "--label", "a", "--sensitive", "s", "--scaling", "whiten"],
         "has no embeddings to scale: leave out --scaling."),
        (["people.csv", "--label", "a", "--sensitive", "s", "--pixels", 16],
         "people.csv is a table: leave out pixels."),
        (["celeba", "--data", "faces", "--encoder", "clip", "--pixels", 16], "give one of the two"),
        (["celeba", "--data", "faces", "--pixels", 4], "8 to 1024, got 4"),
        (["celeba", "--data", "faces", "--label", "Bald"],
         "faces has no list_attr_celeba.txt to read 'Bald' from: there is only"),
        (["celeba", "--data", "empty"], "There are no images and no embeddings of celeba in empty"),
        (["celeba", "--data", "empty", "--pixels", 16], "There are no images of celeba in empty."),
        (["empty", "--label", "a", "--sensitive", "b"], "There is no empty/manifest.csv: write"),
        (["mixed.parquet", *COLUMNS], "two encoders are mixed in one file"),
        (["unequal.parquet", *COLUMNS], "has embeddings of 8 numbers, but row 3 has 6"),
    ],
)  # fmt: skip
def test_bad_input(arguments, message, pfedfair, file, faces, tmp_path):
    (tmp_path / "empty").mkdir()
    pd.DataFrame({"a": [0, 1] * 9, "s": [0, 0, 1] * 6}).to_csv(tmp_path / "people.csv")
    table, array = made_faces.people()
    which = np.where(np.arange(len(table)) < 9, "dinov2", "clip")
    made_faces.write(tmp_path / "mixed.parquet", table.assign(encoder=which), array)
    lists = [list(map(float, row)) for row in array]
    lists[3] = lists[3][:6]
    table.assign(embedding=lists).to_parquet(tmp_path / "unequal.parquet")
    assert message in refused(pfedfair, "train", *arguments, *FAST, "--out", "o")
    assert not (tmp_path / "o").exists()


def test_a_missing_list_of_attributes(pfedfair, tmp_path):
    face_folders.celeba(tmp_path / "c")
    (tmp_path / "c" / "list_attr_celeba.txt").unlink()
    said = refused(pfedfair, "train", "celeba", "--data", "c", "--pixels", 16)
    assert "c has no list_attr_celeba.txt to read 'Smiling' from: put it there." in said


def test_a_label_that_is_not_in_the_list(pfedfair, tmp_path):
    face_folders.celeba(tmp_path / "c")
    said = refused(pfedfair, "train", "celeba", "--data", "c", "--pixels", 16, "--label", "Smilig")
    assert "There is no column 'Smilig' of celeba: did you mean 'Smiling'?" in said


def test_images_that_are_listed_but_absent(pfedfair, tmp_path):
    face_folders.celeba(tmp_path / "c", rows=60)
    for number in range(5, 17):
        (tmp_path / "c" / "img_align_celeba" / f"{number:06d}.jpg").unlink()
    asked = ("train", "celeba", "--data", "c", "--pixels", 16, "--partition", "together")
    said = refused(pfedfair, *asked)
    assert "12 images that list_attr_celeba.txt lists are not in c/img_align_celeba" in said
    assert "say --skip-missing to leave them out" in said
    assert said.count(".jpg") == 10
    assert "and 2 others" in said
    fast = ("--method", "erm-local", "--rounds", 2)
    code, out, err = pfedfair(*asked, *fast, "--skip-missing")
    assert code == 0, err
    assert "12 images that list_attr_celeba.txt lists are not there and left out" in flat(out)


def test_an_unknown_network_on_pixels(pfedfair, faces):
    asked = ("train", "celeba", "--data", faces, "--pixels", 16, "--partition", "together")
    asked += ("--model", "resnet")
    assert "Unknown model 'resnet': did you mean 'resnet18'?" in refused(pfedfair, *asked)


def test_embeddings_of_another_width_are_refused_by_a_saved_model(pfedfair, file, tmp_path):
    pfedfair("train", file, *COLUMNS, "--method", "transport", "--rounds", 8, "--set", "epochs=1",
             "--set", "bins=30", "--quiet", "--out", "run")  # fmt: skip
    narrow = made_faces.write(tmp_path / "n.parquet", *made_faces.people(width=5))
    said = refused(pfedfair, "personalise", "run", "--input", narrow)
    assert "The model takes embeddings of 8 numbers, these have 5" in said
    code, out, err = pfedfair("personalise", "run", "--input", file)
    assert code == 0, err
    assert "240 rows" in out
