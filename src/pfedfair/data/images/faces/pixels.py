"""Small square versions of image files, cached next to them."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from pfedfair._util.files import atomic
from pfedfair._util.limits import check_zip
from pfedfair.data.images.faces.layout import count, first, may_write

STORED = ("names", "sizes", "times", "reasons", "pixels")


def read_pixels(
    images: Path,
    files: Sequence[str],
    side: int,
    home: Path,
    on_work: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return pixels ``(k, 3, side, side)`` of readable images, which these are, and notes.

    They are cached in `home`, with every image's size and time: a changed image is read again.
    """
    cache = home / f"pixels-{side}.npz"
    stats = [(images / file).stat() for file in files]
    sizes = np.array([stat.st_size for stat in stats], np.int64)
    times = np.array([stat.st_mtime_ns for stat in stats], np.int64)
    array, reasons, todo = _stored(cache, files, sizes, times, side)
    notes = []
    if len(todo):
        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            pictures = pool.map(lambda row: _picture(images / files[row], side), todo)
            for done, (row, (picture, reason)) in enumerate(zip(todo, pictures, strict=True), 1):
                array[row], reasons[row] = picture, reason
                on_work(done, len(todo))
        if may_write(home):
            values = (np.array(files), sizes, times, np.array(reasons), array)
            with atomic(cache) as temporary, temporary.open("wb") as file:
                np.savez(file, allow_pickle=False, **dict(zip(STORED, values, strict=True)))
        else:
            notes.append(f"{home} may not be written to: its pixels are read again each time.")
    readable = np.flatnonzero([not reason for reason in reasons])
    if len(readable) < len(files):
        array = array[readable]
        bad = [f"{f} ({reason})" for f, reason in zip(files, reasons, strict=True) if reason]
        notes.append(f"{count(len(bad), 'image')} cannot be read and left out: {first(bad)}.")
    return array, readable, tuple(notes)


def _stored(
    cache: Path, files: Sequence[str], sizes: np.ndarray, times: np.ndarray, side: int
) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Return the cached pixels, why some images have none, and the rows to be read."""
    array = np.zeros((len(files), 3, side, side), np.uint8)
    reasons, todo = [""] * len(files), np.arange(len(files))
    try:
        check_zip(cache, "delete it")
        with cache.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            names, old_sizes, old_times, old_reasons, pixels = (stored[key] for key in STORED)
    except (OSError, ValueError, KeyError, TypeError, EOFError, MemoryError, zipfile.BadZipFile):
        return array, reasons, todo  # no cache, or a damaged one, which is written again
    if pixels.shape != (len(names), 3, side, side) or pixels.dtype != np.uint8:
        return array, reasons, todo
    at = {name: row for row, name in enumerate(names.tolist())}
    old = np.array([at.get(file, -1) for file in files], np.int64)
    same = (old >= 0) & (sizes == old_sizes[old]) & (times == old_times[old])
    if same.all() and np.array_equal(old, np.arange(len(names))):
        return pixels, old_reasons.tolist(), todo[:0]
    array[same] = pixels[old[same]]
    for row in np.flatnonzero(same):
        reasons[row] = str(old_reasons[old[row]])
    return array, reasons, todo[~same]


def _picture(path: Path, side: int) -> tuple[np.ndarray | int, str]:
    """Return the centre of an image ``(3, side, side)``, or 0 and why it cannot be read."""
    from PIL import Image

    from pfedfair.data.images.embed import BadImage, open_image

    try:
        image = open_image(path)
    except BadImage as error:
        return 0, str(error) or "unreadable"
    width, height = image.size
    edge = min(width, height)
    left, top = (width - edge) // 2, (height - edge) // 2
    square = image.crop((left, top, left + edge, top + edge))
    small = square.resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(small, np.uint8).transpose(2, 0, 1), ""
