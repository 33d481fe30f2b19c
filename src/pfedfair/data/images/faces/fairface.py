"""FairFace (Karkkainen and Joo 2021): faces with gender, seven races and bands of age.

Y = 1 for White and S = 1 for men, as for UTKFace; race and age may be either.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError
from pfedfair.data.dataset import Dataset, PaperPlan
from pfedfair.data.images.faces import demographics, split
from pfedfair.data.images.faces.labels import Labels
from pfedfair.data.images.faces.layout import Options, Source, candidate_folders, find, list_images
from pfedfair.data.images.faces.rows import Columns, build, read_rows
from pfedfair.data.tables.reading import read_typed

PARTS = ("train", "val")
IMAGES = ("", "fairface-img-margin025-trainval", "fairface-img-margin125-trainval")
COLUMNS = ("file", "age", "gender", "race")
PAPER = PaperPlan((700, 100), (100, 700), n_under=2, n_over=8, test_fraction=1 / 2)


def fairface(folder: Path, label: str | None, sensitive: str | None, options: Options) -> Dataset:
    """Return the rows of a folder of FairFace; see `pfedfair.data.images.faces.load`."""
    where = candidate_folders(folder, "fairface")
    home, files = _images(where)
    found = {part: find(where, f"fairface_label_{part}.csv") for part in PARTS}
    paths = {part: path for part, path in found.items() if path}
    only = next(iter(paths)) if len(paths) == 1 else None
    source = Source("fairface", folder, where, home, home, files, partial(_key, only))
    official = pd.concat([read_labels(p) for p in paths.values()]) if paths else pd.DataFrame()
    labels = Labels(
        of=lambda names: official.reindex(list(names)),
        file=" and ".join(path.name for path in paths.values()) or None,
        listed=frozenset(official.index) if paths else None,
        from_columns=demographics.read_columns,
        words=demographics.WORDS,
        aliases=demographics.ALIASES,
        needs="has no fairface_label_train.csv",
        layout="train/*.jpg and fairface_label_train.csv",
    )
    rows = read_rows(source, labels, Columns.of(label or "White", sensitive or "gender"), options)
    plan = partial(split.paper_plan, PAPER, "FairFace")
    hold_out = partial(_hold_out, len(paths) == len(PARTS))
    return build(rows, "fairface", labels, options, hold_out, plan, settings="fairface")


def read_labels(path: Path) -> pd.DataFrame:
    """Read one of the two official files; the index is the file."""
    frame = read_typed(path)
    absent = [c for c in COLUMNS if c not in frame]
    if absent:
        raise InputError(f"{path} has no column '{absent[0]}': take FairFace's own label file.")
    if frame["file"].duplicated().any():
        raise InputError(
            f"{path} lists '{frame['file'][frame['file'].duplicated()].iloc[0]}' twice."
        )
    frame = frame.set_index("file")
    gender = frame["gender"].astype(str).str.lower()
    if not gender.isin(demographics.GENDER.values()).all():
        odd = frame["gender"][~gender.isin(demographics.GENDER.values())].iloc[0]
        raise InputError(f"{path} has the gender '{odd}': it should be Male or Female.")
    white = frame["race"].eq("White").astype(np.int8)
    return frame.assign(gender=gender, White=white)


def _images(where: tuple[Path, ...]) -> tuple[Path | None, tuple[str, ...]]:
    for folder in (folder / name for folder in where for name in IMAGES):
        files = tuple(f"{part}/{name}" for part in PARTS for name in list_images(folder / part))
        if files:
            return folder, files
    return None, ()


def _key(only: str | None, file: str) -> str:
    """Return the name of a file as in the labels: train/1.jpg."""
    path = PurePosixPath(file)
    part = path.parent.name if path.parent.name in PARTS else only
    return f"{part}/{path.name}" if part else file


def _hold_out(both: bool, table: pd.DataFrame) -> split.Held:
    """Hold out the official validation part if both parts have labels."""
    val = table["file"].str.startswith("val/").to_numpy()
    return (val, ()) if both and val.any() and not val.all() else split.by_split(table)
