"""Small square pictures of a list of image files, kept beside them."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from pfedfair.data.faces.layout import count, first, may_write
from pfedfair.files import atomic

KEPT = ("names", "sizes", "times", "pixels", "broken", "reasons")


def read_pixels(
    images: Path, files: Sequence[str], side: int, home: Path
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return pixels ``(n, 3, side, side)`` of the images that can be read, their numbers, and notes.

    They are kept in `home`, with every image's size and time: one that has changed is read again.
    """
    cache = home / f"pixels-{side}.npz"
    stats = [os.stat(images / file) for file in files]
    marks = {f: (s.st_size, s.st_mtime_ns) for f, s in zip(files, stats, strict=True)}
    kept, broken = _read_cache(cache, side)
    fresh = {f: i for f, (mark, i) in kept.items() if marks.get(f) == mark}
    bad = {f: reason for f, (mark, reason) in broken.items() if marks.get(f) == mark}
    todo = [f for f in files if f not in fresh and f not in bad]
    array = np.empty((len(files), 3, side, side), np.uint8)
    row = {file: number for number, file in enumerate(files)}
    if fresh:
        with np.load(cache, allow_pickle=False) as stored:
            old = stored["pixels"]
        array[[row[f] for f in fresh]] = old[list(fresh.values())]
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        for file, got in zip(todo, pool.map(lambda f: _picture(images / f, side), todo), strict=True):
            if isinstance(got, str):
                bad[file] = got
            else:
                array[row[file]] = got
    whole = np.array([f not in bad for f in files], bool)
    if bad:
        array = array[whole]
    notes = []
    if bad:
        named = first(f"{file} ({reason})" for file, reason in bad.items())
        notes.append(f"{count(len(bad), 'image')} cannot be read and left out: {named}.")
    if todo and may_write(home):
        good = [f for f in files if f not in bad]
        _write_cache(cache, array, good, bad, marks)
    elif todo:
        notes.append(f"{home} may not be written to, so its pixels are read again each time.")
    return array, np.flatnonzero(whole), tuple(notes)


def _picture(path: Path, side: int) -> np.ndarray | str:
    """The centre of an image as ``(3, side, side)``, or why it cannot be read."""
    from PIL import Image

    from pfedfair.data.embed import BadImage, open_image

    try:
        image = open_image(path)
    except BadImage as error:
        return str(error)
    width, height = image.size
    edge = min(width, height)
    left, top = (width - edge) / 2, (height - edge) / 2
    box = (left, top, left + edge, top + edge)
    small = image.resize((side, side), Image.Resampling.BILINEAR, box=box)
    return np.asarray(small, np.uint8).transpose(2, 0, 1)


Mark = tuple[int, int]


def _read_cache(
    path: Path, side: int
) -> tuple[dict[str, tuple[Mark, int]], dict[str, tuple[Mark, str]]]:
    """What is stored: each image's mark and row, and each broken one's mark and reason."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            names, sizes, times, broken, reasons = (
                stored[k].tolist() for k in KEPT if k != "pixels"
            )
            shape = _shape(stored)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return {}, {}  # none, or a broken one: it is written again
    marks = list(zip(sizes, times, strict=True))
    if shape != (len(names) - len(broken), 3, side, side) or len(marks) != len(names):
        return {}, {}
    mark = dict(zip(names, marks, strict=True))
    good = {name: (mark[name], row) for row, name in enumerate(names[: shape[0]])}
    return good, {f: (mark[f], reason) for f, reason in zip(broken, reasons, strict=True)}
