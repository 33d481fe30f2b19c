"""Embeddings and images that nobody has a face for, in files as users have them."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image


def write(path, table, array, **about):
    """Write an embeddings file: the columns of a table, the array, and what `embed` says."""
    flat = pa.array(array.astype(np.float16).ravel(), pa.float16())
    columns = {name: table[name].to_numpy() for name in table}
    columns["embedding"] = pa.FixedSizeListArray.from_arrays(flat, array.shape[1])
    said = {"pfedfair": json.dumps(about)} if about else None
    pq.write_table(pa.table(columns).replace_schema_metadata(said), path)
    return path


def people(rows=240, width=8, seed=0):
    """A table of faces and their embeddings, which know label and group; a third is for the test.

    Seven in ten are men, as in the paper's CelebA, and men smile less.
    """
    rng = np.random.default_rng(seed)
    male = np.arange(rows) % 10 < 7
    smiling = rng.random(rows) < np.where(male, 0.4, 0.6)
    array = rng.standard_normal((rows, width)) * 3 + 5
    array[:, 0] += 6 * smiling
    array[:, 1] += 6 * male
    table = pd.DataFrame(
        {
            "file": [f"{n:06d}.jpg" for n in range(1, rows + 1)],
            "male": male.astype(np.int8),
            "smiling": smiling.astype(np.int8),
            "split": np.where(np.arange(rows) // 10 % 3 == 2, "test", "train"),
            "site": np.array(["a", "b", "c"])[np.arange(rows) % 3],
        }
    )
    return table, array.astype(np.float16)


def celeba(folder, rows=240, images=60, width=8):
    """CelebA's layout: embeddings of all rows, small images of the first ones."""
    table, array = people(rows, width)
    home = folder / "celeba"
    pictures = home / "img_align_celeba"
    pictures.mkdir(parents=True)
    write(home / "embeddings-tiny.parquet", table.drop(columns="site"), array)
    for file, smiles, male in table[["file", "smiling", "male"]].head(images).itertuples(False):
        light = np.random.default_rng(int(file[:6])).integers(0, 60, (12, 10, 3), np.uint8)
        Image.fromarray(light + np.uint8(90 * smiles) + np.uint8(90 * male)).save(pictures / file)
    return folder
