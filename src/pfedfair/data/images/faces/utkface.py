"""UTKFace (Zhang et al. 2017): faces whose file names say age, gender and race.

Y = 1 for White (the paper's "Ethnicity") and S = 1 for men. In the names, 0 is male.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from pfedfair.data.dataset import Dataset, PaperPlan
from pfedfair.data.images.faces import demographics, split
from pfedfair.data.images.faces.labels import Labels
from pfedfair.data.images.faces.layout import (
    Options,
    Source,
    candidate_folders,
    find_images,
    list_images,
)
from pfedfair.data.images.faces.rows import Columns, build, read_rows

NAME = re.compile(r"(\d{1,3})_([01])_([0-4])_(\d+)\.(?:jpe?g|png)(?:\.chip\.jpe?g)?", re.IGNORECASE)
GENDER = ("male", "female")
RACE = ("White", "Black", "Asian", "Indian", "Others")
IMAGES = ("UTKFace", "utkface_aligned_cropped/UTKFace", "crop_part1", "")
PAPER = PaperPlan((700, 100), (100, 700), n_under=2, n_over=8, test_fraction=1 / 2)


def utkface(folder: Path, label: str | None, sensitive: str | None, options: Options) -> Dataset:
    """Return the rows of a folder of UTKFace; see `pfedfair.data.images.faces.load`."""
    where = candidate_folders(folder, "utkface")
    home, images = find_images(where, IMAGES) or (None, None)
    files = list_images(images) if images else ()
    source = Source("utkface", folder, where, home, images, files)
    labels = Labels(
        of=read_names,
        file="age_gender_race_date",
        from_columns=demographics.read_columns,
        words=demographics.WORDS,
        aliases=demographics.ALIASES,
        layout="UTKFace/*.jpg with names age_gender_race_date.jpg",
    )
    rows = read_rows(source, labels, Columns.of(label or "White", sensitive or "gender"), options)
    plan = partial(split.paper_plan, PAPER, "UTKFace")
    return build(rows, "utkface", labels, options, plan=plan, settings="utkface")


def read_names(files: Sequence[str]) -> pd.DataFrame:
    """Read age, gender and race from names; names without four valid fields give none.

    >>> read_names(["9_0_3_2017.jpg.chip.jpg", "61_1_20170109.jpg"])["gender"].tolist()
    ['male', None]
    """
    fields = [match.groups() if (match := NAME.fullmatch(file)) else None for file in files]
    years = pd.Series([int(f[0]) if f else None for f in fields], dtype=float)
    race = [RACE[int(f[2])] if f else None for f in fields]
    return pd.DataFrame(
        {
            "gender": pd.Series([GENDER[int(f[1])] if f else None for f in fields], dtype=object),
            "race": pd.Series(race, dtype=object),
            "White": pd.Series([float(r == "White") if r else None for r in race], dtype=float),
            "age": demographics.age_bands(years),
            "years": years,
        }
    )
