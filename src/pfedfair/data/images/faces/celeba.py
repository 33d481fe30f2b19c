"""CelebA (Liu et al. 2015): photographs of well-known people with 40 attributes.

By default Y = smiling and S = 1 for men, as in the paper.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError
from pfedfair._util.files import first_line
from pfedfair._util.limits import regular
from pfedfair.data.dataset import Dataset, PaperPlan
from pfedfair.data.images.faces import split
from pfedfair.data.images.faces.labels import Labels, flags
from pfedfair.data.images.faces.layout import (
    Options,
    Source,
    candidate_folders,
    find,
    find_images,
    list_images,
)
from pfedfair.data.images.faces.rows import Columns, build, read_rows

NAMES = """
5_o_Clock_Shadow Arched_Eyebrows Attractive Bags_Under_Eyes Bald Bangs Big_Lips Big_Nose
Black_Hair Blond_Hair Blurry Brown_Hair Bushy_Eyebrows Chubby Double_Chin Eyeglasses Goatee
Gray_Hair Heavy_Makeup High_Cheekbones Male Mouth_Slightly_Open Mustache Narrow_Eyes
No_Beard Oval_Face Pale_Skin Pointy_Nose Receding_Hairline Rosy_Cheeks Sideburns Smiling
Straight_Hair Wavy_Hair Wearing_Earrings Wearing_Hat Wearing_Lipstick Wearing_Necklace
Wearing_Necktie Young
"""  # of the attributes, for folders without their list
LABELS = "list_attr_celeba.txt"
PARTITION = "list_eval_partition.txt"
IDENTITY = "identity_CelebA.txt"
IMAGES = ("img_align_celeba", "img_align_celeba/img_align_celeba", "Img/img_align_celeba")
PAPER = PaperPlan((1000, 200), (200, 1000), n_under=2, n_over=8, test_fraction=1 / 2)


def celeba(folder: Path, label: str | None, sensitive: str | None, options: Options) -> Dataset:
    """Return the rows of a folder of CelebA; see `pfedfair.data.images.faces.load`."""
    where = candidate_folders(folder, "celeba")
    home, images = find_images(where, IMAGES) or (None, None)
    files = list_images(images) if images else ()
    source = Source("celeba", folder, where, home, images, files)
    deeper = [*where, *(path / "Anno" for path in where), *(path / "Eval" for path in where)]
    labels = _labels(find(deeper, LABELS))
    rows = read_rows(source, labels, Columns.of(label or "Smiling", sensitive or "Male"), options)
    messages, table = [], rows.table
    for column, name in (("partition", PARTITION), ("identity", IDENTITY)):
        if path := find(deeper, name):
            table[column] = table["file"].map(_numbers(path))
            if empty := int(table[column].isna().sum()):
                messages.append(f"{name} is not used: it lacks {empty:,} of the rows.")
                table = table.drop(columns=column)
            else:
                table[column] = table[column].astype(np.int64)
    rows = rows._replace(table=table, notes=(*rows.notes, *messages))
    plan = partial(split.paper_plan, PAPER, "CelebA")
    return build(rows, "celeba", labels, options, hold_out, plan, settings="celeba")


def hold_out(table: pd.DataFrame) -> split.Held:
    """Hold out the official test part, else the embeddings file's, else a third of identities."""
    if "partition" in table:
        out, notes = split.both_sides((table["partition"] == 2).to_numpy(), PARTITION)
    else:
        out, notes = split.by_split(table)
    if "identity" not in table:
        return out, notes
    if out is None:
        return split.both_sides(split.by_identity(table["identity"]), IDENTITY)
    return out, (*notes, *split.on_both_sides(table["identity"], out))


def read_attributes(path: Path) -> pd.DataFrame:
    """Read the official file: a number, the names of the attributes, then +-1 for each image."""
    try:
        with regular(path).open(encoding="utf-8") as lines:
            number, names = int(lines.readline()), lines.readline().split()
            frame = pd.read_csv(lines, sep=r"\s+", header=None, index_col=0, dtype={0: str})
    except (ValueError, OSError) as error:
        raise InputError(
            f"{path} is not CelebA's list of attributes ({first_line(error)}): its first line is "
            "the number of images, its second the names of the attributes."
        ) from error
    if frame.shape[1] != len(names):
        raise InputError(
            f"{path} names {len(names)} attributes and has {frame.shape[1]} values for an image: "
            "take the official file."
        )
    if len(frame) != number:
        raise InputError(f"{path} should have {number:,} images and has {len(frame):,}: it is cut.")
    if not frame.isin([-1, 1]).all(axis=None):
        raise InputError(f"{path} has values that are neither 1 nor -1: take the official file.")
    if frame.index.duplicated().any():
        raise InputError(f"{path} lists '{frame.index[frame.index.duplicated()][0]}' twice.")
    return (frame > 0).astype(np.int8).set_axis(names, axis=1)


def words(attribute: str) -> tuple[str, str]:
    """Return the meaning of 0 and 1 of an attribute.

    >>> words("Male"), words("Wearing_Hat"), words("No_Beard")
    (('female', 'male'), ('not wearing hat', 'wearing hat'), ('beard', 'no beard'))
    """
    text = attribute.replace("_", " ").lower()
    special = {"Male": ("female", "male"), "No_Beard": ("beard", "no beard")}
    return special.get(attribute, (f"not {text}", text))


def _labels(path: Path | None) -> Labels:
    official = read_attributes(path) if path else pd.DataFrame()
    names = list(official.columns) if path else NAMES.split()
    return Labels(
        of=lambda files: official.reindex(list(files)),
        file=LABELS if path else None,
        listed=frozenset(official.index) if path else None,
        from_columns=partial(_read_columns, names),
        words={name: words(name) for name in names},
        needs=f"has no {LABELS}",
        layout=f"{IMAGES[0]}/*.jpg and {LABELS}",
    )


def _read_columns(names: list[str], columns: pd.DataFrame) -> pd.DataFrame:
    """Read attributes from the columns of an embeddings file, ignoring case."""
    official = {name.lower(): name for name in names}
    found = {official[str(c).lower()]: c for c in columns if str(c).lower() in official}
    values = {name: flags(columns[c]) for name, c in found.items()}
    return pd.DataFrame(values, index=columns.index)


def _numbers(path: Path) -> pd.Series[int]:
    """Read a file with the name of an image and a number in each line."""
    try:
        names = ["file", "number"]
        frame = pd.read_csv(regular(path), sep=r"\s+", header=None, names=names, dtype={0: str})
        return frame.drop_duplicates("file").set_index("file")["number"].astype(int)
    except (ValueError, OSError) as error:
        raise InputError(
            f"{path} cannot be read ({first_line(error)}): each line is a file and a number."
        ) from error
