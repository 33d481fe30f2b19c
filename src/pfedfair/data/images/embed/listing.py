"""List the images of a folder that are to be embedded, in order."""

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pfedfair._util.errors import InputError

READ = {".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"}
READ |= {".ppm", ".pgm", ".pbm", ".pnm"}
NOT_READ = {".avif", ".heic", ".heif", ".jp2", ".j2k", ".jxl", ".psd", ".tga", ".ico", ".eps"}
SUFFIXES = READ | NOT_READ  # those not read are named and counted as well
SHOWN = 10


@dataclass(frozen=True)
class Listing:
    """Sorted names of images, relative to the folder, with "/"."""

    folder: Path
    names: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...]  # name and reason, of files that are not opened
    others: int  # hidden files and files that are no images
    digest: str  # over names and sizes
    stamp: str  # and over times, too
    newest: dict[str, int]  # when a file last changed, in nanoseconds


def list_images(folder: Path, files: Sequence[str] | None = None) -> Listing:
    """List all images below a folder, or those of `files`."""
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {what}: name the folder with the images.")
    root = folder.resolve()
    names, skipped, others = _walk(root) if files is None else (*_given(root, files), 0)
    if not names and not skipped:
        seen = f" among its {others} files" if others else ""
        raise InputError(f"There is no image in {folder}{seen}: name the folder with the images.")
    by_size, by_time, newest = hashlib.sha256(), hashlib.sha256(), {}
    for name in names:
        about = (root / name).stat()
        by_size.update(f"{name}\0{about.st_size}\0".encode())
        by_time.update(f"{name}\0{about.st_size}\0{about.st_mtime_ns}\0".encode())
        newest[name] = max(about.st_mtime_ns, about.st_ctime_ns)
    digests = by_size.hexdigest(), by_time.hexdigest()
    return Listing(root, tuple(names), tuple(skipped), others, *digests, newest)


def _walk(root: Path) -> tuple[list[str], list[tuple[str, str]], int]:
    found: list[str] = []
    skipped: list[tuple[str, str]] = []
    others = 0
    for where, folders, files in os.walk(root):
        here = Path(where)
        others += sum(name.startswith(".") for name in folders)
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in folders:
            if (here / name).is_symlink():  # os.walk does not go there
                skipped.append((_relative(here / name, root), "a link to a folder"))
        for name in files:
            path = here / name
            if name.startswith(".") or path.suffix.lower() not in SUFFIXES:
                others += 1
            elif reason := _unsafe(path, root, path.is_symlink()):
                skipped.append((_relative(path, root), reason))
            else:
                found.append(_relative(path, root))
    return sorted(found), sorted(skipped), others


def _given(root: Path, files: Iterable[str]) -> tuple[list[str], list[tuple[str, str]]]:
    found: list[str] = []
    skipped: list[tuple[str, str]] = []
    absent: list[str] = []
    for name in sorted({PurePosixPath(name.replace(os.sep, "/")).as_posix() for name in files}):
        path = root / name
        if reason := _unsafe(path, root, True):
            skipped.append((printable(name), reason))
        elif not path.is_file():
            absent.append(name)
        else:
            found.append(name)
    if absent:
        first = ", ".join(map(printable, absent[:SHOWN]))
        rest = ", ..." if len(absent) > SHOWN else ""
        raise InputError(f"{len(absent)} images are not in {root}: {first}{rest}.")
    return found, skipped


def _unsafe(path: Path, root: Path, follow: bool) -> str | None:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    try:
        if follow and not path.resolve().is_relative_to(root):
            return "a link out of the folder"
        path.stat()
    except FileNotFoundError:
        return "a link to nothing" if path.is_symlink() else None
    except (OSError, RuntimeError):
        return "a link that cannot be followed"
    return None


def _relative(path: Path, root: Path) -> str:
    name = path.relative_to(root).as_posix()
    try:
        name.encode()
    except UnicodeEncodeError:
        return printable(name)
    return name


def printable(name: str) -> str:
    r"""Return a name without terminal control characters.

    >>> printable("a\x1b[2J b.jpg")
    'a\\x1b[2J b.jpg'
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in name
    )
