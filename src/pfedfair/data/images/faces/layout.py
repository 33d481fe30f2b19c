"""Find the files in a folder of faces."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pfedfair._util.errors import InputError

IMAGES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif"}
FIRST = 10  # files that a message names


def base_name(file: str) -> str:
    return PurePosixPath(file).name


@dataclass(frozen=True)
class Source:
    """A data set's folder: the folders that are searched, and the images that exist.

    Files made from the images are written to `home`; `key` maps the name of a file in an embeddings
    file to the name in the labels.
    """

    name: str
    folder: Path
    candidate_folders: tuple[Path, ...]
    home: Path | None = None
    images: Path | None = None  # names of files are relative to it
    files: tuple[str, ...] = ()
    key: Callable[[str], str] = base_name


@dataclass(frozen=True)
class Options:
    """How to read the rows of a folder; see `pfedfair.data.images.faces.load`."""

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


def candidate_folders(folder: Path, name: str) -> tuple[Path, ...]:
    """Return the folders that may have the layout of a data set, the likeliest first."""
    exists(folder)
    tops = (
        [folder / name] if name in {p.name for p in folder.iterdir()} else []
    )  # exact case on any system
    paths = [top / part for top in (*tops, folder) for part in ("", "sample")]
    return tuple(path for path in paths if path.is_dir())


def exists(folder: Path) -> None:
    if not folder.is_dir():
        kind = "is a file, not a folder" if folder.is_file() else "does not exist"
        raise InputError(f"{folder} {kind}: name the folder where the images or embeddings are.")


def find(where: Iterable[Path], file: str) -> Path | None:
    """Return the first of these files that exists."""
    return next((path / file for path in where if (path / file).is_file()), None)


def find_images(where: Sequence[Path], names: Sequence[str]) -> tuple[Path, Path] | None:
    """Return a folder with images, and its subfolder that has them.

    An earlier name takes precedence over an earlier folder.
    """
    for name in names:
        for folder in where:
            if (folder / name).is_dir() and list_images(folder / name):
                return folder, folder / name
    return None


def list_images(folder: Path) -> tuple[str, ...]:
    """Return the sorted names of the images directly in a folder."""
    if not folder.is_dir():
        return ()
    images = (path for path in folder.iterdir() if path.suffix.lower() in IMAGES)
    return tuple(sorted(path.name for path in images if not path.name.startswith(".")))


def first(files: Iterable[str]) -> str:
    """Name the first ten files.

    >>> first(["b.jpg", "a.jpg"]), first(map(str, range(99)))[-16:]
    ('a.jpg, b.jpg', '17 and 89 others')
    """
    files = sorted(files)
    rest = len(files) - FIRST
    others = f" and {rest:,} other{'s' * (rest > 1)}" if rest > 0 else ""
    return ", ".join(files[:FIRST]) + others


def count(number: int, what: str) -> str:
    """Format a number and a noun.

    >>> count(1, "file"), count(1200, "file")
    ('1 file', '1,200 files')
    """
    return f"{number:,} {what}{'s' * (number != 1)}"


def may_write(folder: Path) -> bool:
    """Whether files may be written here: a folder without any right to write is unchanged."""
    return os.access(folder, os.W_OK) and bool(folder.stat().st_mode & 0o222)
