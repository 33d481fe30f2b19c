"""A site's encoded rows, cached on the site's disk between messages.

A deployment starts a new process for every message. Without the cache each of them would read the
table, infer the kinds of its columns and encode them. The file is valid for one content of the
table, the agreed columns, the site's settings, policy and secret, and the versions of the programs
that read tables: if any of these differs, or the file is damaged, the rows are encoded again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from safetensors import SafetensorError

from pfedfair import __version__
from pfedfair._util.files import first_line, sha256, sweep
from pfedfair.data.tables.reading import ReadingWarning
from pfedfair.engines.site import checksums
from pfedfair.engines.site.rows import Site, federate_site, read_site, state_folder
from pfedfair.engines.site.schema import Schema
from pfedfair.engines.site.secrets import NAME as SECRET
from pfedfair.engines.site.settings import Config
from pfedfair.federation import Federation, Table

log = logging.getLogger("pfedfair")
NAME = "encoded.safetensors"
FORMAT = 3


class EncodedRows(NamedTuple):
    """All of a site's rows, encoded, and the indices of those that are trained on.

    `n_train` is the number of training rows, including those excluded for their rare values.
    `row_keys` are the rows' secret keys, if the method needs them.
    """

    table: Table
    rows: np.ndarray
    n_train: int
    row_keys: np.ndarray | None = None


@dataclass
class Source:
    """A site's rows for one message: from the cache if it is valid, else from the table."""

    node: Config
    run: Config
    least: int  # see `federate_site`
    independent: bool
    keyed: bool  # whether the method needs the rows' secret keys
    cache: RowCache | None
    cached: EncodedRows | None
    folder: Path = Path()
    notes: list[str] = field(default_factory=list)  # warnings about the reading of the table
    site: Site | None = None
    made: Federation | None = None

    @classmethod
    def open(
        cls, node: Config, run: Config, schema: str, least: int, independent: bool, keyed: bool
    ) -> Source:
        """Read the cache, or the table; `schema` has the agreed columns, as JSON."""
        cache = RowCache.of(node, [schema, least, independent, keyed])
        cached = cache.read() if cache else None
        source = cls(node, run, least, independent, keyed, cache, cached)
        if cache and cached:
            source.folder = cache.folder
        else:
            with recorded_warnings(source.notes):
                source.folder = source.table().folder
        sweep(source.folder)
        return source

    def table(self) -> Site:
        """Return the site's table; read it if that was not necessary before."""
        if self.site is None:
            self.site = read_site(self.node, self.run)
        return self.site

    def federation(self, schema: Schema) -> Federation:
        """Return the table, encoded as at all sites, as a federation of one client."""
        if self.made is None:
            self.made = federate_site(self.table(), schema, self.least, self.independent)
        return self.made

    def encoded(self, schema: Schema) -> EncodedRows:
        """Return the encoded rows; cache them if they were not."""
        if self.cached:
            return self.cached
        site, made = self.table(), self.federation(schema)
        row_keys = site.draw_keys if self.keyed else None
        rows = EncodedRows(made.table, made.partition.train[0], len(site.train), row_keys)
        if self.cache:
            self.cache.write(rows, self.notes)
        return rows


@dataclass(frozen=True)
class RowCache:
    """The file with a site's encoded rows, and a digest of all that they depend on."""

    folder: Path
    key: str
    files: tuple[Path, ...]
    stats: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, node: Config, request: list[object]) -> RowCache | None:
        """Return the cache of a site with a table; a simulated client has none."""
        if "partition-id" in node or not node.get("data"):
            return None
        names = [node["data"], node.get("test")]
        files = tuple(Path(str(name)) for name in names if name)
        folder = state_folder(node, node, str(node.get("site") or files[0].stem))
        secret = folder / SECRET
        try:
            stats = _stats(files)
            what = {
                "format": FORMAT,
                "programs": [__version__, pd.__version__, pa.__version__, np.__version__],
                "files": [sha256(path) for path in files],
                "node": sorted((str(name), str(value)) for name, value in node.items()),
                "asked": request,
                "secret": sha256(secret) if secret.exists() else "",
            }
        except OSError:  # reading the table gives a clearer message
            return None
        key = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()
        return cls(folder, key, files, stats)

    @property
    def path(self) -> Path:
        return self.folder / NAME

    def read(self) -> EncodedRows | None:
        """Return the cached rows, if they are valid; repeat the warnings about their table."""
        if not self.path.exists():
            return None
        try:
            if checksums.about(self.path)["key"] != self.key:
                return None
            tensors, about = checksums.read(self.path)
            table = Table(tensors["x"], tensors["y"], tensors["s"], person=tensors.get("person"))
            row_keys = tensors["marks"].numpy().view(np.uint64) if "marks" in tensors else None
            found = EncodedRows(table, tensors["rows"].numpy(), int(about["people"]), row_keys)
            notes = [str(text) for text in about["notes"]]
        except Exception as error:  # whatever is wrong with it, the table is still there
            log.warning("pfedfair: %s cannot be read, and is made anew: %s",
                        self.path, first_line(error))  # fmt: skip
            return None
        for text in notes:
            warnings.warn(text, ReadingWarning, stacklevel=2)
        return found

    def write(self, made: EncodedRows, notes: list[str]) -> None:
        """Cache rows for the next message, unless the table has changed in the meantime."""
        x, y, s = made.table[:3]
        tensors = {"x": x, "y": y, "s": s, "rows": torch.from_numpy(made.rows)}
        if made.table.person is not None:
            tensors["person"] = made.table.person
        if made.row_keys is not None:
            tensors["marks"] = torch.from_numpy(made.row_keys.view(np.int64))
        about = {"key": self.key, "people": made.n_train, "notes": notes}
        try:
            if _stats(self.files) == self.stats:
                checksums.write(self.path, tensors, about, private=True)
        except (OSError, SafetensorError) as error:
            log.warning("pfedfair: the encoded table cannot be cached in %s, and is made for every "
                        "message: %s", self.folder, first_line(error))  # fmt: skip


@contextmanager
def recorded_warnings(notes: list[str]) -> Iterator[None]:
    """Add warnings about the reading of a table to `notes`, and issue them afterwards."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", ReadingWarning)
        yield
    for one in found:
        if issubclass(one.category, ReadingWarning):
            notes.append(str(one.message))
        warnings.warn(one.message, one.category, stacklevel=2)


def _stats(files: tuple[Path, ...]) -> tuple[tuple[int, ...], ...]:
    found = (path.stat() for path in files)
    return tuple((one.st_ino, one.st_size, one.st_mtime_ns) for one in found)
