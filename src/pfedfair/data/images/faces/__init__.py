"""Faces: CelebA, UTKFace, FairFace, and any folder of images or file of embeddings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pfedfair._util.errors import known
from pfedfair.data.dataset import Dataset
from pfedfair.data.images.faces.celeba import celeba
from pfedfair.data.images.faces.copies import Copies, copies, crossing, words
from pfedfair.data.images.faces.fairface import fairface
from pfedfair.data.images.faces.folder import from_embeddings, from_folder
from pfedfair.data.images.faces.layout import Options
from pfedfair.data.images.faces.utkface import utkface

__all__ = [
    "FACES",
    "Copies",
    "copies",
    "crossing",
    "from_embeddings",
    "from_folder",
    "load",
    "words",
]

FACES: dict[str, Callable[[Path, str | None, str | None, Options], Dataset]] = {
    "celeba": celeba,
    "utkface": utkface,
    "fairface": fairface,
}


def load(
    name: str,
    folder: Path | str,
    label: str | None = None,
    sensitive: str | None = None,
    **options: Any,
) -> Dataset:
    """Load a data set of faces from its official folder, or from embeddings of it.

    The folder is the data set's own, or has one with its name in it; either may have the layout
    under ``sample/``. Rows are sorted by file. Options are:

    Parameters
    ----------
    label, sensitive
        Attributes, ignoring case; several sensitive ones separated by commas.
    encoder
        The encoder of the embeddings; if there are none, the images are embedded, and the
        embeddings are stored next to them. By default the file with the most rows is used.
    pixels
        Use the images as inputs, so many pixels wide and high.
    skip_missing
        Leave out listed images that do not exist, and images without a label.
    merge_groups
        Merge small groups, see `from_frame`.
    with_images
        Use only embeddings whose images exist, too.
    on_work
        Called with the number of images that were read or embedded, and the total.
    """
    return FACES[known("data set of faces", name, FACES)](
        Path(folder), label, sensitive, Options(**options)
    )
