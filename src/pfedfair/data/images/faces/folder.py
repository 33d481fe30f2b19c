"""Load a folder of images with a manifest, or a file of embeddings and labels."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from pfedfair._util.errors import InputError, option
from pfedfair.data.dataset import Dataset
from pfedfair.data.images.faces import inputs
from pfedfair.data.images.faces.labels import Labels, describe, missing_labels, whole_numbers
from pfedfair.data.images.faces.layout import Options, Source, count, exists, first
from pfedfair.data.images.faces.rows import Columns, Rows, build, read_rows

MANIFEST = "manifest.csv"


def from_folder(folder: Path, label: str, sensitive: str, **options: Any) -> Dataset:
    """Create a data set from a folder of images and its manifest.csv.

    The manifest has a column `file`, with names relative to the folder, and others: a label, a
    sensitive attribute, perhaps `client`, `split` ("test" for rows that are held out), or `prompt`,
    `seed` and `generator` of generated images. `options` are those of `load`.
    """
    folder, given = Path(folder), Options(**options)
    exists(folder)
    table = read_manifest(folder / MANIFEST)
    files = tuple(sorted(file for file in table.index if (folder / file).is_file()))
    name = folder.resolve().name
    source = Source(name, folder, (folder,), folder, folder, files, key=str)
    labels = Labels(
        of=lambda files: table.reindex(list(files)),
        file=MANIFEST,
        listed=frozenset(table.index),
        layout=f"{MANIFEST} and the images that it lists",
    )
    rows = read_rows(source, labels, Columns.of(label, sensitive), given)
    lost = set(table.index) - set(rows.table["file"])
    gone = sorted(lost - set(files))
    if gone and given.pixels is None:
        what = f"{count(len(gone), 'file')} of {MANIFEST} with neither an image nor an embedding"
        if not given.skip_missing:
            raise InputError(
                f"{folder} has {what}: say {option('skip_missing', True)} to leave them out "
                f"({first(gone)})."
            )
        rows = rows._replace(notes=(*rows.notes, f"{what} left out: {first(gone)}."))
    return build(rows, name, labels, given)


def read_manifest(path: Path) -> pd.DataFrame:
    """Read a manifest; the index is the file."""
    if not path.is_file():
        raise InputError(
            f"There is no {path}: write one with a column 'file' (names of images, relative to the "
            "folder) and columns for the label and the sensitive attribute."
        )
    from pfedfair.data.tables.reading import read_typed

    frame = read_typed(path).rename(columns=str)
    if "file" not in frame:
        raise InputError(f"{path} has no column 'file', which names the images.")
    if frame["file"].isna().any() or not len(frame):
        raise InputError(f"{path} has rows without a file, or no rows: fill or drop them.")
    files = frame["file"].astype(str).str.replace("\\", "/", regex=False)
    outside = [f for f in files if PurePosixPath(f).is_absolute() or ".." in PurePosixPath(f).parts]
    if outside:
        raise InputError(f"{path} names files outside of its folder: {first(outside)}.")
    if files.duplicated().any():
        raise InputError(f"{path} lists {first(set(files[files.duplicated()]))} more than once.")
    return frame.drop(columns="file").set_index(pd.Index(files, name="file"))


def from_embeddings(
    path: Path, label: str, sensitive: str, name: str | None = None, **options: Any
) -> Dataset:
    """Create a data set from a Parquet file of embeddings and labels.

    It has the columns `file`, `embedding`, the label and the sensitive attribute. `options` are
    `skip_missing` and `merge_groups`, as in `load`.
    """
    path, given = Path(path), Options(**options)
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    if given.pixels or given.with_images or given.encoder:
        raise InputError(f"{path} has embeddings, no images: leave out pixels and the encoder.")
    file = inputs.inspect(path)
    if file is None:
        raise InputError(f"{path} is no Parquet file with the columns 'file' and 'embedding'.")
    name = name or path.stem
    source = Source(name, path, (path.parent,), key=str)
    columns, array, notes = inputs.read(file, source)
    attributes = columns.set_index("file")
    labels = Labels(of=lambda files: attributes.reindex(list(files)), file=None)
    table, _ = describe(labels, columns["file"].tolist(), None)
    names = Columns.of(label, sensitive).resolve(table, labels, source)
    known, unlabelled = missing_labels(table, names, source, labels, given.skip_missing)
    labelled = whole_numbers(table[known].reset_index(drop=True))
    array = array if known.all() else array[known]
    rows = Rows(labelled, array, file.encoder, names[0], names[1:], (*notes, *unlabelled))
    return build(rows, name, labels, given)
