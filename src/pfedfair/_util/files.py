"""Atomic writes, locks and checksums: a file is complete or does not exist."""

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd

from pfedfair._util.errors import InputError, option
from pfedfair._util.limits import check_parquet, parse_json, read_text, regular

TEMPORARY = re.compile(r"\..+\.(\d+)\.partial(\.[^.]*)?")
HOUR = 3600
CODE = re.compile(r"os error (\d+)|\[errno (\d+)\]")  # in errors of safetensors and of pyarrow


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; rename it to `path` if the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())  # a power cut must not leave a name without its content
        temporary.replace(path)
    except Exception as error:
        if (named := _of_file(error, path, temporary)) is None:
            raise
        raise named from error
    finally:
        temporary.unlink(missing_ok=True)


def temporary_path(path: Path) -> Path:
    """Return the name under which this process writes a file until it is complete."""
    return path.with_name(f".{path.stem}.{os.getpid()}.partial{path.suffix}")


def sweep(folder: Path) -> None:
    """Remove the temporary files that killed processes left in a folder and those in it.

    A file whose process is alive is one that is being written, unless it is older than an hour.
    """
    for path in (*folder.glob(".*.partial*"), *folder.glob("*/.*.partial*")):
        found = TEMPORARY.fullmatch(path.name)
        with suppress(OSError):  # another process may sweep, too
            if found and (not _alive(int(found[1])) or time.time() - path.stat().st_mtime > HOUR):
                path.unlink()


def _alive(pid: int) -> bool:
    """Return whether a process of this number may be running on this machine."""
    if os.name != "posix":  # there, signal 0 would be sent
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _of_file(error: Exception, path: Path, temporary: Path) -> OSError | None:
    """Return an error of the system with the name of the file; None for any other error."""
    if isinstance(error, OSError) and error.filename not in (None, str(temporary)):
        return None  # of another file
    found = CODE.search(str(error))
    code = int(found[1] or found[2]) if found else getattr(error, "errno", None)
    return None if code is None else OSError(code, os.strerror(code), str(path))


def write_text(path: Path, text: str) -> None:
    """Write a text file."""
    with atomic(path) as file:
        file.write_text(text, encoding="utf-8")


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Lock a folder for this process and sweep it; refuse if another process holds the lock.

    The lock is on the folder itself: it leaves no file behind and ends with its process, however
    that ends. Where folders cannot be locked (Windows, some network disks) there is no lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:
        yield
        return
    held = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"Another command is at work in {folder}: wait for its end, or choose another "
                    f"{option('out')}."
                ) from None
        sweep(folder)
        yield
        sweep(folder)  # files of processes that were still ending
    finally:
        os.close(held)


def write_json(path: Path, content: Any) -> None:
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def write_parquet(path: Path, frame: pd.DataFrame) -> None:
    with atomic(path) as temporary:
        _to_parquet(frame, temporary)


def parquet(frame: pd.DataFrame) -> bytes:
    """Return the bytes that `write_parquet` would write."""
    content = BytesIO()
    _to_parquet(frame, content)
    return content.getvalue()


def _to_parquet(frame: pd.DataFrame, to: Path | BytesIO) -> None:
    frame.to_parquet(to, index=False, compression="zstd", write_page_checksum=True)


def read_json(path: Path) -> Any:
    try:
        return parse_json(read_text(path))
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({first_line(error)}).") from error


def read_parquet(path: Path) -> pd.DataFrame:
    import pyarrow.parquet as pq

    try:
        check_parquet(path, pq.read_metadata(regular(path)))
        return pd.read_parquet(path, page_checksum_verification=True)
    except InputError:
        raise
    except Exception as error:  # pyarrow raises many kinds
        raise InputError(
            f"{path} is not a readable Parquet file ({first_line(error)}): delete it and run the "
            "command that made it again; finished runs are kept."
        ) from error


def sha256(path: Path) -> str:
    """Return the digest of a file's bytes."""
    with regular(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, without a full stop."""
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__


def only_file(folder: Path, task: Sequence[str], else_words: str) -> Path:
    """Return the file that was named, or the only one of these kinds in a folder."""
    if not folder.exists():
        raise InputError(f"There is no file or folder {folder}.")
    if folder.is_file():
        return folder
    found = sorted(path for kind in task for path in folder.glob(kind))
    if len(found) != 1:
        which = ", ".join(path.name for path in found) or "none"
        raise InputError(
            f"{folder} should have {else_words}, or one file {' or '.join(task)}; of these it has "
            f"{which}: name the file itself."
        )
    return found[0]
