"""The files of a run.

``model.safetensors`` has w, theta, the rules, the server's state and the clients' states for
retargeting; ``run.json`` is the card; ``predictions.parquet`` has the scores and decisions of all
rows; ``shapes.csv``, of a linear model, its contribution to the score for each value of each
column.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pfedfair._util.files import atomic, write_parquet
from pfedfair._util.text import escape_formulas
from pfedfair.runs import predictions
from pfedfair.runs.card import card_of
from pfedfair.runs.guards import Reference
from pfedfair.runs.model import write_model
from pfedfair.runs.shapes import SHAPES

if TYPE_CHECKING:
    from pfedfair.runs.run import Run


def write_run(run: Run, folder: Path) -> None:
    """Write all files of a run; compute all their contents before the first."""
    federation, fitted = run.federation, run.fitted
    about = card_of(run) | {"key": run.key.hex(), "facts": []}
    tensors = {"w": fitted.w, "theta": fitted.theta}
    tensors |= {f"server.{k}": v for k, v in fitted.server.items() if k != "w"}
    tensors |= {f"own.{k}": _counts(v) for k, v in fitted.own.items()}
    if fitted.rules[0].facts:
        about["facts"] = [*fitted.rules[0].facts]
        facts = [[*rule.facts.values()] for rule in fitted.rules]
        tensors["facts"] = torch.tensor(facts, dtype=torch.float64)
    scores = predictions.frame_of(run.predictors, federation, run.draws)
    shown = run.network.linear and federation.data.array is None
    shapes = run.shapes() if shown else None
    task, encoder = federation.table.task, federation.encoder
    if reference := run.reference or Reference.of(federation):
        about["reference"] = reference.to_dict(encoder)
        tensors["reference"] = torch.from_numpy(reference.counts).to(torch.int32)
    write_model(folder, run.network, encoder, task, fitted.rules, tensors, about)
    write_parquet(folder / predictions.NAME, scores)
    if shapes is not None:
        with atomic(folder / SHAPES) as file:
            escape_formulas(shapes).to_csv(file, index=False)


def _counts(tensor: Tensor) -> Tensor:
    """Return counts of rows as 32-bit integers, other tensors unchanged."""
    integral = tensor.dtype == torch.float64 and bool((tensor == tensor.to(torch.int32)).all())
    return tensor.to(torch.int32) if integral else tensor
