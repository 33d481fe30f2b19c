"""Find the embeddings of a folder, and read the rows of one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from pfedfair._util.errors import InputError, option
from pfedfair.data.images.embed.checkpoints import SHORT as SAME
from pfedfair.data.images.faces.layout import Options, Source, count, first, may_write


@dataclass(frozen=True)
class Embeddings:
    """A file of embeddings, unread."""

    path: Path
    rows: int
    encoder: str  # by the file's metadata, else by its name
    hash: str | None = None  # of the encoder's weights, by the file's metadata

    @property
    def rank(self) -> tuple[int, int, str]:
        """Most rows first, then DINOv2, CLIP and the alphabet."""
        kind = next((i for i, name in enumerate(SAME) if name in self.encoder.lower()), len(SAME))
        return -self.rows, kind, self.path.name

    def fits(self, encoder: str) -> int:
        """Return 2 if it is of this encoder, 1 if its name contains the encoder's, otherwise 0."""
        wanted, name = encoder.rstrip("/"), self.encoder
        names = {wanted, short(wanted), SAME.get(wanted, wanted)}
        if names & {name, short(name), SAME.get(name, name)}:
            return 2
        return int(short(wanted).lower() in self.path.stem.lower())


def short(encoder: str) -> str:
    """Return the last part of a path or of a name on a hub.

    >>> short("facebook/dinov2-base")
    'dinov2-base'
    """
    return encoder.replace("\\", "/").rstrip("/").rpartition("/")[2]


def inspect(path: Path) -> Embeddings | None:
    """Read the metadata of a Parquet file; return None if it has no embeddings."""
    from pfedfair.data.images.embed.read import metadata

    try:
        file = pq.ParquetFile(path)
        names, rows = file.schema_arrow.names, file.metadata.num_rows
    except Exception:  # pyarrow raises many kinds
        return None
    if not {"file", "embedding"} <= set(names):
        return None
    about = metadata(path) or {}
    encoder = about.get("encoder") or path.stem.rpartition("embeddings-")[2]
    return Embeddings(path, rows, str(encoder), about.get("hash"))


def candidates(source: Source) -> tuple[Embeddings, ...]:
    """Return the files of embeddings in the data set's folder, else in its parent folder."""
    inner = [folder for folder in source.candidate_folders if not _is_parent(source, folder)]
    for folders in (inner, source.candidate_folders):
        paths = sorted({path for folder in folders for path in folder.glob("*.parquet")})
        if found := [file for path in paths if (file := inspect(path))]:
            return tuple(sorted(found, key=lambda file: file.rank))
    return ()


def by_images(found: Sequence[Embeddings], source: Source) -> tuple[Embeddings, ...]:
    """Return the same files, ranked by their rows with existing images."""
    images, counted = set(source.files), []
    for one in found:
        names = pq.read_table(one.path, columns=["file"])["file"].to_pylist()
        rows = sum(source.key(str(name).replace("\\", "/")) in images for name in names)
        counted.append(replace(one, rows=rows))
    return tuple(sorted(counted, key=lambda file: file.rank))


def _is_parent(source: Source, folder: Path) -> bool:
    sub = source.folder / source.name
    return sub in source.candidate_folders and folder not in (sub, sub / "sample")


def choose(
    found: Sequence[Embeddings], encoder: str | None
) -> tuple[Embeddings | None, tuple[str, ...]]:
    """Choose one of the files; return it and notes on the others."""
    fitting = sorted(found, key=lambda f: -f.fits(encoder)) if encoder else list(found)
    if encoder:
        fitting = _of_its_weights([f for f in fitting if f.fits(encoder)], encoder)
    taken = next(iter(fitting), None)
    if taken is None:
        return None, ()
    notes = []
    if encoder and taken.fits(encoder) == 1:
        notes.append(f"For '{encoder}', {taken.path.name} is taken: its name is the nearest.")
    elif not encoder and len(found) > 1:
        others = [f"{f.path.name} ({count(f.rows, 'row')})" for f in found if f is not taken]
        notes.append(
            f"The embeddings are those of {taken.path.name} ({count(taken.rows, 'row')}); there "
            f"{'are' if len(others) > 1 else 'is'} also {', '.join(others)}: "
            f"{option('encoder')} takes one."
        )
    return taken, tuple(notes)


def _of_its_weights(found: Sequence[Embeddings], encoder: str) -> list[Embeddings]:
    """Leave out files of other weights, if the encoder is a folder that has its own."""
    from pfedfair.data.images.embed import checkpoints

    folder = Path(encoder).expanduser()
    here = encoder not in SAME and (folder / "config.json").is_file()
    if not here or not any(file.hash for file in found):
        return list(found)
    wanted = checkpoints.find(encoder).hash
    return [file for file in found if file.hash in (None, wanted)]


def read(file: Embeddings, source: Source) -> tuple[pd.DataFrame, np.ndarray, tuple[str, ...]]:
    """Return the other columns, the embeddings, and notes; rows are sorted by file.

    Files are named as in the labels of the data set.
    """
    from pfedfair.data.images.embed.read import read_embeddings

    frame, array, about = read_embeddings(file.path)
    names = frame["file"].astype(str).str.replace("\\", "/", regex=False)
    keys = names.map(source.key)
    twice = keys.duplicated(keep=False)
    if twice.any():
        raise InputError(
            f"{file.path} has {count(int(twice.sum()), 'row')} with the name of another one, "
            f"{first(names[twice])}: embed one folder of images, each image once."
        )
    frame = frame.assign(file=keys)
    order = np.argsort(keys.to_numpy(str), kind="stable")
    if not np.array_equal(order, np.arange(len(order))):
        frame, array = frame.iloc[order].reset_index(drop=True), array[order]
    return frame, array, skipped(about)


def skipped(about: dict[str, Any] | None) -> tuple[str, ...]:
    """Return a note on the images that could not be embedded."""
    images = (about or {}).get("skipped") or {"count": 0, "first": []}
    if not images["count"]:
        return ()
    named = first(map(str, images["first"]))
    return (f"{count(images['count'], 'image')} could not be embedded and left out: {named}.",)


def compute(source: Source, files: Sequence[str], options: Options) -> Embeddings:
    """Embed these images, and store the embeddings next to them."""
    from pfedfair.data.images.embed import embed

    encoder = options.encoder or ""
    assert source.images is not None
    assert source.home is not None
    out = source.home / f"embeddings-{short(encoder)}.parquet"
    if not may_write(source.home):
        raise InputError(
            f"{source.home} may not be written to: copy it, or write its embeddings elsewhere "
            f"(pfedfair embed {source.images} --encoder {encoder} --out FILE.parquet)."
        )
    embed(source.images, encoder, out, files=files, on_work=options.on_work)
    made = inspect(out)
    if made is None:
        raise InputError(f"None of the images in {source.images} could be embedded.")
    return made


def no_embeddings(source: Source, found: Sequence[Embeddings], encoder: str | None) -> InputError:
    """Return the error for a folder without suitable embeddings."""
    if found:
        have = ", ".join(file.path.name for file in found)
        return InputError(
            f"No embeddings in {source.folder} are of the encoder '{encoder}', and there are no "
            f"images to embed: there is {have}."
        )
    where = source.images or source.folder
    return InputError(
        f"There are images but no embeddings of {source.name} in {source.folder}: make them "
        f"(pfedfair embed {where} --encoder dinov2 --out {source.home}/embeddings-dinov2.parquet), "
        f"or say {option('encoder')}."
    )
