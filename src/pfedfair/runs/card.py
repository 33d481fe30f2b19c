"""What went into a run and what came out, for those who have nothing but its folder."""

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
from pfedfair.metrics.criteria import MEASURES

if TYPE_CHECKING:
    from pfedfair.runs.run import Run

MOST_VALUES = 1000  # of S that a card lists


def card_of(run: Run) -> dict[str, Any]:
    """Return what ``run.json`` says of a run, besides what its models are made of."""
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
        "values": run.values,
        "seed": run.seed,
        "shared_conditional": part.shared_conditional,
        "data": {"rows": len(data), "inputs": data.inputs, "sha256": data.digest},
        "versions": versions(),
        "command": run.command,
        "sent": [one._asdict() | {"tensors": list(one.tensors)} for one in run.fitted.sent],
        "metrics": metrics_of(run),
    }


def columns_of(federation: Federation) -> dict[str, Any]:
    """Which columns are inputs, which are not, and why."""
    data, encoder = federation.data, federation.encoder
    numbers, categories = getattr(encoder, "names", ([], []))
    client = federation.partition.column or data.client
    sensitive = data.sensitive_column.split(",")
    taken = {base_of(name)[0] for name in (*numbers, *categories)}
    left = getattr(data, "left", {})
    why = {column: left.get(column, "is not an input") for column in map(str, data.frame)
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
    """What the table says of S, and the group that it means, if that is one for each value."""
    columns = data.sensitive_column.split(",")
    if not all(column in data.frame for column in columns):
        return {}
    each = [factor(data.frame[column]) for column in columns]
    texts = [np.array([*words, ""], dtype=object)[codes] for codes, words in each]
    joined = pd.Series([" x ".join(parts) for parts in zip(*texts, strict=True)], dtype=object)
    pairs = pd.DataFrame({"value": joined, "group": data.s}).drop_duplicates()
    if pairs["value"].duplicated().any() or len(pairs) > MOST_VALUES:
        return {}
    return {str(value): int(group) for value, group in pairs.sort_values("value").to_numpy()}


def versions() -> dict[str, str]:
    try:
        own = version("pfedfair")
    except PackageNotFoundError:
        own = "not installed"
    return {
        "pfedfair": own,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
    }


def metrics_of(run: Run) -> list[dict[str, Any]]:
    """Accuracy and gaps of every client, with intervals; none where no rows are held out."""
    try:
        table = run.table()
    except InputError:  # a site may have no rows to measure by
        return []
    named = ["accuracy", *MEASURES]
    wanted = ["client", "role", "n_train", "n_test", "protocol"]
    wanted += [f"{name}{end}" for name in named for end in ("", "_low", "_high")]
    table = table[[column for column in wanted if column in table]]
    return [{str(name): _number(value) for name, value in row.items()}
            for row in table.to_dict("records")]  # fmt: skip


def _number(value: Any) -> Any:
    """Return a number as JSON has it: None if it is not finite."""
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
