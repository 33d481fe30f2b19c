"""The card of a run, ``run.json``: its data, settings, versions and results."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from pfedfair._util.errors import InputError
from pfedfair.data import Dataset
from pfedfair.data.tables.cells import factor
from pfedfair.data.tables.dates import base_of
from pfedfair.federation import Federation
from pfedfair.metrics import performance
from pfedfair.metrics.criteria import MEASURES

if TYPE_CHECKING:
    from pfedfair.runs.run import Run

MOST_VALUES = 1000  # of S that a card lists


def card_of(run: Run) -> dict[str, Any]:
    """Return the content of ``run.json`` except the description of the models."""
    federation, data = run.federation, run.federation.data
    part = federation.partition
    return {
        "dataset": data.name,
        "algorithm": run.algorithm.to_dict(),
        "clients": list(part.names),
        "group_names": list(data.group_names),
        "label_names": list(data.label_names),
        "sensitive_column": data.sensitive_column,
        "bands": {column: list(edges) for column, edges in data.bands.items()},
        "positive": data.label_names[1] if len(data.label_names) == 2 else None,
        "columns": dict(run.columns),
        "formats": data.formats.to_dict(),
        "values": run.values,
        "seed": run.seed,
        "shared_conditional": part.shared_conditional,
        "data": {
            "rows": len(data),
            "without_sensitive": data.without_sensitive,
            "inputs": data.inputs,
            "sha256": data.digest,
        },
        "versions": versions(),
        "command": run.command,
        "sent": [one._asdict() | {"tensors": list(one.tensors)} for one in run.fitted.sent],
        "certificate": run.certificate,
        "metrics": metrics_of(run),
    }


def columns_of(federation: Federation) -> dict[str, Any]:
    """Return which columns are inputs, which are not, and why."""
    data, encoder = federation.data, federation.encoder
    numbers, categories = getattr(encoder, "names", ([], []))
    client = federation.partition.column or data.client
    sensitive = data.sensitive_column.split(",")
    taken = {*numbers, *categories, *(base_of(name)[0] for name in (*numbers, *categories))}
    why = {column: data.excluded.get(column, "is not an input") for column in map(str, data.frame)
           if column not in {*taken, *sensitive, data.label_column, client}}  # fmt: skip
    return {
        "numbers": numbers,
        "categories": categories,
        "sensitive": sensitive,
        "sensitive_is_input": federation.table.task.aware,
        "label": data.label_column,
        "client": client or None,
        "left_out": why,
    }


def values_of(data: Dataset) -> dict[str, int]:
    """Return the group of each value of S; {} if a value stands for several groups."""
    columns = data.sensitive_column.split(",")
    if not all(column in data.frame for column in columns):
        return {}
    factors = [factor(data.frame[column]) for column in columns]
    texts = [np.array([*words, ""], dtype=object)[codes] for codes, words in factors]
    joined = pd.Series([" x ".join(parts) for parts in zip(*texts, strict=True)], dtype=object)
    pairs = pd.DataFrame({"value": joined, "group": data.s}).drop_duplicates()
    if pairs["value"].duplicated().any() or len(pairs) > MOST_VALUES:
        return {}
    return {str(value): int(group) for value, group in pairs.sort_values("value").to_numpy()}


def versions() -> dict[str, str]:
    try:
        installed = version("pfedfair")
    except PackageNotFoundError:
        installed = "not installed"
    return {
        "pfedfair": installed,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
    }


def metrics_of(run: Run) -> list[dict[str, Any]]:
    """Return accuracy and gaps of every client with intervals; [] if no rows are held out."""
    try:
        table = run.table()
    except InputError:  # a site may have no rows to measure by
        return []
    wanted = ["client", "role", "n_train", "n_test", "protocol"]
    wanted += [
        f"{name}{end}"
        for name in ("accuracy", *MEASURES)
        for end in ("", "_low", "_high", "_apart", "_floor")
    ]
    wanted += [*performance.MEASURES, "constant", "gain", "gain_low", "gain_high"]
    table = table[[column for column in wanted if column in table]]
    return [{str(name): _number(value) for name, value in row.items()}
            for row in table.to_dict("records")]  # fmt: skip


def _number(value: Any) -> Any:
    """Return a number as JSON has it: None if it is not finite."""
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
