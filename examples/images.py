"""Embeddings of images: a linear layer that three clinics train, and that is not told S.

The numbers are made up, so that this runs without images and encoders. Yours are written by
``pfedfair embed IMAGES --encoder dinov2 --out scans.parquet``; put your columns beside them.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pfedfair as pff

rng = np.random.default_rng(0)
n, width = 3000, 64
sex = rng.integers(0, 2, n)
ill = (rng.random(n) < np.where(sex == 1, 0.7, 0.3)).astype(int)
numbers = rng.normal(size=(n, width))
numbers[:, :8] += 0.4 * ill[:, None]  # what the images show of the label,
numbers[:, 8:16] += sex[:, None]  # and of S: it is in the embeddings, told or not
halves = pa.array(numbers.astype(np.float16).reshape(-1))
table = pa.table(
    {
        "file": [f"{i:04}.png" for i in range(n)],
        "embedding": pa.FixedSizeListArray.from_arrays(halves, width),
        "ill": ill,
        "sex": np.where(sex == 1, "m", "f"),
        "clinic": rng.choice(["north", "south", "west"], n),
    }
)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "scans.parquet"
    pq.write_table(table, path)
    data = pff.load(path, "ill", "sex")
    federation = data.federate(pff.partition.by_column("clinic"))
    print(federation.describe())
    for name, settings in (("fedavg", {}), ("fedavg-kde", {"eta": 0.9})):
        run = pff.train(federation, pff.make(name, settings, data), seed=0)
        print(name)
        print(run.table()[["client", "accuracy", "ddp", "ddp_low", "ddp_high"]].round(3))
    run.save(Path(folder) / "run")
    model = pff.load_model(Path(folder) / "run", client="north")
print(model.predict(data.array[:10]))  # the model asks for embeddings of the same encoder
