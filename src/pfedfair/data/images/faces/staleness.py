"""Detect images that have changed since they were embedded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from pfedfair._util.errors import InputError
from pfedfair._util.files import sha256
from pfedfair.data.images.faces.layout import Source, count, first


def stale(source: Source, path: Path, columns: pd.DataFrame) -> tuple[str, ...]:
    """Refuse embeddings of changed images; return a note on images that may have changed.

    Only images that are newer than the file are checked, by their hash if the file has it.
    """
    later = _newer(source, path, columns["file"].tolist())
    if not later:
        return ()
    assert source.images is not None
    hashes = {}
    if "sha256" in columns:
        hashes = dict(zip(columns["file"], columns["sha256"], strict=True))
    hashed = [name for name in later if isinstance(hashes.get(name), str) and hashes[name]]
    changed = [name for name in hashed if _sha256(source.images / name) != hashes[name].lower()]
    if changed:
        verb = "has" if len(changed) == 1 else "have"
        raise InputError(
            f"{count(len(changed), 'image')} in {source.images} {verb} changed since {path} was "
            f"made ({first(changed)}): delete that file and embed the images again."
        )
    if unknown := len(later) - len(hashed):
        verb = "is" if unknown == 1 else "are"
        return (
            f"{count(unknown, 'image')} in {source.images} {verb} newer than {path.name}, which "
            "has no hash to compare: embed the images again if they have changed.",
        )
    return ()


def _newer(source: Source, path: Path, rows: Sequence[str]) -> list[str]:
    """Return the images of these rows that were written after the file."""
    if source.images is None or not source.files:
        return []
    made, files = path.stat().st_mtime_ns, set(source.files)
    images = ((name, os.path.join(source.images, name)) for name in rows if name in files)  # noqa: PTH118
    return [name for name, image in images if os.stat(image).st_mtime_ns > made]  # noqa: PTH116


def _sha256(path: Path) -> str:
    try:
        return sha256(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: see its permissions.") from error
