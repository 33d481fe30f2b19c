"""`pfedfair embed` against a plain transformers loop, and its memory for two sizes of folder.

    python benchmarks/embed.py
    python benchmarks/embed.py --encoder FOLDER --images FOLDER --count 200 --threads 2

Without folders, a DINOv2 of ViT-S/14's size with random weights sees made-up images of CelebA's
size. Both sides load the model, read the same files, and use the same batch and threads.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import transformers
from PIL import Image

from pfedfair.data.images.embed import embed, read_embeddings

BIT = {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 256}}


def make_images(folder: Path, count: int, width: int, height: int) -> Path:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for number in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (12, 10, 3), dtype=np.uint8))
        picture = coarse.resize((width, height), Image.Resampling.BICUBIC)
        picture.save(folder / f"{number:06}.jpg", quality=90)
    return folder


def make_encoder(folder: Path, small: bool) -> Path:
    if small:
        sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    else:
        sizes = {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6}
    model = transformers.Dinov2Model(transformers.Dinov2Config(**sizes, image_size=224))
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(BIT))
    return folder


def plain(encoder: Path, files: list[Path], batch: int, threads: int) -> np.ndarray:
    """The loop that one would write: open, process, model, one batch after the other."""
    torch.set_num_threads(threads)
    model = transformers.AutoModel.from_pretrained(encoder, dtype=torch.float32).eval()
    processor = transformers.BitImageProcessorPil.from_pretrained(encoder)
    rows = []
    for at in range(0, len(files), batch):
        images = [Image.open(path).convert("RGB") for path in files[at : at + batch]]
        with torch.inference_mode():
            outputs = model(**processor(images, return_tensors="pt"))
        rows.append(outputs.pooler_output.flatten(1).numpy())
    return np.concatenate(rows)


def speed(encoder: Path, images: Path, count: int, batch: int, threads: int, turns: int) -> None:
    files = sorted(path for path in images.iterdir() if path.suffix == ".jpg")[:count]
    names = [path.name for path in files]
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(turns):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            out = Path(folder) / "e.parquet"
            embed(images, str(encoder), out, files=names, batch=batch, threads=threads)
            ours.append(time.perf_counter() - began)
            found = read_embeddings(out)[1]
        began = time.perf_counter()
        expected = plain(encoder, files, batch, threads)
        theirs.append(time.perf_counter() - began)
    away = np.linalg.norm(found - expected, axis=1) / np.linalg.norm(expected, axis=1)
    first, second = (len(files) / statistics.median(each) for each in (ours, theirs))
    print(
        f"{len(files)} images, batch {batch}, {threads} threads: embed {first:.2f} images/s, plain "
        f"loop {second:.2f}, ratio {first / second:.2f}x (goal >= 1), apart {away.max():.1e}"
    )


def memory(count: int) -> None:
    """Peak memory of a process that embeds a folder, and one ten times as large."""
    peaks = []
    with tempfile.TemporaryDirectory() as folder:
        encoder = make_encoder(Path(folder) / "tiny", small=True)
        for number in (count, 10 * count):
            images = make_images(Path(folder) / f"{number}", number, 320, 240)
            out = Path(folder) / f"{number}.parquet"
            command = [sys.executable, __file__, "--once", str(images), str(encoder), str(out)]
            done = subprocess.run(command, capture_output=True, check=True, text=True)
            peaks.append(float(done.stdout))
    print(
        f"peak memory: {count} images {peaks[0]:.0f} MB, {10 * count} images {peaks[1]:.0f} MB, "
        f"ratio {peaks[1] / peaks[0]:.2f}x (goal <= 1.1)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", type=Path)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--folder", type=int, default=300, help="images of the small folder")
    parser.add_argument("--once", nargs=3, type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if given.once:
        images, encoder, out = given.once
        embed(images, str(encoder), out, threads=2)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return
    with tempfile.TemporaryDirectory() as folder:
        encoder = given.encoder or make_encoder(Path(folder) / "encoder", small=False)
        images = given.images or make_images(Path(folder) / "images", given.count, 178, 218)
        speed(encoder, images, given.count, given.batch, given.threads, given.turns)
    memory(given.folder)


if __name__ == "__main__":
    main()
