"""Small folders in the layouts of the data sets, with images of random colours."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

NAMES = ["Bald", "Male", "Smiling", "Young"]


def picture(path, seed=0, size=(24, 20)):
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
    Image.fromarray(values).save(path)


def attributes(path, values):
    """Write CelebA's list: values of 0 and 1, one row for each image from 000001.jpg on."""
    lines = [f"{n:06d}.jpg " + " ".join(f"{2 * v - 1:2d}" for v in row) for n, row in values]
    text = f"{len(lines)}\n{' '.join(NAMES)} \n" + "\n".join(lines) + "\n"
    path.write_text(text)


def celeba(folder, rows=40, seed=1):
    """Write images, attributes, the partition (last quarter: test) and identities (two each)."""
    values = np.random.default_rng(seed).integers(0, 2, (rows, len(NAMES)))
    for n in range(1, rows + 1):
        picture(folder / "img_align_celeba" / f"{n:06d}.jpg", n)
    attributes(folder / "list_attr_celeba.txt", list(enumerate(values, 1)))
    part = [f"{n:06d}.jpg {2 if n > 3 * rows // 4 else n % 2}\n" for n in range(1, rows + 1)]
    (folder / "list_eval_partition.txt").write_text("".join(part))
    who = [f"{n:06d}.jpg {100 + (n - 1) // 2}\n" for n in range(1, rows + 1)]
    (folder / "identity_CelebA.txt").write_text("".join(who))
    return pd.DataFrame(values, columns=NAMES)


def embeddings(path, files, columns=None, width=6, seed=0, metadata=None):
    """Write a file of embeddings, of which the first number says which row it is."""
    values = np.random.default_rng(seed).standard_normal((len(files), width)).astype(np.float16)
    values[:, 0] = np.arange(len(files))
    flat = pa.array(values.ravel(), pa.float16())
    table = {"file": list(files), **(columns or {})}
    table["embedding"] = pa.FixedSizeListArray.from_arrays(flat, width)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(table).replace_schema_metadata(metadata), path)
    return values
