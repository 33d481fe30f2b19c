"""Table 1: accuracy and DDP of every client, five clients, eta = 0.9, Adult and COMPAS."""

from __future__ import annotations

from functools import partial

import pandas as pd

from pfedfair.experiment import FRONTIER
from pfedfair.partition import fixed_shares
from pfedfair.studies import parts, summary, words
from pfedfair.studies.rows import one_level
from pfedfair.studies.study import Cell, Study
from pfedfair.studies.view import Column, Picture, Table

METHODS = (
    "constant", "erm-local", "fedavg", "pfedme", "kde-local", "fedavg-kde", "pfedme-kde",
    "ditto-kde", "pfedfair", "pfedfair-target", "transport", FRONTIER,
)  # fmt: skip
ETA = 0.9

# Accuracy in percent and DDP of clients 1 to 5, as printed in the paper.
PRINTED: dict[str, dict[str, list[tuple[float, float]]]] = {
    "adult": {
        "erm-local": [(84.5, 0.198), (87.0, 0.252), (86.9, 0.262), (86.5, 0.328), (87.0, 0.286)],
        "fedavg": [(85.1, 0.188), (87.1, 0.310), (87.1, 0.252), (87.6, 0.256), (87.1, 0.244)],
        "pfedme": [(85.5, 0.231), (87.4, 0.299), (87.0, 0.278), (87.9, 0.248), (87.7, 0.301)],
        "kde-local": [(81.9, 0.037), (85.2, 0.038), (85.0, 0.020), (85.7, 0.032), (85.5, 0.031)],
        "fedavg-kde": [(81.9, 0.104), (85.5, 0.073), (86.6, 0.058), (86.7, 0.063), (86.2, 0.060)],
        "pfedme-kde": [(81.4, 0.070), (84.1, 0.038), (85.0, 0.039), (85.1, 0.023), (85.0, 0.035)],
        "pfedfair": [(84.7, 0.031), (86.5, 0.035), (86.5, 0.012), (87.1, 0.014), (86.6, 0.030)],
    },
    "compas": {
        "erm-local": [(64.5, 0.251), (66.8, 0.251), (66.1, 0.275), (66.0, 0.340), (66.4, 0.278)],
        "fedavg": [(65.8, 0.291), (67.7, 0.301), (67.4, 0.308), (67.7, 0.275), (67.8, 0.301)],
        "pfedme": [(66.1, 0.311), (67.5, 0.279), (67.9, 0.282), (68.0, 0.293), (68.2, 0.307)],
        "kde-local": [(63.0, 0.045), (65.6, 0.089), (64.7, 0.088), (64.7, 0.075), (64.8, 0.076)],
        "fedavg-kde": [(63.8, 0.155), (66.4, 0.145), (65.6, 0.153), (65.5, 0.108), (66.1, 0.111)],
        "pfedme-kde": [(63.2, 0.088), (65.0, 0.077), (64.2, 0.090), (64.1, 0.084), (64.9, 0.082)],
        "pfedfair": [(65.4, 0.051), (67.2, 0.065), (66.8, 0.068), (66.9, 0.060), (67.1, 0.059)],
    },
}

# The paper's claims about this table: a method should be better than a rival in a measure.
CLAIMS = (
    ("pfedfair", "fedavg-kde", "underrepresented_accuracy"),
    ("kde-local", "fedavg-kde", "underrepresented_accuracy"),
    ("pfedfair", "kde-local", "mean_accuracy"),
    ("pfedfair", "pfedme-kde", "mean_accuracy"),
    ("pfedfair", "kde-local", "mean_ddp"),
    ("pfedfair", "fedavg-kde", "mean_ddp"),
)
NUMBERS = ["accuracy", "ddp", "accuracy_half", "ddp_half", "accuracy_paper", "ddp_paper"]


def cells(dataset: str) -> list[Cell]:
    return [Cell(fixed_shares(), row, one_level(row, ETA)) for row in METHODS]


def printed(dataset: str) -> pd.DataFrame:
    """The paper's figures, tidy: method, client, accuracy (a fraction) and ddp."""
    rows = [
        {"method": method, "client": str(i + 1), "accuracy": accuracy / 100, "ddp": ddp}
        for method, clients in PRINTED[dataset].items()
        for i, (accuracy, ddp) in enumerate(clients)
    ]
    return pd.DataFrame(rows)


def client_grid(part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    """Methods against clients: our figures, how sure they are, and the paper's."""
    paper = printed(part["dataset"].iloc[0])
    rows = summary.by_client(part[part["method"] != FRONTIER])
    rows = rows.merge(paper, on=["method", "client"], how="left", suffixes=("", "_paper"))
    clients = rows.drop_duplicates("client")
    wide = rows.pivot(index="method", columns="client", values=NUMBERS)
    wide = wide.loc[rows["method"].unique()]

    def cell(client: str, row: pd.Series) -> str:
        right, wrong, sure, surely, theirs, their_ddp = (row[name, client] for name in NUMBERS)
        lines = [
            f"{words.percent(right)} {words.rate(wrong)}",
            f"±{words.percent(sure)} ±{words.rate(surely)}" if sure == sure else "n/a",
            f"{words.percent(theirs)} {words.rate(their_ddp)}" if theirs == theirs else "-",
        ]
        return "\n".join(lines)

    columns = [
        Column(f"client {client}\n{words.SHORT_ROLE[role]}", partial(cell, client))
        for client, role in zip(clients["client"], clients["role"], strict=True)
    ]
    return Table(
        heading=f"{words.heading(part)}: accuracy % ↑ and DDP ↓",
        frame=wide,
        columns=(Column("", lambda row: f"{row.name}\n ± seeds\n paper"), *columns),
        bright=1,
        lines_heading=parts.CLAIMS,
        lines=parts.judged(part, CLAIMS),
    )


def pictures(results: pd.DataFrame, rows: pd.DataFrame) -> list[Picture]:
    """The trade-off, with the paper's means over each kind of client as marks."""
    marks = []
    for part in summary.parts(results):
        name, roles = part["dataset"].iloc[0], part.drop_duplicates("client")[["client", "role"]]
        mean = printed(name).merge(roles, on="client").groupby(["method", "role"], sort=False)
        rates = mean[["accuracy", "ddp"]].mean().reset_index()
        marks.append(rates.assign(dataset=name, x=rates["ddp"], y=100 * (1 - rates["accuracy"])))
    return [parts.trade_off("tradeoff", results, rows, marks=pd.concat(marks))]


STUDY = Study(
    title=f"Table 1: every client, eta = {ETA}", cells=cells, table=client_grid, pictures=pictures
)
