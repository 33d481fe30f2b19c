"""Figure 6: the shares of S that the Dirichlet mixture draws for 20 and 50 clients."""

import pandas as pd

from pfedfair.partition import dirichlet_mixture
from pfedfair.studies import summary, words
from pfedfair.studies.many_clients import CLIENTS
from pfedfair.studies.rows import CONSTANT
from pfedfair.studies.study import Cell, Study
from pfedfair.studies.view import Column, Picture, Table

SHARE = "share S=1: the part of a client's rows that are of group 1."


def share_table(part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    """Return the distribution of the clients' shares of S = 1, by role, at the first seed."""
    first = part[part["seed"] == part["seed"].min()]
    spread = first.groupby("role")["share_s1"].agg(["count", "mean", "min", "max"]).reset_index()
    columns = (
        Column("role", "{role}"),
        Column("clients", "{count}"),
        Column("mean share S=1", "{mean:.3f}"),
        Column("smallest", "{min:.3f}"),
        Column("largest", "{max:.3f}"),
    )
    return Table(frame=spread, columns=columns)


def share_pictures(results: pd.DataFrame, rows: pd.DataFrame) -> list[Picture]:
    first, bars = results[results["seed"] == results["seed"].min()], []
    for part in summary.parts(first):
        panel, positions = f"{len(part)} clients", range(1, len(part) + 1)
        bars.append(pd.DataFrame({"panel": panel, "x": positions, "share_s1": part["share_s1"]}))
    frames, labels = {"shares": pd.concat(bars)}, {"x": "client", "y": "share of S"}
    return [Picture(name="figure6", kind="shares", frames=frames, words=labels)]


STUDY = Study(  # of a partition: with the constant classifier, which does not train
    title="Figure 6: shares of S, drawn from the Dirichlet mixture",
    cells=lambda dataset: [Cell(dirichlet_mixture(n), CONSTANT, {}) for n in CLIENTS],
    table=share_table,
    pictures=share_pictures,
    legend=lambda gap: (SHARE, words.ROLES),
    datasets=("adult",),
    most_seeds=1,
)
