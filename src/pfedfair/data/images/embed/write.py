"""Write an embeddings file in parts, which are assembled at the end.

Parts are in a hidden folder next to the file, so that stopped work can be resumed.
The bytes of the file do not depend on its division into parts.
"""

import csv
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pfedfair._util.errors import InputError, option
from pfedfair._util.files import atomic, read_json, write_json
from pfedfair.data.images.embed.listing import SHOWN, printable

KEY = b"pfedfair"
ROWS = 8192  # of a row group
AS = {"compression": "zstd", "use_dictionary": False, "write_page_checksum": True}
ALIKE = {  # what must be equal to resume stopped work
    "hash": "another encoder",
    "config": "another config.json of the encoder",
    "pooling": "another pooling",
    "preprocessing": "another preprocessing",
    "files": "other images",
    "stamp": "images that were changed since",
}


@dataclass(frozen=True)
class Part:
    """The embeddings of the files from number `start` to `end`."""

    start: int
    end: int
    names: list[str]
    hashes: list[str]
    embeddings: np.ndarray  # (images, width), float16
    skipped: list[list[str]]  # names and reasons
    animated: int
    rotated: int


def differs(card: dict[str, Any], other: Any) -> str | None:
    """Return in what another card differs from this one, or None."""
    if not isinstance(other, dict):
        return "something else"
    return next((ALIKE[key] for key in ALIKE if key in card and other.get(key) != card[key]), None)


def parts_folder(out: Path) -> Path:
    return out.with_name(f".{out.name}.parts")


def skipped_file(out: Path) -> Path:
    return out.with_suffix(".skipped.csv")


@contextmanager
def claim(out: Path, card: dict[str, Any]) -> Iterator[Path]:
    """Lock the folder of parts; refuse one with parts of other work."""
    from filelock import FileLock, Timeout

    folder = parts_folder(out)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / "lock", timeout=0):
            path = folder / "card.json"
            if path.exists():
                what = differs(card, read_json(path))
                if what is not None:
                    raise InputError(
                        f"{folder} has unfinished work on {what}: choose another "
                        f"{option('out')}, or delete that folder."
                    )
            write_json(path, card)
            yield folder
    except Timeout as error:
        raise InputError(f"Another process is writing {out}: wait for it.") from error


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def save(folder: Path, part: Part) -> None:
    about = {"skipped": part.skipped, "animated": part.animated, "rotated": part.rotated}
    table = _table(part.names, part.hashes, part.embeddings)
    table = table.replace_schema_metadata({KEY: json.dumps(about).encode()})
    with atomic(_path(folder, part.start, part.end)) as temporary:
        pq.write_table(table, temporary, **AS)


def saved(folder: Path) -> Iterator[tuple[int, int, pa.Table, dict[str, Any]]]:
    """Yield start, end, rows and notes of the parts from the beginning on, until one is missing."""
    names = (re.fullmatch(r"(\d+)-(\d+)\.parquet", path.name) for path in folder.iterdir())
    ends = {int(name[1]): int(name[2]) for name in names if name}
    start = 0
    while start in ends:
        try:
            table = pq.read_table(_path(folder, start, ends[start]))
            about = json.loads(table.schema.metadata[KEY])
        except Exception:  # a damaged file: this part is made again
            return
        yield start, ends[start], table, about
        start = ends[start]


def assemble(
    out: Path, folder: Path, card: dict[str, Any], skipped: list[list[str]]
) -> dict[str, Any]:
    """Write the embeddings file of all parts, and return its metadata."""
    digest, skipped, images, animated, rotated = hashlib.sha256(), [*skipped], 0, 0, 0
    for _, _, table, about in saved(folder):
        for name, sha256 in zip(
            table["file"].to_pylist(), table["sha256"].to_pylist(), strict=True
        ):
            digest.update(f"{name}\0{sha256}\0".encode())
        skipped += about["skipped"]
        images += len(table)
        animated += about["animated"]
        rotated += about["rotated"]
    skipped.sort()
    first = [f"{printable(name)}: {reason}" for name, reason in skipped[:SHOWN]]
    meta = {"format": 1} | {key: value for key, value in card.items() if key != "stamp"}
    meta |= {"images": images, "images_sha256": digest.hexdigest()}
    meta |= {"skipped": {"count": len(skipped), "first": first}}
    meta |= {"animated": animated, "rotated": rotated}
    if not images:
        raise InputError(
            f"None of {len(skipped)} images can be used; the first: {'; '.join(first)}."
        )
    _write_skipped(skipped_file(out), skipped)
    with atomic(folder / "whole.parquet") as temporary:  # removed with the folder after a stop
        _write(temporary, (table for _, _, table, _ in saved(folder)), meta)
    (folder / "whole.parquet").replace(out)
    return meta


def _write(path: Path, tables: Iterator[pa.Table], meta: dict[str, Any]) -> None:
    schema = _table([], [], np.empty((0, meta["width"]), np.float16)).schema
    schema = schema.with_metadata({KEY: json.dumps(meta, sort_keys=True).encode()})
    with pq.ParquetWriter(path, schema, **AS) as writer:
        waiting: list[pa.Table] = []
        for table in tables:
            waiting.append(table.replace_schema_metadata(schema.metadata))
            while sum(map(len, waiting)) >= ROWS:
                rows = pa.concat_tables(waiting)
                writer.write_table(rows.slice(0, ROWS).combine_chunks(), row_group_size=ROWS)
                waiting = [rows.slice(ROWS)]
        if rest := sum(map(len, waiting)):
            writer.write_table(pa.concat_tables(waiting).combine_chunks(), row_group_size=rest)


def _write_skipped(path: Path, skipped: list[list[str]]) -> None:
    if not skipped:
        path.unlink(missing_ok=True)  # of an earlier file of this name
        return
    with atomic(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["file", "reason"], *skipped])


def _table(names: list[str], hashes: list[str], embeddings: np.ndarray) -> pa.Table:
    values = pa.array(np.ascontiguousarray(embeddings).reshape(-1), pa.float16())
    rows = pa.FixedSizeListArray.from_arrays(values, embeddings.shape[1])
    texts = (pa.array(each, pa.string()) for each in (names, hashes))
    return pa.table(dict(zip(("file", "sha256", "embedding"), (*texts, rows), strict=True)))


def _path(folder: Path, start: int, end: int) -> Path:
    return folder / f"{start:09}-{end:09}.parquet"
