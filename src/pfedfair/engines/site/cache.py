"""A site's rows as it trains on them, kept on its own disk from message to message.

A deployment starts a new process for every message. Without this each of them would read the table,
find out what its columns are and encode them. The file belongs to one content of the table, to the
agreed columns, to the site's settings, policy and secret, and to the programs that read tables: if
any of these is another, or the file is damaged, it is made anew. There is one, the last.
"""

import hashlib
import json
import logging
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from safetensors import SafetensorError

from pfedfair import __version__
from pfedfair._util.files import first_line
from pfedfair.data.tables.reading import ReadingWarning
from pfedfair.engines.site import checksums
from pfedfair.engines.site.rows import folder_of
from pfedfair.engines.site.secrets import NAME as SECRET
from pfedfair.engines.site.settings import Config
from pfedfair.federation import Table

log = logging.getLogger("pfedfair")
NAME = "encoded.safetensors"
FORMAT = 1
HOUR = 3600
_unable: set[Path] = set()  # folders that nothing can be kept in: said once


class Ready(NamedTuple):
    """All of a site's rows, encoded, and which of them are trained on.

    `people` are the rows for training, also those who are left out of it; `marks` the rows' secret
    numbers, if the method asks for them.
    """

    table: Table
    rows: np.ndarray
    people: int
    marks: np.ndarray | None = None


@dataclass(frozen=True)
class Kept:
    """Where a site keeps its rows, and a name for all that they depend on."""

    folder: Path
    key: str
    files: tuple[Path, ...]
    stats: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, node: Config, schema: str, least: int, alone: bool, marked: bool) -> "Kept | None":
        """Of a site with a table of its own; a client for trying out keeps nothing."""
        if "partition-id" in node or not node.get("data"):
            return None
        names = [node["data"], node.get("test")]
        files = tuple(Path(str(name)) for name in names if name)
        folder = folder_of(node, node, str(node.get("site") or files[0].stem))
        secret = folder / SECRET
        try:
            stats = _stats(files)
            what = {
                "format": FORMAT,
                "programs": [__version__, pd.__version__, pa.__version__, np.__version__],
                "files": [_digest(path) for path in files],
                "node": sorted((str(name), str(value)) for name, value in node.items()),
                "asked": [schema, least, alone, marked],
                "secret": _digest(secret) if secret.exists() else "",
            }
        except OSError:  # whoever reads the table says it better
            return None
        key = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()
        return cls(folder, key, files, stats)

    @property
    def path(self) -> Path:
        return self.folder / NAME

    def read(self) -> Ready | None:
        """What was kept, if it is of just this; and what was said when it was made."""
        if not self.path.exists():
            return None
        try:
            if checksums.about(self.path)["key"] != self.key:
                return None
            tensors, about = checksums.read(self.path)
            table = Table(tensors["x"], tensors["y"], tensors["s"])
            marks = tensors["marks"].numpy().view(np.uint64) if "marks" in tensors else None
            found = Ready(table, tensors["rows"].numpy(), int(about["people"]), marks)
            said = [str(text) for text in about["said"]]
        except Exception as error:  # whatever is wrong with it, it can be made anew
            log.warning("pfedfair: %s cannot be read, and is made anew: %s",
                        self.path, first_line(error))  # fmt: skip
            return None
        for text in said:
            warnings.warn(text, ReadingWarning, stacklevel=2)
        return found

    def write(self, made: Ready, said: list[str]) -> None:
        """Keep rows for the next message, unless the table has changed in the meantime."""
        x, y, s = made.table[:3]
        tensors = {"x": x, "y": y, "s": s, "rows": torch.from_numpy(made.rows)}
        if made.marks is not None:
            tensors["marks"] = torch.from_numpy(made.marks.view(np.int64))
        about = {"key": self.key, "people": made.people, "said": said}
        try:
            self._tidy()
            if _stats(self.files) == self.stats:
                checksums.write(self.path, tensors, about, private=True)
        except (OSError, SafetensorError) as error:
            if self.folder not in _unable:
                log.warning("pfedfair: the encoded table cannot be kept in %s, and is made for "
                            "every message: %s", self.folder, first_line(error))  # fmt: skip
            _unable.add(self.folder)

    def _tidy(self) -> None:
        """Take away what processes that were killed have left half written."""
        for path in self.folder.glob(f".{Path(NAME).stem}.*{Path(NAME).suffix}"):
            if time.time() - path.stat().st_mtime > HOUR:
                path.unlink(missing_ok=True)


@contextmanager
def heard() -> Iterator[list[str]]:
    """Listen to what is said of the reading of a table; it is said all the same, afterwards."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", ReadingWarning)
        yield said
    for one in found:
        if issubclass(one.category, ReadingWarning):
            said.append(str(one.message))
        warnings.warn(one.message, one.category, stacklevel=2)


def _stats(files: tuple[Path, ...]) -> tuple[tuple[int, ...], ...]:
    found = (path.stat() for path in files)
    return tuple((one.st_ino, one.st_size, one.st_mtime_ns) for one in found)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
