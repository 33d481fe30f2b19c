"""Load data sets: bundled ones, faces, and your tables."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from pfedfair._util.errors import InputError, near, option
from pfedfair.data.dataset import Dataset
from pfedfair.data.datasets.acs import acs
from pfedfair.data.datasets.adult import adult
from pfedfair.data.datasets.compas import compas
from pfedfair.data.datasets.heart import heart
from pfedfair.data.tables.encoder import Encoder
from pfedfair.data.tables.groups import join_names
from pfedfair.data.tables.models import MODELS, with_model
from pfedfair.data.tables.reading import ENDINGS, PARQUET, ending, read, read_table, stem
from pfedfair.data.tables.table import from_frame

__all__ = [
    "DATASETS", "FACES", "MODELS", "NATURAL", "Dataset", "Encoder", "adult", "compas",
    "from_frame", "load", "read_table", "with_model",
]  # fmt: skip

DATASETS: dict[str, Callable[[], Dataset]] = {
    "adult": adult,
    "compas": compas,
    "compas-two-races": partial(compas, others="african-american"),
    "adult-additive": lambda: with_model(adult(), "additive"),
    "compas-additive": lambda: with_model(compas(), "additive"),
}
FACES = ("celeba", "utkface", "fairface")
NATURAL: dict[str, Callable[[Path, str | None], Dataset]] = {"acs": acs, "heart": heart}
OF_IMAGES = ("folder", "encoder", "pixels", "skip_missing", "with_images")
OF_TABLES = (
    "drop", "categorical", "keep", "positive", "test", "weight", "missing_sensitive", "unknown",
)  # fmt: skip


def load(
    name: str | Path,
    label: str | Path | None = None,
    sensitive: str | Sequence[str] | None = None,
    scaling: str | None = None,
    model: str | None = None,
    encoding: str | None = None,
    positive: Any = None,
    **options: Any,
) -> Dataset:
    """Load a bundled data set by name, faces by name and folder, or your table by path.

    A path is that of a table (.csv, .tsv, .txt, perhaps with .gz; .parquet, .xlsx), or of a folder
    of images with ``manifest.csv``. A bundled data set can have another sensitive attribute, or
    several (["sex", "race"] or "sex,race"), and bands of them; then it has no plan of the
    paper. "acs" and "heart" have a fixed label, and need the folder with their rows:
    ``load("acs", folder)``. For `model` and `encoding` see `with_model`. `options` are those of
    `from_frame`, where `test` may be a path, or of `pfedfair.data.images.faces.load`.

    >>> len(load("compas"))
    6172
    """
    given = {o: v for o, v in options.items() if isinstance(v, pd.DataFrame) or v}
    given |= {} if positive is None else {"positive": positive}
    if str(name) in NATURAL and label and "folder" not in given and Path(label).exists():
        label, given["folder"] = None, label
    label = None if label is None else str(label)
    data = _load(str(name), label, join_names(sensitive) if sensitive else None, given)
    if scaling and (data.array is None or data.array.ndim != 2):
        raise InputError(f"'{name}' has no embeddings to scale: leave out {option('scaling')}.")
    if data.array is not None and data.array.ndim > 2:
        data = replace(data, settings="pixels")
    data = with_model(data, model, encoding)
    return replace(data, scaling=scaling) if scaling else data


def _load(name: str, label: str | None, sensitive: str | None, given: dict[str, Any]) -> Dataset:
    path = Path(name)
    if name in DATASETS:
        if label:
            raise InputError(f"'{name}' has its own label: leave it out.")
        merge, bands = given.pop("merge_groups", False), given.pop("bands", None)
        _refuse_options(given, (*OF_TABLES, *OF_IMAGES), f"'{name}' has its own columns")
        data = DATASETS[name]()
        if bands and not sensitive:
            raise InputError(f"Bands are for a sensitive column: say {option('sensitive')}, too.")
        return data.by(sensitive.split(","), merge, bands) if sensitive else data
    if name in NATURAL:
        if label:
            raise InputError(f"'{name}' has its own label: leave it out.")
        folder = _folder(name, given, "with its rows")
        excluded = (*OF_TABLES, *OF_IMAGES, "merge_groups", "bands")
        _refuse_options(given, excluded, f"'{name}' has its own columns")
        return NATURAL[name](folder, sensitive)
    if name in FACES:
        from pfedfair.data.images.faces import load as load_faces

        _refuse_options(given, (*OF_TABLES, "bands"), f"'{name}' is made of images")
        folder = _folder(name, given, "with its images or embeddings")
        return load_faces(name, folder, label, sensitive, **given)
    if not path.is_dir() and not ending(path):
        every = (*DATASETS, *NATURAL, *FACES)
        raise InputError(
            f"Unknown data set '{name}': {near(name, every)}{', '.join(every)}, "
            f"or give the path of a table ({', '.join(ENDINGS)}), or of a folder of images."
        )
    if not label or not sensitive:
        if path.suffix and not path.is_file():
            raise InputError(f"There is no file {path}.")
        raise InputError(f"For {path}, say which column is the label and which the sensitive one.")
    if path.is_dir():
        from pfedfair.data.images.faces import from_folder

        _refuse_options(given, (*OF_TABLES, "bands", "folder"), f"{path} is a folder of images")
        return from_folder(path, label, sensitive, **given)
    if holds_embeddings(path):
        from pfedfair.data.images.faces import from_embeddings

        _refuse_options(given, (*OF_TABLES, "bands", *OF_IMAGES), f"{path} holds embeddings")
        return from_embeddings(path, label, sensitive, path.stem, **given)
    _refuse_options(given, OF_IMAGES, f"{path} is a table")
    frame, notes = read(path)
    if isinstance(test := given.get("test"), str | Path):
        given["test"], test_notes = read(Path(test))
        notes += tuple(f"The rows for the test: {note}" for note in test_notes)
    data = from_frame(frame, label, sensitive, stem(path), **given)
    return replace(data, notes=(*notes, *data.notes))


def holds_embeddings(path: Path) -> bool:
    """Whether a file is a table with a column of embeddings."""
    if ending(path) != PARQUET or not path.is_file():
        return False
    import pyarrow.parquet as pq

    try:
        return "embedding" in pq.read_schema(path).names
    except Exception:  # not a Parquet file: reading it raises a clear error
        return False


def _folder(name: str, given: dict[str, Any], what: str) -> Path:
    """Return the folder of a data set that is not bundled."""
    if "folder" not in given:
        where = option("data", "FOLDER", python="folder=FOLDER")
        raise InputError(f"Say where {name} is: {where}, {what}.")
    return Path(given.pop("folder"))


def _refuse_options(given: dict[str, Any], options: tuple[str, ...], why: str) -> None:
    folder = {"folder": option("data", python="folder")}  # another name in commands
    found = [folder.get(name, name) for name in given if name in options]
    if found:
        raise InputError(f"{why}: leave out {', '.join(found)}.")
