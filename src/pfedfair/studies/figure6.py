"""Figure 6: the clients' shares of S, drawn from the Dirichlet mixture."""

from __future__ import annotations

import pandas as pd

from pfedfair.studies import many_clients, summary, words
from pfedfair.studies.rows import CONSTANT
from pfedfair.studies.study import Cell, Study
from pfedfair.studies.view import Column, Picture, Table

SHARE = "share S=1: the part of a client's people who are of group 1."


def cells(dataset: str) -> list[Cell]:
    """The constant classifier is enough: the figure shows the partition."""
    return [Cell(many_clients.plan("table3", n), CONSTANT, {}) for n in many_clients.CLIENTS]


def share_table(part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    """How the clients' shares of S = 1 are spread, by role, at the first seed."""
    first = part[part["seed"] == part["seed"].min()]
    spread = first.groupby("role")["share_s1"].agg(["count", "mean", "min", "max"]).reset_index()
    columns = [
        Column("role", lambda row: row["role"]),
        Column("clients", lambda r: f"{r['count']}"),
    ]
    columns += [
        Column(heading, lambda row, name=name: f"{row[name]:.3f}")  # type: ignore[misc]
        for heading, name in (("mean share S=1", "mean"), ("smallest", "min"), ("largest", "max"))
    ]
    return Table(heading=words.heading(part), frame=spread, columns=tuple(columns))


def pictures(results: pd.DataFrame, rows: pd.DataFrame) -> list[Picture]:
    first, bars = results[results["seed"] == results["seed"].min()], []
    for part in summary.parts(first):
        panel, places = f"{len(part)} clients", range(1, len(part) + 1)
        bars.append(pd.DataFrame({"panel": panel, "x": places, "share_s1": part["share_s1"]}))
    frames, said = {"shares": pd.concat(bars)}, {"x": "client", "y": "share of S"}
    return [Picture(name="figure6", kind="shares", frames=frames, words=said)]


STUDY = Study(
    title="Figure 6: shares of S, drawn from the Dirichlet mixture",
    cells=cells,
    table=share_table,
    pictures=pictures,
    legend=lambda gap: (SHARE, words.WHO[0]),
    datasets=("adult",),
)
