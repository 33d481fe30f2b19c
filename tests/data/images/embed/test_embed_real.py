"""Real checkpoints on real images, against embeddings that others computed."""

import numpy as np
import pytest

from pfedfair.data.images.embed import embed, read_embeddings
from shared_faces import FACES, needs_faces

STORED = {  # file, and the largest relative distance of an image
    "resnet50-imagenet": ("celeba/embeddings-resnet50.parquet", 1e-3, 2048, "pooled"),
    # The checkpoint is rounded to float16; noise of half a last digit moves embeddings by 1e-3.
    "dinov2-small": ("celeba/sample-embeddings-dinov2s.parquet", 3e-3, 384, "cls"),
}


@needs_faces
@pytest.mark.parametrize("name", STORED)
def test_celeba_as_stored(tmp_path, name):
    stored, limit, width, pooling = STORED[name]
    folder = FACES / "celeba" / "sample" / "img_align_celeba"
    files = sorted(path.name for path in folder.iterdir())[::50]
    out = tmp_path / "e.parquet"
    report = embed(folder, str(FACES / "checkpoints" / name), out, files=files, threads=1)
    assert (report.images, report.width, report.pooling) == (12, width, pooling)
    frame, found, _ = read_embeddings(out)
    others, expected, meta = read_embeddings(FACES / stored)
    assert meta is None
    row = {file: number for number, file in enumerate(others["file"])}
    expected = expected[[row[file] for file in frame["file"]]].astype(np.float64)
    away = np.linalg.norm(found - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert away.max() < limit
