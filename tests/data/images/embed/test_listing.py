"""Which files are taken."""

import os
from pathlib import Path

import pytest

from pfedfair._util.errors import InputError
from pfedfair.data.images.embed.listing import list_images


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "images"
    (root / "b").mkdir(parents=True)
    (root / ".hidden").mkdir()
    for name in ("c.jpg", "b/z.PNG", "a b.jpeg", "notes.txt", ".x.jpg", ".hidden/y.jpg", "p.heic"):
        (root / name).write_bytes(b"1")
    return root


def test_images_are_sorted_and_the_rest_is_counted(folder):
    found = list_images(folder)
    assert found.names == ("a b.jpeg", "b/z.PNG", "c.jpg", "p.heic")
    assert (found.others, found.skipped) == (3, ())


def test_links_that_leave_the_folder_are_skipped(folder, tmp_path):
    (tmp_path / "secret.jpg").write_bytes(b"2")
    (folder / "out.jpg").symlink_to(tmp_path / "secret.jpg")
    (folder / "there").symlink_to(tmp_path)
    (folder / "in.jpg").symlink_to(folder / "c.jpg")
    (folder / "gone.jpg").symlink_to(folder / "absent.jpg")
    (folder / "loop.jpg").symlink_to(folder / "loop.jpg")
    found = list_images(folder)
    assert "in.jpg" in found.names
    assert dict(found.skipped) == {
        "out.jpg": "a link out of the folder",
        "there": "a link to a folder",
        "gone.jpg": "a link to nothing",
        "loop.jpg": "a link that cannot be followed",
    }
    given = list_images(folder, ["c.jpg", "../secret.jpg", "out.jpg", str(tmp_path / "secret.jpg")])
    assert given.names == ("c.jpg",)
    assert {reason for _, reason in given.skipped} == {"a link out of the folder"}


def test_odd_names(folder):
    odd = ["ü.jpg", "neu\nzeile.jpg", "'; drop.jpg", "[red].jpg", "-rf.jpg"]
    for name in odd:
        (folder / name).write_bytes(b"3")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.jpg")).write_bytes(b"4")
    found = list_images(folder)
    assert set(odd) < set(found.names)
    assert found.skipped == (("\\udcff.jpg", "its name is not UTF-8"),)


def test_named_files(folder):
    assert list_images(folder, ["c.jpg", "b/z.PNG", "c.jpg"]).names == ("b/z.PNG", "c.jpg")
    with pytest.raises(InputError, match=r"11 images are not in .*: x0\.jpg, .*, \.\.\.\.$"):
        list_images(folder, [f"x{number}.jpg" for number in range(11)])


def test_what_is_no_folder_of_images(tmp_path):
    with pytest.raises(InputError, match="does not exist: name the folder"):
        list_images(tmp_path / "absent")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is not a folder"):
        list_images(tmp_path / "file")
    with pytest.raises(InputError, match=r"There is no image in .* among its 1 files"):
        list_images(tmp_path)


def test_digests_know_a_change(folder):
    before = list_images(folder)
    os.utime(folder / "c.jpg", ns=(1, 1))
    touched = list_images(folder)
    assert before.digest == touched.digest
    assert before.stamp != touched.stamp
    (folder / "c.jpg").write_bytes(b"longer")
    assert list_images(folder).digest != before.digest
