"""Embeddings of images that have changed since."""

import hashlib
import json
import os

import pytest

import face_folders
import made_encoders
from pfedfair._util.errors import InputError
from pfedfair.data.images import faces
from pfedfair.data.images.faces import staleness

PEOPLE = [f"30_{n % 2}_{n // 2 % 5}_201701{n:02d}.jpg" for n in range(20)]
CHANGED = (PEOPLE[3], PEOPLE[7])


@pytest.fixture
def folder(tmp_path):
    """Images, and embeddings with their hashes; then two images are written anew."""
    for n, name in enumerate(PEOPLE):
        face_folders.picture(tmp_path / "UTKFace" / name, n)
    write(tmp_path, hashes(tmp_path))
    later(tmp_path)
    return tmp_path


def hashes(folder):
    paths = (folder / "UTKFace" / name for name in PEOPLE)
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]


def write(folder, sha256=None):
    columns = {"sha256": sha256} if sha256 else None
    face_folders.embeddings(folder / "embeddings-x.parquet", PEOPLE, columns)


def later(folder):
    made = (folder / "embeddings-x.parquet").stat().st_mtime
    for name in CHANGED:
        os.utime(folder / "UTKFace" / name, (made + 10, made + 10))


def test_images_that_have_changed_are_refused_by_their_names(folder):
    for n, name in enumerate(CHANGED):
        face_folders.picture(folder / "UTKFace" / name, 100 + n)
    later(folder)
    with pytest.raises(InputError, match=r"2 images in .* have changed since .*embeddings-x") as e:
        faces.load("utkface", folder)
    assert all(name in str(e.value) for name in CHANGED)
    assert str(e.value).endswith("delete that file and embed the images again.")


def test_newer_images_with_the_same_bytes_are_taken(folder, monkeypatch):
    seen, plain = [], staleness._sha256
    monkeypatch.setattr(staleness, "_sha256", lambda path: seen.append(path.name) or plain(path))
    assert not any("newer" in note for note in faces.load("utkface", folder).notes)
    assert seen == sorted(CHANGED)  # no others
    for name in CHANGED:
        os.utime(folder / "UTKFace" / name, (1, 1))
    faces.load("utkface", folder)
    assert len(seen) == 2


def test_without_hashes_newer_images_are_counted(folder):
    write(folder)
    later(folder)
    notes = faces.load("utkface", folder).notes
    assert any(
        n.startswith("2 images in") and "newer than embeddings-x.parquet" in n for n in notes
    )


def test_a_folder_of_other_weights_does_not_fit_by_its_name(tmp_path):
    made_encoders.tiny(tmp_path / "mine")
    encoder, data = str(tmp_path / "mine"), tmp_path / "data"
    for n, name in enumerate(PEOPLE):
        face_folders.picture(data / "UTKFace" / name, n, (40, 40))
    faces.load("utkface", data, encoder=encoder)
    assert faces.load("utkface", data, encoder=encoder).inputs == "mine"
    made_encoders.tiny(tmp_path / "mine", seed=1)
    with pytest.raises(InputError, match="another encoder"):
        faces.load("utkface", data, encoder=encoder)
    about = {"pfedfair": json.dumps({"encoder": "mine", "width": 6, "hash": "0" * 64})}
    face_folders.embeddings(tmp_path / "bare" / "e.parquet", PEOPLE, metadata=about)
    with pytest.raises(InputError, match=r"No embeddings .* are of the encoder"):
        faces.load("utkface", tmp_path / "bare", encoder=encoder)
