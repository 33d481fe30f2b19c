"""Read untrusted image files: safely, upright and in RGB."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from pfedfair._util.files import first_line

if TYPE_CHECKING:
    from PIL.Image import Image, Transpose

LARGEST = 64_000_000  # pixels of one image: more may be a decompression bomb
HEAVIEST = 256 * 2**20  # bytes of one file
SEQUENTIAL = 4_000_000  # pixels from which images are decoded one at a time
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")  # none that runs programs
ORIENTATION = 0x0112  # the EXIF tag
_large = Lock()


class BadImage(Exception):  # noqa: N818
    """An image that cannot be used; the text is a short reason."""


@dataclass(frozen=True)
class Picture:
    image: Image
    sha256: str  # of the file's bytes
    animated: bool  # or of several pages: only the first is read
    rotated: bool


def open_image(path: Path) -> Image:
    """Read an image as RGB.

    It is upright (EXIF), of an animation the first frame, grey, CMYK, palettes and 16 bits are
    converted, and transparency is dropped, as image processors of transformers do.
    """
    return read_picture(path).image


def read_picture(path: Path) -> Picture:
    """Read an image as `open_image` does, with a record of the changes; raise BadImage."""
    try:
        content = _content(path)
        image, animated, rotated = _decoded(content)
    except BadImage:
        raise
    except Exception as error:  # decoders raise many kinds
        raise BadImage(_reason(error)) from error
    return Picture(image, hashlib.sha256(content).hexdigest(), animated, rotated)


@contextmanager
def no_warnings() -> Iterator[None]:
    """Suppress Pillow's warnings: BadImage reports what is wrong with an image."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\b")
        yield


def _content(path: Path) -> bytes:
    # A pipe or device among the images must not stop us: open it without waiting, and look.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags), "rb") as file:  # noqa: PTH123
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise BadImage("not a regular file")
        if about.st_size > HEAVIEST:
            raise BadImage(f"larger than {HEAVIEST // 2**20} MB")
        content = file.read(HEAVIEST)
    if not content:
        raise BadImage("an empty file")
    return content


def _decoded(content: bytes) -> tuple[Image, bool, bool]:
    from PIL import Image

    try:
        opened = Image.open(io.BytesIO(content), formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise BadImage(f"more than {LARGEST:,} pixels") from error
    with opened as image:
        width, height = image.size
        if width * height > LARGEST:
            raise BadImage(f"{width} x {height} are more than {LARGEST:,} pixels")
        with _large if width * height > SEQUENTIAL else nullcontext():
            animated = bool(getattr(image, "is_animated", False)) and image.format != "MPO"
            image.load()
            turn = _turn(image)
            rgb = _rgb(image)
            return (rgb if turn is None else rgb.transpose(turn)), animated, turn is not None


def _turn(image: Image) -> Transpose | None:
    """Return how to rotate or mirror an image by its EXIF orientation."""
    from PIL.Image import Transpose

    turns = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    try:
        return turns.get(image.getexif().get(ORIENTATION, 1))
    except Exception:  # EXIF that cannot be read says nothing about the pixels
        return None


def _rgb(image: Image) -> Image:
    from PIL.Image import fromarray

    if image.mode == "RGB":
        return image.copy()  # the file behind it is closed
    if image.mode == "F":
        raise BadImage("its pixels are floating-point numbers")
    if image.mode.startswith("I"):
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65535:
            raise BadImage("its pixels have 32 bits")
        return fromarray((values >> 8).astype(np.uint8)).convert("RGB")
    if image.mode == "P":
        return image.convert("RGBA").convert("RGB")
    return image.convert("RGB")


def _reason(error: Exception) -> str:
    from PIL import UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):
        return f"not an image that is read here ({', '.join(FORMATS)})"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    if "truncated" in str(error):
        return "truncated"
    return f"cannot be decoded ({first_line(error)})"
