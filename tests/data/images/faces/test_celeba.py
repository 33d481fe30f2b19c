"""CelebA's folder: its files are read, joined and refused."""

import hashlib

import numpy as np
import pandas as pd
import pytest

import face_folders
from pfedfair._util.errors import InputError
from pfedfair.data.dataset import PaperPlan
from pfedfair.data.images import faces
from shared_faces import FACES, needs_faces


@pytest.fixture
def folder(tmp_path):
    face_folders.celeba(tmp_path)
    return tmp_path


def names(numbers):
    return [f"{n:06d}.jpg" for n in numbers]


def test_pixels_labels_and_the_official_parts_are_joined_by_file(tmp_path):
    values = face_folders.celeba(tmp_path)
    data = faces.load("celeba", tmp_path, pixels=16)
    assert data.array.shape == (40, 3, 16, 16)
    assert data.array.dtype == np.uint8
    assert data.frame["file"].tolist() == names(range(1, 41))
    assert np.array_equal(data.y, values["Smiling"])
    assert np.array_equal(data.s, values["Male"])
    assert data.label_names == ("not smiling", "smiling")
    assert data.group_names == ("female", "male")
    assert (data.label_column, data.sensitive_column) == ("Smiling", "Male")
    assert np.array_equal(data.held, np.arange(40) >= 30)
    assert (data.inputs, data.settings, data.hidden) == ("pixels 16x16", "celeba", ())
    assert not data.aware
    assert data.numeric == ()
    assert data.categorical == {}
    assert data.frame["identity"].tolist() == [100 + n // 2 for n in range(40)]


def test_any_attribute_is_a_label_or_sensitive_whatever_its_capitals(tmp_path):
    values = face_folders.celeba(tmp_path, rows=300)
    data = faces.load("celeba", tmp_path, "male", "BALD,young", pixels=8)
    assert data.label_names == ("female", "male")
    assert data.sensitive_column == "Bald,Young"
    words = np.array(data.group_names)[data.s]
    bald = values["Bald"].map({0: "not bald", 1: "bald"})
    young = values["Young"].map({0: "not young", 1: "young"})
    assert words.tolist() == (bald + " x " + young).tolist()
    assert data.paper_plan is None


def test_a_label_that_is_not_there_is_refused_with_the_nearest(folder):
    with pytest.raises(InputError, match=r"no column 'Smilin' of celeba: did you mean 'Smiling'\?"):
        faces.load("celeba", folder, "Smilin", pixels=8)
    with pytest.raises(InputError, match="cannot be both the label and the sensitive"):
        faces.load("celeba", folder, "Male", pixels=8)


def test_without_a_list_of_attributes(folder):
    (folder / "list_attr_celeba.txt").unlink()
    with pytest.raises(
        InputError, match=r"has no list_attr_celeba.txt to read 'Smiling' from: put it"
    ):
        faces.load("celeba", folder, pixels=8)


def test_the_columns_beside_embeddings_are_labels_for_what_is_not_listed(folder):
    values = face_folders.celeba(folder)
    files = names(range(60, 0, -1))
    male, smiling = np.arange(60) % 2, np.arange(60) % 3 == 0
    columns = {"male": male, "SMILING": smiling.astype(int), "hospital": ["a"] * 60}
    stored = face_folders.embeddings(folder / "embeddings-x.parquet", files, columns)
    data = faces.load("celeba", folder)
    assert data.frame["file"].tolist() == names(range(1, 61))
    assert np.array_equal(data.array, stored[::-1])
    assert np.array_equal(data.s[:40], values["Male"])
    assert np.array_equal(data.s[40:], male[::-1][40:])
    assert np.array_equal(data.y[40:], smiling[::-1][40:])
    wrong = int((values["Male"] != male[::-1][:40]).sum())
    assert any(n.startswith(f"{wrong} rows") and "disagree in 'Male'" in n for n in data.notes)
    assert "list_eval_partition.txt is not used: it lacks 20 of the rows." in data.notes
    with pytest.raises(InputError, match=r"20 images of celeba have no value of Young in list_att"):
        faces.load("celeba", folder, "Young")
    part = faces.load("celeba", folder, "Young", skip_missing=True)
    assert len(part) == 40
    assert part.label_names == ("not young", "young")
    assert any("20 images" in n and "000041.jpg" in n and "10 others" in n for n in part.notes)


def test_rows_of_embeddings_and_of_pixels_are_the_same_with_images(folder):
    files = [f"img_align_celeba/{name}" for name in names(range(1, 31))]  # as a whole folder's
    face_folders.embeddings(folder / "embeddings-x.parquet", files)
    for name in names(range(21, 41)):
        (folder / "img_align_celeba" / name).unlink()
    deep = faces.load("celeba", folder, with_images=True)
    flat = faces.load("celeba", folder, pixels=8, skip_missing=True)
    assert deep.frame["file"].tolist() == flat.frame["file"].tolist() == names(range(1, 21))
    assert np.array_equal(deep.y, flat.y)
    assert len(faces.load("celeba", folder)) == 30  # a part of what is listed


def test_images_that_are_listed_and_not_there(folder):
    for name in names(range(1, 13)):
        (folder / "img_align_celeba" / name).unlink()
    with pytest.raises(
        InputError, match=r"^12 images that list_attr.* skip_missing=True .*2 others\)"
    ):
        faces.load("celeba", folder, pixels=8)
    with pytest.raises(InputError, match="12 images that list_attr"):  # before any work is done
        faces.load("celeba", folder, encoder="no/such-encoder")
    data = faces.load("celeba", folder, pixels=8, skip_missing=True)
    assert data.frame["file"].tolist() == names(range(13, 41))
    assert any(n.startswith("12 images") and "000001.jpg" in n for n in data.notes)


def test_an_image_that_is_not_listed(folder):
    face_folders.picture(folder / "img_align_celeba" / "999999.jpg")
    with pytest.raises(InputError, match=r"1 image of celeba has no value of .* \(999999.jpg\)"):
        faces.load("celeba", folder, pixels=8)
    assert len(faces.load("celeba", folder, pixels=8, skip_missing=True)) == 40


def test_a_list_of_attributes_that_is_cut_or_wrong(folder):
    path = folder / "list_attr_celeba.txt"
    text = path.read_text()
    wrong = {
        text.replace("40\n", "41\n", 1): "should have 41 images and has 40",
        text.replace("Bald ", ""): "names 3 attributes and has 4 values",
        text.partition("\n")[2]: "is not CelebA's list of attributes",
        text.replace(" 1", " 2", 1): "neither 1 nor -1",
        text.replace("000002", "000001"): "lists '000001.jpg' twice",
    }
    for content, sentence in wrong.items():
        path.write_text(content)
        with pytest.raises(InputError, match=sentence):
            faces.load("celeba", folder, pixels=8)


def test_where_rows_are_held_out_by(folder):
    """The official parts, else the column, else identities, else no rows."""
    face_folders.embeddings(
        folder / "embeddings-x.parquet",
        names(range(1, 41)),
        {"split": ["test", "train"] * 20},
    )
    assert faces.load("celeba", folder).held.sum() == 10
    (folder / "list_eval_partition.txt").unlink()
    data = faces.load("celeba", folder)
    assert np.array_equal(data.held, np.arange(40) % 2 == 0)
    assert "20 people are both in training and in the test by their identity number." in data.notes
    face_folders.embeddings(folder / "embeddings-x.parquet", names(range(1, 41)))
    third = faces.load("celeba", folder)
    who = third.frame["identity"]
    expected = [hashlib.sha256(str(i).encode()).digest()[0] % 3 == 0 for i in who]
    assert third.held.tolist() == expected
    assert not set(who[third.held]) & set(who[~third.held])
    (folder / "identity_CelebA.txt").unlink()
    assert faces.load("celeba", folder).held is None


def test_sides_of_people_do_not_depend_on_who_else_is_there():
    from pfedfair.data.images.faces.split import by_identity

    everyone = pd.Series(np.arange(3000))
    held = by_identity(everyone)
    assert held.mean() == pytest.approx(1 / 3, abs=0.03)
    some = everyone[::-7]
    assert np.array_equal(by_identity(some), held[::-7])


def test_folders_around_and_samples(tmp_path):
    face_folders.celeba(tmp_path / "data" / "celeba" / "sample")
    for folder in ("data", "data/celeba", "data/celeba/sample"):
        assert len(faces.load("celeba", tmp_path / folder, pixels=8)) == 40
    with pytest.raises(InputError, match="nowhere does not exist: name the folder"):
        faces.load("celeba", tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no images and no embeddings of celeba .*img_align"):
        faces.load("celeba", tmp_path / "empty")
    with pytest.raises(InputError, match="There are no images of celeba"):
        faces.load("celeba", tmp_path / "empty", pixels=8)
    with pytest.raises(InputError, match="Unknown data set of faces 'celebA': did you mean 'cel"):
        faces.load("celebA", tmp_path)


@needs_faces
def test_the_paper_s_clients_fit_the_stored_embeddings():
    data = faces.load("celeba", FACES)
    assert data.array.shape == (18_000, 2_048)
    assert data.array.dtype == np.float16
    assert data.inputs == "resnet50"
    assert data.paper_plan == PaperPlan((1000, 200), (200, 1000), 2, 8, 1 / 2)
    by_side = [np.bincount(data.s[side]).tolist() for side in (~data.held, data.held)]
    assert by_side == [[3600, 8400], [1800, 4200]]
    assert not any("scaled" in note for note in data.notes)


@needs_faces
def test_the_sample_has_the_same_rows_as_its_embeddings():
    deep = faces.load("celeba", FACES, encoder="dinov2s", with_images=True)
    wide = faces.load("celeba", FACES, with_images=True)
    flat = faces.load("celeba", FACES, pixels=8)
    for other in (wide, flat):
        assert other.frame["file"].tolist() == deep.frame["file"].tolist()
        assert np.array_equal(other.y, deep.y)
        assert np.array_equal(other.held, deep.held)
    assert not (FACES / "celeba" / "sample" / "pixels-8.npz").exists()  # it may not be written to
