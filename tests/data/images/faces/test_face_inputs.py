"""Which embeddings are used, and pixels that are cached next to the images."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import face_folders
import made_encoders
from pfedfair._util.errors import InputError
from pfedfair.data.images import faces
from pfedfair.data.images.faces.pixels import read_pixels

PEOPLE = [f"30_{n % 2}_{n // 2 % 5}_201701{n:02d}.jpg" for n in range(20)]


def stored(folder, name, rows=20, encoder=None, width=6):
    about = {"pfedfair": json.dumps({"encoder": encoder, "width": width})} if encoder else None
    return face_folders.embeddings(folder / name, PEOPLE[:rows], width=width, metadata=about)


def test_most_rows_then_dinov2_then_clip_then_the_alphabet(tmp_path):
    stored(tmp_path, "embeddings-aaa.parquet", 12)
    assert faces.load("utkface", tmp_path).inputs == "aaa"
    assert not any("embeddings" in note for note in faces.load("utkface", tmp_path).notes)
    for name, taken in [("zzz", "zzz"), ("xxx", "xxx"), ("my-clip", "my-clip"), ("dinov2s",) * 2]:
        stored(tmp_path, f"embeddings-{name}.parquet")
        data = faces.load("utkface", tmp_path)
        assert data.inputs == taken
        assert f"those of embeddings-{taken}.parquet (20 rows)" in data.notes[0]
        assert "embeddings-aaa.parquet (12 rows)" in data.notes[0]


def test_the_encoder_that_is_asked_for(tmp_path):
    stored(tmp_path, "embeddings-dinov2s.parquet")
    stored(tmp_path, "one.parquet", encoder="facebook/dinov2-base", rows=12)
    stored(tmp_path, "two.parquet", encoder="my-model")
    wanted = {
        "dinov2s": 20,
        "dinov2": 12,  # not the one whose name has it in it
        "facebook/dinov2-base": 12,
        "dinov2-base": 12,
        "models/my-model/": 20,
    }
    for encoder, rows in wanted.items():
        assert len(faces.load("utkface", tmp_path, encoder=encoder)) == rows
    (tmp_path / "one.parquet").unlink()
    near = faces.load("utkface", tmp_path, encoder="dinov2")
    assert near.inputs == "dinov2s"
    assert near.notes[0].startswith("For 'dinov2', embeddings-dinov2s.parquet is taken")
    with pytest.raises(InputError, match=r"No embeddings .* 'clip', and there are no images"):
        faces.load("utkface", tmp_path, encoder="clip")


def test_tables_without_embeddings_and_broken_files_are_passed_over(tmp_path):
    stored(tmp_path, "embeddings-x.parquet")
    pq.write_table(pa.table({"file": ["a"]}), tmp_path / "table.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    assert faces.load("utkface", tmp_path).inputs == "x"


def test_images_without_embeddings_say_how_to_make_them(tmp_path):
    for name in PEOPLE[:3]:
        face_folders.picture(tmp_path / "UTKFace" / name)
    with pytest.raises(InputError) as error:
        faces.load("utkface", tmp_path)
    command = f"pfedfair embed {tmp_path / 'UTKFace'} --encoder dinov2 --out {tmp_path}/"
    assert f"{command}embeddings-dinov2.parquet" in str(error.value)
    assert "--encoder" in str(error.value)
    with pytest.raises(InputError, match="give one of the two"):
        faces.load("utkface", tmp_path, encoder="x", pixels=8)
    with pytest.raises(InputError, match="8 to 1024, got 4"):
        faces.load("utkface", tmp_path, pixels=4)


def test_embeddings_are_made_once_and_kept_beside_the_images(tmp_path):
    made_encoders.tiny(tmp_path / "my-encoder")
    folder = tmp_path / "data"
    for n, name in enumerate([*PEOPLE, "bad.jpg"]):
        face_folders.picture(folder / "UTKFace" / name, n, (40, 40))
    (folder / "UTKFace" / PEOPLE[4]).write_bytes(b"no image")
    encoder, calls = str(tmp_path / "my-encoder"), []
    work = lambda done, total: calls.append((done, total))  # noqa: E731
    data = faces.load("utkface", folder, encoder=encoder, on_work=work)
    assert calls[-1] == (20, 20)
    assert data.array.shape == (19, 16)
    assert data.inputs == "my-encoder"
    assert any("bad.jpg" in note for note in data.notes)
    assert any(n.startswith("1 image could not be embedded") for n in data.notes)
    frame = pq.read_table(folder / "embeddings-my-encoder.parquet").to_pandas()
    assert frame["file"].tolist() == data.frame["file"].tolist()
    assert np.array_equal(np.stack(frame["embedding"].to_list()), data.array)
    made_encoders.tiny(tmp_path / "my-encoder", seed=1)  # another one would give others
    again = faces.load("utkface", folder, encoder="my-encoder")
    assert np.array_equal(again.array, data.array)
    assert "sha256" in again.frame


def test_a_folder_that_may_not_be_written_to_is_left_as_it_is(tmp_path):
    for name in PEOPLE[:4]:
        face_folders.picture(tmp_path / "UTKFace" / name)
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(
            InputError, match=r"may not be written to: copy it, or .*--encoder clip"
        ):
            faces.load("utkface", tmp_path, encoder="clip")
        data = faces.load("utkface", tmp_path, pixels=8)
        assert any("may not be written to" in note for note in data.notes)
        assert [path.name for path in tmp_path.iterdir()] == ["UTKFace"]
    finally:
        tmp_path.chmod(0o755)


def test_two_files_of_one_name(tmp_path):
    files = [f"{part}/{PEOPLE[0]}" for part in ("UTKFace", "crop_part1")]
    face_folders.embeddings(tmp_path / "embeddings-x.parquet", [*files, PEOPLE[1]])
    with pytest.raises(
        InputError, match=r"2 rows with the name of another one, UTKFace/30_0.*once"
    ):
        faces.load("utkface", tmp_path)


def test_rows_of_unequal_width_and_two_encoders(tmp_path):
    lists = pa.array([[0.0] * 6] * 19 + [[0.0] * 5], pa.list_(pa.float32()))
    pq.write_table(pa.table({"file": PEOPLE, "embedding": lists}), tmp_path / "e.parquet")
    with pytest.raises(
        InputError, match=r"embeddings of 6 numbers, but row 19 has 5.*two encoders"
    ):
        faces.load("utkface", tmp_path)
    face_folders.embeddings(tmp_path / "e.parquet", PEOPLE, {"encoder": ["a"] * 10 + ["b"] * 10})
    with pytest.raises(InputError, match="two encoders are mixed in one file"):
        faces.load("utkface", tmp_path)


def test_images_without_a_row_are_counted(tmp_path):
    for name in [*PEOPLE[:15], "bad.jpg"]:
        face_folders.picture(tmp_path / "UTKFace" / name)
    stored(tmp_path, "embeddings-x.parquet", 12)
    data = faces.load("utkface", tmp_path)
    assert any(n.startswith("3 images in") and "no row in embeddings-x" in n for n in data.notes)


@pytest.fixture
def images(tmp_path):
    for n in range(4):
        face_folders.picture(tmp_path / "in" / f"{n}.png", n, (30, 20))
    return tmp_path / "in"


def square(path, side):
    """The centre of an image, by Pillow's own steps."""
    image = Image.open(path).convert("RGB").crop((5, 0, 25, 20))
    return np.asarray(image.resize((side, side), Image.Resampling.BILINEAR)).transpose(2, 0, 1)


def test_pixels_are_the_centre_made_smaller(images, tmp_path):
    files = ["0.png", "2.png"]
    array, rows, notes = read_pixels(images, files, 10, tmp_path)
    assert (rows.tolist(), notes) == ([0, 1], ())
    assert np.array_equal(array, [square(images / f, 10) for f in files])


def test_pixels_are_read_again_only_where_an_image_has_changed(images, tmp_path, monkeypatch):
    files = sorted(os.listdir(images))  # noqa: PTH208
    first = read_pixels(images, files, 8, tmp_path)[0]
    before = (tmp_path / "pixels-8.npz").read_bytes()
    opened = []
    from pfedfair.data.images import embed

    plain = embed.open_image
    monkeypatch.setattr(embed, "open_image", lambda p: opened.append(Path(p).name) or plain(p))
    assert np.array_equal(read_pixels(images, files, 8, tmp_path)[0], first)
    assert opened == []
    assert (tmp_path / "pixels-8.npz").read_bytes() == before
    face_folders.picture(images / "1.png", 99, (30, 20))
    os.utime(images / "1.png", (1, 1))
    (images / "9.png").write_bytes((images / "0.png").read_bytes()[:300])
    array, rows, notes = read_pixels(images, [*files, "9.png"], 8, tmp_path)
    assert sorted(opened) == ["1.png", "9.png"]
    assert np.array_equal(array, [square(images / f, 8) for f in files])
    assert rows.tolist() == [0, 1, 2, 3]
    assert notes[0].startswith("1 image cannot be read and left out: 9.png (")
    opened.clear()
    assert read_pixels(images, [*files, "9.png"], 8, tmp_path)[2] == notes  # kept, too
    some = read_pixels(images, ["3.png", "0.png"], 8, tmp_path)[0]
    assert opened == []
    assert np.array_equal(some, array[[3, 0]])


def test_a_broken_file_of_pixels_is_written_again(images, tmp_path):
    files = ["0.png", "1.png"]
    good = read_pixels(images, files, 8, tmp_path)[0]
    for broken in (b"", b"no", (tmp_path / "pixels-8.npz").read_bytes()[:500]):
        (tmp_path / "pixels-8.npz").write_bytes(broken)
        assert np.array_equal(read_pixels(images, files, 8, tmp_path)[0], good)
    np.savez(tmp_path / "pixels-8.npz", names=np.array([{}], dtype=object))  # it would be unpickled
    assert np.array_equal(read_pixels(images, files, 8, tmp_path)[0], good)
