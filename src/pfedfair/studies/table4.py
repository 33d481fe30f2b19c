"""Table 4: the cost of an epoch of training, and the number of trained parameters."""

import json
from functools import partial
from pathlib import Path

import pandas as pd

from pfedfair.data import FACES
from pfedfair.studies import central, words
from pfedfair.studies.rows import CONSTANT, ETA
from pfedfair.studies.study import Cell, Study, cells_of
from pfedfair.studies.view import Column, Table

LINEAR = "fair linear"
ROUNDS = {"fair mlp": 20, "fair cnn": 5, "fair resnet18": 1, "fair vit-b16": 1}
LEGEND = (
    "seconds: of one pass over 1,000 images, on one thread of this machine (networks on pixels: on "
    "its GPU, if it has one); the least over seeds. On one machine rows can be compared; the "
    "paper's are whole epochs on a GPU.",
    "times: how many times the seconds of the linear layer (of the paper's DINOv2 row). Embedding "
    "the images comes before that, once, and is not counted here or there.",
    "parameters: trained parameters.",
)


def cells(dataset: str) -> list[Cell]:
    """Return the networks, each with enough passes to make its start-up negligible."""
    common = {"eta": ETA, "epochs": 1}
    constant = [cell._replace(images=True) for cell in cells_of((CONSTANT,), central.PLAN)]
    linear = Cell(central.PLAN, LINEAR, common | {"rounds": 20}, images=True)
    pixels = [central.pixel_cell(row, common | {"rounds": ROUNDS[row]}) for row in central.RECIPES]
    return [*constant, linear, *pixels]


def cost_table(part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    """Return networks against seconds for 1,000 images and parameters, ours and the paper's."""
    runs = part[part["method"] != CONSTANT]
    passes = [about["rounds"] * about["epochs"] for about in map(json.loads, runs["config"])]
    each = runs.assign(cost=1000 * runs["seconds"] / runs["n_train"] / passes)
    frame = each.groupby(["method", "model"], sort=False)[["cost", "parameters"]].min()
    frame = frame.reset_index()
    paper = pd.read_csv(Path(__file__).with_name("costs.csv"), index_col="method")
    paper["times"] = paper["seconds"] / paper["seconds"][LINEAR]
    least = frame.loc[frame["method"] == LINEAR, "cost"]
    frame["times"] = frame["cost"] / (least.iloc[0] if len(least) else float("nan"))

    def number_of(name: str, form: str, row: pd.Series) -> str:
        number = paper[name].get(row["method"], float("nan"))
        return form.format(number) if number == number else "-"

    columns = (
        Column("network", lambda row: words.narrow(row["model"], 22)),
        Column("seconds per\n1,000 images", "{cost:,.4g}"),
        Column("times", lambda row: f"{row['times']:,.0f}".replace("nan", "-")),
        Column("parameters", "{parameters:,.0f}"),
        Column("paper:\nseconds", partial(number_of, "seconds", "{:.1f}")),
        Column("times", partial(number_of, "times", "{:.1f}")),
        Column("parameters", partial(number_of, "parameters", "{:,.0f}")),
    )
    return Table(heading=f": fair training, eta {ETA:g}", frame=frame, columns=columns)


STUDY = Study(
    title="Table 4: the cost of an epoch",
    cells=cells,
    table=cost_table,
    legend=lambda gap: LEGEND,
    datasets=(),
    elsewhere=FACES,
)
