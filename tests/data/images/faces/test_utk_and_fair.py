"""UTKFace by the names of its files, FairFace by its tables."""

import numpy as np
import pandas as pd
import pytest

import face_folders
from pfedfair._util.errors import InputError
from pfedfair.data.images import faces
from pfedfair.data.images.faces.utkface import read_names
from shared_faces import FACES, needs_faces

PEOPLE = [
    f"{age}_{gender}_{race}_2017010{n}.jpg{'.chip.jpg' * (n % 2)}"
    for n, (age, gender, race) in enumerate(
        [(1, 0, 0), (25, 1, 0), (70, 0, 4), (116, 1, 2), (9, 1, 3), (35, 0, 1)]
    )
]
BAD = ["61_1_20170109142408075.jpg.chip.jpg", "61_3_1_2017.jpg", "24_0_5_2017.jpg", "x.jpg"]


def test_names_of_utkface():
    table = read_names([*PEOPLE, *BAD])
    assert table["gender"].tolist()[:6] == ["male", "female", "male", "female", "female", "male"]
    assert table["race"].tolist()[:6] == ["White", "White", "Others", "Asian", "Indian", "Black"]
    assert table["White"].tolist()[:6] == [1, 1, 0, 0, 0, 0]
    bands = ["0-2", "20-29", "more than 70", "more than 70", "3-9", "30-39"]
    assert table["age"].tolist()[:6] == bands
    assert table["years"].tolist()[:6] == [1, 25, 70, 116, 9, 35]
    assert table.iloc[6:].isna().all(axis=None)


def test_utkface_leaves_out_bad_names_and_says_which(tmp_path):
    for n, name in enumerate([*PEOPLE, *BAD]):
        face_folders.picture(tmp_path / "UTKFace" / name, n)
    data = faces.load("utkface", tmp_path, pixels=8)
    assert data.frame["file"].tolist() == sorted(PEOPLE)
    order = np.argsort(PEOPLE)
    assert np.array_equal(data.y, np.array([1, 1, 0, 0, 0, 0])[order])
    assert np.array_equal(data.s, np.array([1, 0, 1, 0, 0, 1])[order])  # 0 in a name is male
    assert data.label_names == ("not white", "white")
    assert data.group_names == ("female", "male")
    assert (data.label_column, data.sensitive_column) == ("White", "gender")
    face_folders.picture(tmp_path / "preview.png")  # next to the folder of images
    assert len(faces.load("utkface", tmp_path, pixels=8)) == 6
    note = next(n for n in data.notes if "no good name" in n)
    assert note.startswith("4 files of utkface have")
    assert all(name in note for name in BAD)
    assert faces.load("utkface", tmp_path, "white", "Male", pixels=8).sensitive_column == "gender"
    assert "UTKFace here has too few rows for the paper's clients." in data.notes
    band = faces.load("utkface", tmp_path, "age", "gender", pixels=8)
    assert band.label_names == ("0-2", "3-9", "20-29", "30-39", "more than 70")
    assert np.array(band.label_names)[band.y].tolist() == band.frame["age"].tolist()


def test_a_bad_name_with_columns_beside_its_embedding_is_known(tmp_path):
    columns = {"male": [0, 1, 1], "white": [0, 0, 1], "age": [1, 2, 3]}
    face_folders.embeddings(tmp_path / "embeddings-x.parquet", ["b.jpg", *PEOPLE[:2]], columns)
    data = faces.load("utkface", tmp_path)
    assert data.frame["file"].tolist() == [*PEOPLE[:2], "b.jpg"]
    assert data.s.tolist() == [1, 0, 0]  # a good name holds against the column
    assert data.y.tolist() == [1, 1, 0]
    assert data.frame["years"].tolist() == [1, 25, 1]


def fairface(folder, parts=("train", "val"), rows=12):
    races = ["White", "Black", "East Asian"]
    for part in parts:
        table = pd.DataFrame(
            {
                "file": [f"{part}/{n}.jpg" for n in range(1, rows + 1)],
                "age": ["20-29", "3-9", "more than 70", "10-19"] * (rows // 4),
                "gender": ["Male", "Female"] * (rows // 2),
                "race": races * (rows // 3),
                "service_test": ["True", "FALSE"] * (rows // 2),
            }
        )
        table.to_csv(folder / f"fairface_label_{part}.csv", index=False)
        for file in table["file"]:
            face_folders.picture(folder / file)


def test_fairface_holds_out_its_validation_part(tmp_path):
    fairface(tmp_path)
    data = faces.load("fairface", tmp_path, pixels=8)
    assert len(data) == 24
    assert data.held.tolist() == data.frame["file"].str.startswith("val/").tolist()
    assert data.held.sum() == 12
    rows = data.frame.set_index("file")
    assert rows.loc["val/1.jpg", ["gender", "race", "White"]].tolist() == ["male", "White", 1]
    assert np.array_equal(data.y, rows["White"])
    assert np.array_equal(data.s, rows["gender"] == "male")
    (tmp_path / "fairface_label_val.csv").unlink()
    with pytest.raises(InputError, match="12 images of fairface have no value of White or gender"):
        faces.load("fairface", tmp_path, pixels=8)
    assert faces.load("fairface", tmp_path, pixels=8, skip_missing=True).held is None


def test_fairface_as_it_is_unzipped(tmp_path):
    inside = tmp_path / "fairface-img-margin025-trainval"
    inside.mkdir()
    fairface(inside)
    for part in ("train", "val"):
        (inside / f"fairface_label_{part}.csv").rename(tmp_path / f"fairface_label_{part}.csv")
    assert len(faces.load("fairface", tmp_path, pixels=8)) == 24


def test_fairface_by_race_and_age(tmp_path):
    fairface(tmp_path, rows=120)
    data = faces.load("fairface", tmp_path, "age", "race", pixels=8)
    assert data.label_names == ("3-9", "10-19", "20-29", "more than 70")
    assert data.group_names == ("Black", "East Asian", "White")
    assert data.paper_plan is None
    few = faces.load("fairface", tmp_path, "White", "age,gender", pixels=8)
    assert set(few.group_names) == {
        "20-29 x male",
        "3-9 x female",
        "more than 70 x male",
        "10-19 x female",
    }


def test_embeddings_of_one_part_of_fairface_are_known_without_its_folder(tmp_path):
    fairface(tmp_path, ["train"])
    face_folders.embeddings(tmp_path / "embeddings-x.parquet", ["1.jpg", "2.jpg"])
    assert faces.load("fairface", tmp_path).frame["file"].tolist() == ["train/1.jpg", "train/2.jpg"]
    fairface(tmp_path, ["val"])
    with pytest.raises(InputError, match=r"No image of fairface has its .*\(1.jpg, 2.jpg\)"):
        faces.load("fairface", tmp_path)


def test_labels_of_fairface_that_are_wrong(tmp_path):
    fairface(tmp_path, ["train"])
    path = tmp_path / "fairface_label_train.csv"
    text = path.read_text()
    for old, new, sentence in [
        ("race", "rice", "has no column 'race'"),
        ("Female", "F", "has the gender 'F'"),
        ("train/2.jpg", "train/1.jpg", "lists 'train/1.jpg' twice"),
    ]:
        path.write_text(text.replace(old, new))
        with pytest.raises(InputError, match=sentence):
            faces.load("fairface", tmp_path, pixels=8)


@needs_faces
def test_the_stored_embeddings_of_utkface_and_fairface():
    utk = faces.load("utkface", FACES)
    assert utk.inputs == "dinov2s"
    assert np.bincount(utk.s).tolist() == [9_778 - 4_372, 4_372]
    assert utk.y.sum() == 5_265
    assert utk.paper_plan.under == (350, 50)
    assert utk.paper_plan.over == (50, 350)
    sentence = "UTKFace here has 4,372 men, the paper's plan needs 8,700: its clients are scaled "
    assert utk.paper_plan.scaled == sentence + "to 50 %."
    assert any("embeddings-facenet512.parquet (9,778 rows)" in note for note in utk.notes)
    fair = faces.load("fairface", FACES / "fairface")
    assert np.bincount(fair.s).tolist() == [3_300, 8_700]
    assert fair.y.sum() == 2_179
    assert fair.paper_plan.over == (100, 700)
    assert faces.load("fairface", FACES, "race", "age").group_names[1] == "3-9"


@needs_faces
def test_the_samples_of_utkface_and_fairface():
    utk = faces.load("utkface", FACES, pixels=8)
    assert len(utk) == 399
    assert "61_1_20170109142408075.jpg.chip.jpg" in "".join(utk.notes)
    deep = faces.load("utkface", FACES, with_images=True)
    assert deep.frame["file"].tolist() == utk.frame["file"].tolist()
    assert len(faces.load("fairface", FACES, pixels=8)) == 300
