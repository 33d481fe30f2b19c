"""Embed a folder of images: threads decode ahead of the model, batches become parts."""

import csv
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pfedfair._util.errors import InputError, option
from pfedfair.data.images.embed import encoders, write
from pfedfair.data.images.embed.decoders import Decoders
from pfedfair.data.images.embed.encoders import Encoder
from pfedfair.data.images.embed.listing import Listing, list_images, printable
from pfedfair.data.images.embed.pictures import BadImage, no_warnings, read_picture
from pfedfair.data.images.embed.preprocess import Preprocessing
from pfedfair.data.images.embed.read import metadata, read_columns
from pfedfair.data.images.embed.write import Part

AT_LEAST = 64  # files of a part: the most work that is lost when it is stopped
LIMIT = float(np.finfo(np.float16).max)


@dataclass(frozen=True)
class Report:
    """The result of embedding a folder of images."""

    images: int
    width: int
    encoder: str
    pooling: str
    skipped: tuple[str, ...]  # "name: reason"
    others: int  # files that are no images, and hidden ones
    animated: int  # only the first frame was taken
    rotated: int
    resumed: int  # files that an earlier, stopped call had done
    finished: bool  # whether there was nothing to do
    seconds: float


@dataclass(frozen=True)
class Ready:
    """An image for the encoder, or the reason why there is none."""

    name: str
    reason: str | None = None
    sha256: str = ""
    pixels: np.ndarray | None = None
    animated: bool = False
    rotated: bool = False


def embed(
    folder: Path,
    encoder: str,
    out: Path,
    *,
    files: Sequence[str] | None = None,
    batch: int = 16,
    threads: int | None = None,
    pooling: str | None = None,
    revision: str | None = None,
    on_work: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Write the embeddings of a folder's images; resume a stopped call.

    `files` are names relative to the folder, by default those of all images below it. `on_work` is
    called with the number of files that are done, and the total.
    """
    began, folder, out = time.monotonic(), Path(folder), Path(out)
    threads = torch.get_num_threads() if threads is None else threads
    _check(out, batch, threads)
    listing = list_images(folder, files)
    with encoders.threads(threads), no_warnings():
        model = encoders.load(encoder, revision, pooling)
        card = _card(model, listing)
        if out.exists():
            return _check_existing(out, card, listing, began)
        with write.claim(out, card) as parts:
            resumed = max((end for _, end, _, _ in write.saved(parts)), default=0)
            on_work(resumed, len(listing.names))
            for part in _parts(listing, model, batch, threads, resumed, on_work):
                write.save(parts, part)
            if list_images(folder, files).stamp != listing.stamp:
                raise InputError(
                    f"Images in {folder} changed while they were embedded: delete {parts}, and "
                    "start again."
                )
            meta = write.assemble(out, parts, card, [[*each] for each in listing.skipped])
            write.remove(parts)
    return _report(out, meta, listing, resumed, False, began)


def _check(out: Path, batch: int, threads: int) -> None:
    if out.suffix != ".parquet":
        raise InputError(f"{option('out')} must be a name that ends in .parquet, got {out}.")
    if out.is_dir():
        raise InputError(f"{out} is a folder: choose another {option('out')}.")
    for name, value in ((option("batch"), batch), (option("threads"), threads)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value}.")


def _card(model: Encoder, listing: Listing) -> dict[str, Any]:
    """Describe the embeddings' origin; only `stamp` depends on this machine."""
    checkpoint = model.checkpoint
    return {
        "encoder": checkpoint.name,
        "revision": checkpoint.revision,
        "hash": checkpoint.hash,
        "config": checkpoint.config,
        "pooling": model.pooling,
        "preprocessing": model.preprocessing.describe(),
        "width": model.width,
        "files": listing.digest,
        "stamp": listing.stamp,
    }


def _check_existing(out: Path, card: dict[str, Any], listing: Listing, began: float) -> Report:
    """Check that an existing file is what this call would write; return its report."""
    meta, card = metadata(out), {key: card[key] for key in card if key != "stamp"}
    what = write.differs(card, meta)
    if what is None and meta is not None:
        written = out.stat().st_mtime_ns
        late = [name for name in listing.names if listing.newest[name] >= written]
        if not late or not _changed(out, listing.folder, late):
            return _report(out, meta, listing, 0, True, began)
        what = write.ALIKE["stamp"]
    raise InputError(f"{out} exists and is of {what}: choose another {option('out')}.")


def _changed(out: Path, folder: Path, names: list[str]) -> bool:
    """Whether images differ from those of a file; images without a row are not checked."""
    frame = read_columns(out, ["file", "sha256"])
    stored = dict(zip(frame["file"], frame["sha256"], strict=True))
    for name in names:
        try:
            if read_picture(folder / name).sha256 != stored.get(name):
                return True
        except BadImage:
            if name in stored:
                return True
    return False


def _report(
    out: Path, meta: dict[str, Any], listing: Listing, resumed: int, finished: bool, began: float
) -> Report:
    skipped = tuple(meta["skipped"]["first"])
    if write.skipped_file(out).is_file():
        with write.skipped_file(out).open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))[1:]
        skipped = tuple(f"{printable(name)}: {reason}" for name, reason in rows)
    return Report(
        images=meta["images"],
        width=meta["width"],
        encoder=meta["encoder"],
        pooling=meta["pooling"],
        skipped=skipped,
        others=listing.others,
        animated=meta["animated"],
        rotated=meta["rotated"],
        resumed=resumed,
        finished=finished,
        seconds=time.monotonic() - began,
    )


def _parts(
    listing: Listing,
    model: Encoder,
    batch: int,
    threads: int,
    start: int,
    on_work: Callable[[int, int], None],
) -> Iterator[Part]:
    step = batch * -(-AT_LEAST // batch)
    total = len(listing.names)
    decoders, read = Decoders(threads), _reader(listing.folder, model.preprocessing)
    coming = decoders.map(read, listing.names[start:], 2 * batch)
    for first in range(start, total, step):
        last, ready, rows = min(first + step, total), [], []
        for at in range(first, last, batch):
            images = [next(coming) for _ in range(at, min(at + batch, last))]
            good = [one for one in images if one.pixels is not None]
            if good:
                with decoders.model_computes():
                    values = model(np.stack([one.pixels for one in good]))  # type: ignore[misc]
                rows.append(_halves(values, good))
            ready += [Ready(**{**vars(one), "pixels": None}) for one in images]
            on_work(at + len(images), total)
        used = [one for one in ready if one.reason is None]
        yield Part(
            start=first,
            end=last,
            names=[one.name for one in used],
            hashes=[one.sha256 for one in used],
            embeddings=np.concatenate([np.empty((0, model.width), np.float16), *rows]),
            skipped=[[one.name, one.reason] for one in ready if one.reason is not None],
            animated=sum(one.animated for one in used),
            rotated=sum(one.rotated for one in used),
        )


def _reader(folder: Path, preprocessing: Preprocessing) -> Callable[[str], Ready]:
    def read(name: str) -> Ready:
        try:
            picture = read_picture(folder / name)
            pixels = preprocessing(picture.image)
        except BadImage as bad:
            return Ready(name, str(bad))
        return Ready(name, None, picture.sha256, pixels, picture.animated, picture.rotated)

    return read


def _halves(values: np.ndarray, images: list[Ready]) -> np.ndarray:
    """Return float16; refuse numbers that would overflow."""
    fits = (np.abs(values) <= LIMIT).all(1)  # not true of nan
    if not fits.all():
        name = images[int(np.argmin(fits))].name
        raise InputError(
            f"The encoder gives {printable(name)} numbers that are not finite or too large for "
            "float16: look at the image, or choose another encoder."
        )
    return values.astype(np.float16)
