"""Images of all kinds, good and bad."""

import hashlib
import io
import os
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

from pfedfair.data.images.embed import BadImage, open_image, pictures
from pfedfair.data.images.embed.pictures import read_picture

RNG = np.random.default_rng(0)
COLOURS = Image.fromarray(RNG.integers(0, 256, (6, 5, 3), dtype=np.uint8))


def saved(tmp_path, image, name, **options):
    image.save(tmp_path / name, **options)
    return tmp_path / name


@pytest.mark.parametrize("turn", range(1, 9))
def test_cameras_turns_are_undone_as_pillow_does(tmp_path, turn):
    exif = Image.Exif()
    exif[pictures.ORIENTATION] = turn
    path = saved(tmp_path, COLOURS, "a.png", exif=exif)
    picture = read_picture(path)
    with Image.open(path) as image:
        expected = np.asarray(ImageOps.exif_transpose(image))
    assert np.array_equal(np.asarray(picture.image), expected)
    assert picture.rotated == (turn > 1)
    assert picture.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "YCbCr"])
def test_other_colours_become_rgb(tmp_path, mode):
    image = COLOURS.convert(mode)
    path = saved(tmp_path, image, "a.tif" if mode in ("CMYK", "YCbCr") else "a.png")
    found = open_image(path)
    assert found.mode == "RGB"
    with Image.open(path) as again:
        assert np.array_equal(np.asarray(found), np.asarray(again.convert("RGB")))


def test_a_cmyk_jpeg_is_not_inverted(tmp_path):
    white = Image.new("RGB", (16, 16), "white").convert("CMYK")
    assert np.asarray(open_image(saved(tmp_path, white, "a.jpg"))).min() > 250


def test_sixteen_bits_are_scaled_and_not_clipped(tmp_path):
    values = np.arange(0, 65536, 1024, dtype=np.uint16).reshape(8, 8)
    for name in ("a.png", "a.tif"):
        found = np.asarray(open_image(saved(tmp_path, Image.fromarray(values), name)))
        assert np.array_equal(found[:, :, 1], values // 256)


def test_a_palette_with_transparency(tmp_path):
    image = COLOURS.quantize(8)
    path = saved(tmp_path, image, "a.png", transparency=bytes([0, 128, 255]))
    assert np.array_equal(np.asarray(open_image(path)), np.asarray(image.convert("RGB")))


@pytest.mark.parametrize("name", ["a.gif", "a.webp", "a.png", "a.tif"])
def test_the_first_frame_of_several(tmp_path, name):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue", "lime")]
    exact = {"lossless": True} if name == "a.webp" else {}
    path = saved(tmp_path, frames[0], name, save_all=True, append_images=frames[1:], **exact)
    picture = read_picture(path)
    assert picture.animated
    assert np.asarray(picture.image)[4, 4].tolist() == [255, 0, 0]
    assert not read_picture(saved(tmp_path, COLOURS, "still.gif")).animated


def bomb():
    """A PNG of a few hundred bytes whose header says 30,000 x 30,000 pixels."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(
            ">I", zlib.crc32(kind + content)
        )  # fmt: skip

    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    return start + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


def jpeg():
    content = io.BytesIO()
    COLOURS.resize((64, 64)).save(content, "JPEG")
    return content.getvalue()


def broken_png():
    content = io.BytesIO()
    COLOURS.resize((64, 64)).save(content, "PNG")
    spoilt = bytearray(content.getvalue())
    spoilt[100:140] = bytes(40)
    return bytes(spoilt)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "an empty file"),
        (b"no image at all\n", "not an image that is read here"),
        (jpeg()[:-300], "truncated"),
        (jpeg()[:40], "cannot|truncated|not an image"),
        (broken_png(), "cannot be decoded|broken|truncated"),
        (bomb(), "64,000,000 pixels"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image that is read here"),
    ],
)
def test_bad_images_say_why(tmp_path, content, reason):
    path = tmp_path / "a.jpg"
    path.write_bytes(content)
    with pytest.raises(BadImage, match=reason):
        open_image(path)


def test_limits_are_kept(tmp_path, monkeypatch):
    path = saved(tmp_path, COLOURS, "a.png")
    monkeypatch.setattr(pictures, "LARGEST", 29)
    with pytest.raises(BadImage, match="5 x 6 are more than 29 pixels"):
        open_image(path)
    monkeypatch.setattr(pictures, "HEAVIEST", 10)
    with pytest.raises(BadImage, match="larger than"):
        open_image(path)


def test_what_is_no_file(tmp_path):
    with pytest.raises(BadImage, match="no such file"):
        open_image(tmp_path / "absent.jpg")
    os.mkfifo(tmp_path / "pipe.jpg")  # without a writer, reading it would wait for ever
    with pytest.raises(BadImage, match="not a regular file"):
        open_image(tmp_path / "pipe.jpg")


def test_floating_point_pixels_are_refused(tmp_path):
    image = Image.fromarray(np.full((4, 4), 0.5, np.float32))
    with pytest.raises(BadImage, match="floating-point"):
        open_image(saved(tmp_path, image, "a.tif"))


def test_damaged_exif_does_not_cost_the_image(tmp_path):
    path = saved(tmp_path, COLOURS.resize((64, 64)), "a.jpg", exif=b"Exif\0\0II*\0\xff\xff\xff\xff")
    with pictures.no_warnings():
        assert open_image(path).size == (64, 64)
