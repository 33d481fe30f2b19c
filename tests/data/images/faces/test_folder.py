"""Any folder with a manifest: here faces of people who do not exist."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import face_folders
import made_encoders
from pfedfair._util.errors import InputError
from pfedfair.data.images import faces

GENERATED = Path(__file__).parent / "generated"


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(GENERATED, tmp_path / "generated"))


def test_what_the_manifest_says_is_in_the_pixels():
    table = pd.read_csv(GENERATED / "manifest.csv")
    assert list(table) == ["file", "prompt", "seed", "generator", "bright", "side", "client"]
    assert len(table) == 48
    grey = [np.asarray(Image.open(GENERATED / f).convert("L"), float) for f in table["file"]]
    light = np.array([image.mean() for image in grey])
    left = np.array([image[:, :48].mean() > image[:, 48:].mean() for image in grey])
    assert np.array_equal(table["bright"], light > np.median(light))
    assert np.array_equal(table["side"] == "left", left)
    assert {image.shape for image in grey} == {(96, 96)}


def test_pixels_of_a_folder(folder):
    data = faces.from_folder(folder, "bright", "side", pixels=24)
    table = pd.read_csv(folder / "manifest.csv").sort_values("file")
    assert data.name == "generated"
    assert data.array.shape == (48, 3, 24, 24)
    assert np.array_equal(data.y, table["bright"])
    assert data.group_names == ("left", "right")
    assert np.array_equal(data.s, table["side"] == "right")
    assert data.frame["client"].tolist() == table["client"].tolist()
    assert data.frame["generator"].nunique() == 1
    assert (data.settings, data.hidden, data.aware) == ("images", (), False)
    assert data.paper_plan is None
    assert data.held is None
    bright = data.array.astype(float).mean((1, 2, 3))
    assert bright[data.y == 1].mean() > bright[data.y == 0].mean() + 10


def test_embeddings_of_a_folder_are_made_and_kept(folder, tmp_path):
    made_encoders.tiny(tmp_path / "tiny")
    data = faces.from_folder(folder, "bright", "side", encoder=str(tmp_path / "tiny"))
    assert data.array.shape == (48, 16)
    assert data.inputs == "tiny"
    again = faces.from_folder(folder, "bright", "side")  # no encoder is needed now
    assert np.array_equal(again.array, data.array)
    flat = faces.from_folder(folder, "bright", "side", pixels=8)
    assert flat.frame["file"].tolist() == again.frame["file"].tolist()
    assert len(faces.copies(again.array, sha256=again.frame["sha256"]).exact) == 0
    path = folder / "embeddings-tiny.parquet"
    with pytest.raises(InputError, match="no column to read 'bright' from: put labels beside"):
        faces.from_embeddings(path, "bright", "side")


def test_a_split_of_your_own_is_held_out(folder):
    table = pd.read_csv(folder / "manifest.csv")
    table["split"] = np.where(table["seed"] > 40, "test", "train")
    table.to_csv(folder / "manifest.csv", index=False)
    data = faces.from_folder(folder, "bright", "side", pixels=8)
    assert np.array_equal(data.held, data.frame["seed"] > 40)
    with pytest.raises(InputError, match=r"6 groups with fewer than 30 rows.*merge_groups=True"):
        faces.from_folder(folder, "bright", "side,client", pixels=8)


def test_images_of_which_none_can_be_read(folder):
    for path in folder.glob("*.jpg"):
        path.write_bytes(b"")
    with pytest.raises(InputError, match=r"^48 images cannot be read .*001.jpg \(an empty file\)"):
        faces.from_folder(folder, "bright", "side", pixels=8)


def test_files_that_are_not_there(folder):
    for number in (3, 7):
        (folder / f"{number:03d}.jpg").unlink()
    with pytest.raises(
        InputError, match=r"^2 images that manifest.csv lists .*\(003.jpg, 007.jpg\)"
    ):
        faces.from_folder(folder, "bright", "side", pixels=8)
    assert len(faces.from_folder(folder, "bright", "side", pixels=8, skip_missing=True)) == 46
    there = [f"{n:03d}.jpg" for n in range(1, 49) if n != 7]
    face_folders.embeddings(folder / "embeddings-x.parquet", there)  # one is embedded, though
    with pytest.raises(InputError, match=r"has 1 file of manifest.csv with neither .*\(007.jpg\)"):
        faces.from_folder(folder, "bright", "side")
    data = faces.from_folder(folder, "bright", "side", skip_missing=True)
    assert len(data) == 47
    assert "007.jpg" in data.notes[-1]


def test_manifests_that_are_wrong(folder):
    path = folder / "manifest.csv"
    text = path.read_text()
    wrong = {
        text.replace("file,", "name,", 1): "has no column 'file'",
        text.replace("001.jpg", "../001.jpg"): r"files outside of its folder: ../001.jpg",
        text.replace("001.jpg", "/etc/1.jpg"): "files outside of its folder: /etc/1.jpg",
        text.replace("001.jpg", "002.jpg"): "lists 002.jpg more than once",
        text.replace("001.jpg", ""): "rows without a file",
        text.partition("\n")[0] + "\n": "rows without a file, or no rows",
        "": "is empty: it should have a line of names",
    }
    for content, sentence in wrong.items():
        path.write_text(content)
        with pytest.raises(InputError, match=sentence):
            faces.from_folder(folder, "bright", "side", pixels=8)
    path.write_text(text)
    with pytest.raises(InputError, match=r"no column 'brigth' .* did you mean 'bright'"):
        faces.from_folder(folder, "brigth", "side", pixels=8)
    path.unlink()
    with pytest.raises(InputError, match="write one with a column 'file'"):
        faces.from_folder(folder, "bright", "side", pixels=8)
    with pytest.raises(InputError, match="does not exist"):
        faces.from_folder(folder / "no", "bright", "side")


def test_a_file_of_embeddings_with_labels_beside_them(tmp_path):
    path = tmp_path / "mine.parquet"
    files = [f"{n:02d}.png" for n in range(9, -1, -1)]
    columns = {
        "ill": [0, 1] * 5,
        "ward": list("abcabcabca"),
        "sex": ["f", "m", "m", "f", "m"] * 2,
        "split": ["train"] * 7 + ["test"] * 3,
    }
    values = face_folders.embeddings(path, files, columns)
    data = faces.from_embeddings(path, "ill", "sex")
    assert (data.name, data.inputs, data.settings) == ("mine", "mine", "images")
    assert np.array_equal(data.array, values[::-1])
    assert data.y.tolist() == columns["ill"][::-1]
    assert data.group_names == ("f", "m")
    assert data.frame["ward"].tolist() == columns["ward"][::-1]
    assert data.held.tolist() == [True] * 3 + [False] * 7
    assert faces.from_embeddings(path, "ill", "sex", "wards").name == "wards"
    columns["sex"][4] = None
    face_folders.embeddings(path, files, columns)
    with pytest.raises(InputError, match=r"^1 image of mine has no value of sex: .*\(05.png\)"):
        faces.from_embeddings(path, "ill", "sex")
    assert len(faces.from_embeddings(path, "ill", "sex", skip_missing=True)) == 9
    with pytest.raises(InputError, match="leave out pixels and the encoder"):
        faces.from_embeddings(path, "ill", "sex", pixels=8)
    with pytest.raises(InputError, match="There is no file"):
        faces.from_embeddings(tmp_path / "no.parquet", "ill", "sex")
    face_folders.embeddings(tmp_path / "bare.parquet", files, {})
    with pytest.raises(InputError, match="has no column to read 'ill' from: put labe"):
        faces.from_embeddings(tmp_path / "bare.parquet", "ill", "sex")
    (tmp_path / "text.parquet").write_text("file,embedding")
    with pytest.raises(InputError, match="no Parquet file with the columns 'file' and 'embedding'"):
        faces.from_embeddings(tmp_path / "text.parquet", "ill", "sex")
