"""Where things are in a folder of faces."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pfedfair._util.errors import InputError

IMAGES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif"}
FIRST = 10  # files that a sentence names


def base_name(file: str) -> str:
    return PurePosixPath(file).name


@dataclass(frozen=True)
class Source:
    """A data set's folder: where it was looked in, and which images are there.

    `home` is where files that are made of the images go; `key` turns the name of a file, as an
    embeddings file has it, into the one that labels have.
    """

    name: str
    folder: Path
    places: tuple[Path, ...]
    home: Path | None = None
    images: Path | None = None  # names of files are relative to it
    files: tuple[str, ...] = ()
    key: Callable[[str], str] = base_name


@dataclass(frozen=True)
class Options:
    """How the rows of a folder are to be had; see `pfedfair.data.images.faces.load`."""

    encoder: str | None = None
    pixels: int | None = None
    skip_missing: bool = False
    merge_groups: bool = False
    with_images: bool = False
    on_work: Callable[[int, int], None] = lambda done, total: None

    def __post_init__(self) -> None:
        if self.pixels is not None and self.encoder is not None:
            raise InputError("Inputs are pixels or an encoder's embeddings: give one of the two.")
        if self.pixels is not None and not 8 <= self.pixels <= 1024:
            raise InputError(f"pixels is the width of an image, 8 to 1024, got {self.pixels}.")


def places(folder: Path, name: str) -> tuple[Path, ...]:
    """Return the folders that may have the layout of a data set, the likeliest first."""
    exists(folder)
    tops = (
        [folder / name] if name in {p.name for p in folder.iterdir()} else []
    )  # exact case on any system
    able = [place / part for place in (*tops, folder) for part in ("", "sample")]
    return tuple(place for place in able if place.is_dir())


def exists(folder: Path) -> None:
    if not folder.is_dir():
        kind = "is a file, not a folder" if folder.is_file() else "does not exist"
        raise InputError(f"{folder} {kind}: name the folder where the images or embeddings are.")


def find(where: Iterable[Path], file: str) -> Path | None:
    """Return the first of these files that is there."""
    return next((place / file for place in where if (place / file).is_file()), None)


def find_images(where: Sequence[Path], names: Sequence[str]) -> tuple[Path, Path] | None:
    """Return a place that has images, and the folder in it where they are.

    An earlier name goes before an earlier place.
    """
    for name in names:
        for place in where:
            if (place / name).is_dir() and list_images(place / name):
                return place, place / name
    return None


def list_images(folder: Path) -> tuple[str, ...]:
    """Return the names of the images right in a folder, sorted."""
    if not folder.is_dir():
        return ()
    there = (path for path in folder.iterdir() if path.suffix.lower() in IMAGES)
    return tuple(sorted(path.name for path in there if not path.name.startswith(".")))


def first(files: Iterable[str]) -> str:
    """Name the first ten.

    >>> first(["b.jpg", "a.jpg"]), first(map(str, range(99)))[-16:]
    ('a.jpg, b.jpg', '17 and 89 others')
    """
    files = sorted(files)
    rest = len(files) - FIRST
    others = f" and {rest:,} other{'s' * (rest > 1)}" if rest > 0 else ""
    return ", ".join(files[:FIRST]) + others


def count(number: int, what: str) -> str:
    """Write a number and a word.

    >>> count(1, "file"), count(1200, "file")
    ('1 file', '1,200 files')
    """
    return f"{number:,} {what}{'s' * (number != 1)}"


def may_write(folder: Path) -> bool:
    """Whether files may be put here: a folder without any right to write is left as it is."""
    return os.access(folder, os.W_OK) and bool(folder.stat().st_mode & 0o222)
