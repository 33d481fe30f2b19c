"""Limits on what is read from outside: kinds of files, depth of nesting, and decompression.

What exceeds a limit is refused by an `InputError`, before it takes much memory.
"""

import io
import json
import tomllib
import zipfile
from pathlib import Path
from typing import IO, Any

from pfedfair._util.errors import InputError

MAX_DEPTH = 100  # of lists and objects in JSON and TOML
MAX_TEXT = 1 << 28  # bytes of a file of JSON or TOML
MAX_RATIO = 200  # of unpacked to packed bytes: honest tables have 3 to 50
UNLIMITED = 1 << 28  # bytes below which the ratio does not matter


def regular(path: Path) -> Path:
    """Return the path; refuse a device or a pipe, which may never end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError(f"{path} is a device or a pipe, not a file: copy its content to a file.")
    return path


def read_text(path: Path) -> str:
    """Return the text of a small file in UTF-8."""
    if regular(path).stat().st_size > MAX_TEXT:
        raise InputError(f"{path} is larger than {MAX_TEXT >> 20} MB, too large for its format.")
    return path.read_text(encoding="utf-8")


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; raise ValueError if it is not valid or nested too deeply."""
    return _parse(json.loads, text)


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML; raise ValueError if it is not valid or nested too deeply."""
    found: dict[str, Any] = _parse(tomllib.loads, text)
    return found


def _parse(loads: Any, text: str | bytes) -> Any:
    try:
        found = loads(text)
    except RecursionError:
        found = None
    else:
        level: list[Any] = [[found]]
        for _ in range(MAX_DEPTH + 1):
            inner = (one.values() if isinstance(one, dict) else one for one in level)
            level = [one for each in inner for one in each if isinstance(one, list | dict)]
            if not level:
                return found
    raise ValueError(f"lists and objects are nested more than {MAX_DEPTH} deep")


def check_expansion(path: Path, unpacked: int, instead: str = "unpack it yourself") -> None:
    """Refuse a file that unpacks to far more than honest files do."""
    if unpacked > max(MAX_RATIO * path.stat().st_size, UNLIMITED):
        raise InputError(
            f"{path} unpacks to more than {MAX_RATIO} times its size, as files do that are made to "
            f"fill the memory: if you trust it, {instead}."
        )


def check_zip(path: Path, instead: str) -> None:
    """Refuse a zip file by the sizes of its members, which `zipfile` reads no further."""
    with zipfile.ZipFile(path) as packed:
        check_expansion(path, sum(one.file_size for one in packed.infolist()), instead)


def check_parquet(path: Path, metadata: Any) -> None:
    """Refuse a Parquet file by the sizes in its metadata: of pages, and of cells in memory.

    A billion equal cells take some bytes in a page, and eight each in memory.
    """
    groups = range(metadata.num_row_groups)
    pages = sum(metadata.row_group(k).total_byte_size for k in groups)
    cells = 8 * metadata.num_rows * metadata.num_columns
    check_expansion(path, max(pages, cells), "write it again without compression, or as .csv")


class Unpacked(io.RawIOBase):
    """The unpacked bytes of an opened file, which are counted as they are read.

    `unpack` is such as `gzip.open`.
    """

    def __init__(self, path: Path, file: IO[bytes], unpack: Any) -> None:
        self.path, self.file, self.stream, self.total = path, file, unpack(file, "rb"), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self.stream.read(len(buffer))
        buffer[: len(content)] = content
        self.total += len(content)
        check_expansion(self.path, self.total)
        return len(content)

    def close(self) -> None:
        self.stream.close()
        self.file.close()
        super().close()
