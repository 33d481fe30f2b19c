"""Figure 5: every client of every method, in one picture."""

from functools import partial

import pandas as pd

from pfedfair.partition import fixed_shares
from pfedfair.studies import parts
from pfedfair.studies.curves import by_method
from pfedfair.studies.rows import CONSTANT
from pfedfair.studies.study import Study, cells_of
from pfedfair.studies.view import Picture

EVERY = (
    CONSTANT, "fedavg-kde", "pfedme-kde", "fa", "mmpf", "fcfl", "pfedfair", "pfedfair-target",
    "transport",
)  # fmt: skip


def client_picture(results: pd.DataFrame, rows: pd.DataFrame) -> list[Picture]:
    dots = results[["dataset", "method", "role"]].assign(x=results["ddp"])
    dots["y"] = 100 * results["accuracy"]
    return [by_method("figure5", "clients", dots, "DDP ↓", "accuracy % ↑")]


STUDY = Study(
    title="Figure 5: every client of every method",
    cells=lambda dataset: cells_of(EVERY, fixed_shares()),
    table=partial(parts.summary_table, what="figure5"),
    pictures=client_picture,
)
