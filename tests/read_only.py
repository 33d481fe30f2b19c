"""A folder on a read-only disk: mounted so, as file modes do not stop every user."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _mount(*words: str) -> bool:
    try:
        return subprocess.run(["mount", *words], capture_output=True, timeout=20).returncode == 0
    except OSError:
        return False


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Let nobody write in a folder; skip the test where disks cannot be mounted."""
    if not _mount("--bind", str(folder), str(folder)):
        pytest.skip("needs to mount a disk")
    try:
        if not _mount("-o", "remount,ro,bind", str(folder)):
            pytest.skip("needs to mount a disk")
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True, timeout=20)
