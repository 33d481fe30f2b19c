"""Rows: the bundled data sets, and yours."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pfedfair.data.adult import adult
from pfedfair.data.compas import compas
from pfedfair.data.dataset import Dataset
from pfedfair.data.encoder import Encoder
from pfedfair.data.table import from_frame, read_table
from pfedfair.errors import InputError, near

__all__ = ["DATASETS", "Dataset", "Encoder", "adult", "compas", "from_frame", "load", "read_table"]

DATASETS: dict[str, Callable[[], Dataset]] = {
    "adult": adult,
    "compas": compas,
    "compas-two-races": partial(compas, others="african-american"),
}


def load(
    name: str | Path, label: str | None = None, sensitive: str | None = None, **options: Any
) -> Dataset:
    """Load a bundled data set by name, or a CSV/Parquet file by path.

    A bundled data set may get another sensitive attribute, or several ("sex,race"); it has no
    paper's plan of shares then. `options` are those of `from_frame`.

    >>> len(load("compas"))
    6172
    """
    if str(name) in DATASETS:
        if label:
            raise InputError(f"'{name}' has its own label: leave it out.")
        merge = options.pop("merge_groups", False)
        own = [option for option, given in options.items() if given]
        if own:
            raise InputError(f"'{name}' has its own columns: leave out {', '.join(own)}.")
        data = DATASETS[str(name)]()
        return data.by(sensitive.split(","), merge) if sensitive else data
    path = Path(name)
    if path.suffix not in {".csv", ".parquet"}:
        raise InputError(
            f"Unknown data set '{name}': {near(str(name), DATASETS)}{', '.join(DATASETS)}, "
            "or give the path of a .csv or .parquet file."
        )
    frame = read_table(path)
    if not label or not sensitive:
        raise InputError(f"For {path}, say which column is the label and which the sensitive one.")
    return from_frame(frame, label, sensitive, path.stem, **options)
