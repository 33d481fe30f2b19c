"""Images that have changed since they were embedded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from pfedfair._util.errors import InputError
from pfedfair._util.files import sha256
from pfedfair.data.images.faces.layout import Source, count, first


def stale(source: Source, path: Path, columns: pd.DataFrame) -> tuple[str, ...]:
    """Refuse embeddings of images that are others now, or say how many may be.

    Only images that are newer than the file are looked at: by their hash, if the file has it.
    """
    later = _newer(source, path, columns["file"].tolist())
    if not later:
        return ()
    assert source.images is not None
    kept = dict(zip(columns["file"], columns["sha256"], strict=True)) if "sha256" in columns else {}
    hashed = [name for name in later if isinstance(kept.get(name), str) and kept[name]]
    changed = [name for name in hashed if _sha256(source.images / name) != kept[name].lower()]
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
    """Those images of these rows that were written after the file."""
    if source.images is None or not source.files:
        return []
    made, there = path.stat().st_mtime_ns, set(source.files)
    able = ((name, os.path.join(source.images, name)) for name in rows if name in there)  # noqa: PTH118
    return [name for name, image in able if os.stat(image).st_mtime_ns > made]  # noqa: PTH116


def _sha256(path: Path) -> str:
    try:
        return sha256(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: see who may read it.") from error
