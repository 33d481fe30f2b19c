"""Rows: the bundled data sets, and yours."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pfedfair.data.adult import adult
from pfedfair.data.compas import compas
from pfedfair.data.table import Dataset, Encoder, from_file, from_frame
from pfedfair.errors import InputError

__all__ = ["DATASETS", "Dataset", "Encoder", "adult", "compas", "from_file", "from_frame", "load"]

DATASETS: dict[str, Callable[..., Dataset]] = {
    "adult": adult,
    "compas": compas,
    "compas-two-races": partial(compas, others="african-american"),
}


def load(
    name: str | Path, label: str | None = None, sensitive: str | None = None, **options: Any
) -> Dataset:
    """Load a bundled data set by name, or a CSV/Parquet file by path.

    >>> len(load("compas"))
    6172
    """
    if str(name) in DATASETS:
        if label or sensitive:
            raise InputError(f"'{name}' has its own label and sensitive attribute: leave both out.")
        return DATASETS[str(name)](**options)
    path = Path(name)
    if path.suffix not in {".csv", ".parquet"}:
        raise InputError(
            f"Unknown data set '{name}': choose one of {', '.join(DATASETS)}, "
            "or give the path of a .csv or .parquet file."
        )
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    if not label or not sensitive:
        raise InputError(f"For {path}, say which column is the label and which the sensitive one.")
    return from_file(path, label, sensitive, **options)
