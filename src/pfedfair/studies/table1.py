"""Table 1: accuracy and DDP of every client, five clients, eta = 0.9, Adult and COMPAS."""

from functools import partial

import pandas as pd

from pfedfair.experiments import FRONTIER
from pfedfair.partition import fixed_shares
from pfedfair.studies import parts, summary, words
from pfedfair.studies.rows import ETA
from pfedfair.studies.study import Study, cells_of
from pfedfair.studies.view import Column, Picture, Table

METHODS = (
    "constant", "erm-local", "fedavg", "pfedme", "kde-local", "fedavg-kde", "pfedme-kde",
    "ditto-kde", "pfedfair", "pfedfair-target", "transport", FRONTIER,
)  # fmt: skip
CLAIMS = parts.claims("table1")


def client_grid(part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    """Return methods against clients: our numbers, their half-widths, and the paper's."""
    paper = parts.printed("table1", part["dataset"].iloc[0])
    each = summary.by_client(part[part["method"] != FRONTIER])
    measured, clients = each.set_index(["method", "client"]), each.drop_duplicates("client")

    def cell(client: str, row: pd.Series) -> str:
        key = row["method"], client
        one, half = measured.loc[key], "n/a"
        if one["accuracy_half"] == one["accuracy_half"]:
            half = f"±{words.percent(one['accuracy_half'])} ±{words.rate(one['ddp_half'])}"
        return "\n".join(
            [words.both(one), half, words.both(paper.loc[key]) if key in paper.index else "-"]
        )

    columns = [
        Column(f"client {client}\n{words.SHORT_ROLE[role]}", partial(cell, client))
        for client, role in zip(clients["client"], clients["role"], strict=True)
    ]
    return Table(
        heading=": accuracy % ↑ and DDP ↓",
        frame=each.drop_duplicates("method"),
        columns=(Column("", "{method}\n ± seeds\n paper"), *columns),
        bright=1,
        lines_heading=parts.CLAIMS,
        lines=parts.judged(part, CLAIMS),
    )


def pictures(results: pd.DataFrame, rows: pd.DataFrame) -> list[Picture]:
    """Return the trade-off, with the paper's means by role of clients as marks."""
    marks = []
    for name, part in results.groupby("dataset", sort=False):
        roles = part.drop_duplicates("client").set_index("client")["role"]
        paper = parts.printed("table1", str(name)).reset_index()
        paper = paper.assign(role=paper["who"].map(roles)).dropna(subset="role")
        rates = paper.groupby(["method", "role"], sort=False)[["accuracy", "ddp"]].mean()
        rates = rates.reset_index().assign(dataset=name, x=rates["ddp"].to_numpy())
        marks.append(rates.assign(y=100 * (1 - rates["accuracy"])))
    return [parts.trade_off("tradeoff", results, rows, marks=pd.concat(marks))]


STUDY = Study(
    title=f"Table 1: every client, eta = {ETA}",
    cells=lambda dataset: cells_of(METHODS, fixed_shares()),
    table=client_grid,
    pictures=pictures,
)
