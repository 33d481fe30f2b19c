"""Common parts of figure 4a and tables 4 and 5: centralised training on images."""

import json
from collections.abc import Sequence
from functools import partial

import pandas as pd
import torch

from pfedfair.data import FACES
from pfedfair.models import PIXELS
from pfedfair.partition import together
from pfedfair.studies import parts, summary, words
from pfedfair.studies.rows import CONSTANT, FAIR
from pfedfair.studies.study import Cell, cells_of
from pfedfair.studies.view import Column, Table

TEST = 1 / 3  # the part of rows for the test, unless the data set defines its test rows
PLAN = together(TEST, paper=True)
PASSES = {"rounds": 100, "epochs": 1, "ridge": 0.01}  # of a linear layer
SIZE = 64  # pixels
ETAS = (0.0, 0.9)
# Passes over the rows and step size of networks on pixels, chosen on validation rows.
RECIPES = {
    "fair mlp": {"rounds": 30, "alpha": 0.001},
    "fair cnn": {"rounds": 30, "alpha": 0.001},
    "fair resnet18": {"rounds": 10, "alpha": 0.001},
    "fair vit-b16": {"rounds": 10, "alpha": 0.0001},
}
BATCH = 128  # images; a full batch of a small data set would be one step


def shown() -> list[str]:
    """Return the networks on pixels that this machine can train: some need a GPU."""
    return [row for row in RECIPES if not PIXELS[FAIR[row]].heavy or torch.cuda.is_available()]


def pixel_cell(row: str, level: dict[str, float]) -> Cell:
    return Cell(PLAN, row, RECIPES[row] | {"batch": BATCH} | level, pixels=SIZE)


def linear(cells: Sequence[Cell], alpha: float = 0.003) -> list[Cell]:
    """Return cells with common settings of the linear layer: a centralised pass has many steps."""
    common = PASSES | {"alpha": alpha}
    return [cell if cell.row == CONSTANT else cell._replace(level=common | cell.level)
            for cell in cells]  # fmt: skip


def cells(dataset: str) -> list[Cell]:
    """Return a linear layer on embeddings, and networks on pixels of the same images, over eta."""
    if dataset not in FACES:
        return []
    rows = (CONSTANT, "fair linear")
    on_embeddings = [cell._replace(images=True) for cell in linear(cells_of(rows, PLAN, etas=ETAS))]
    return on_embeddings + [pixel_cell(row, {"eta": eta}) for row in shown() for eta in ETAS]


def is_central(results: pd.DataFrame) -> "pd.Series[bool]":
    """Return which results are of centralised training."""
    return results["partition"].map(lambda plan: json.loads(plan)["kind"] == type(PLAN).__name__)


def table(part: pd.DataFrame, rows: pd.DataFrame, what: str) -> Table:
    """Return methods against accuracy and gap, with the paper's numbers and claims on `what`."""
    gap = summary.gap_of(part)
    paper = parts.printed(what, part["dataset"].iloc[0], 1)
    sizes = part.groupby("method")[["n_train", "n_test"]].first()

    def cell(name: str, row: pd.Series) -> str:
        text, key = words.measure(row, f"mean_{name}", half=True), (row["method"], "mean")
        return text + (f"\n{words.measure(paper.loc[key], name)}" if key in paper.index else "")

    def method(row: pd.Series) -> str:
        return str(row["method"]) + ("\n paper" if row["method"] in paper.index else "")

    measured = [
        Column(head, partial(cell, name))
        for name, head in (("accuracy", "accuracy % ↑"), (gap, f"{gap.upper()} ↓"))
    ]
    about = (
        Column("method", method), parts.LEVEL,
        Column("network", lambda row: words.narrow(row["model"], 16)), *measured,
    )  # fmt: skip
    train, test = sizes["n_train"].max(), sizes["n_test"].max()
    return Table(
        heading=f": {train:,} rows to train, {test:,} to test",
        frame=rows,
        columns=about,
        keys=2,
        bright=1,
        lines_heading=parts.CLAIMS,
        lines=parts.judged(part, parts.claims(what)),
    )
