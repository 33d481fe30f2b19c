"""Figure 3: rates of negative predictions in the two groups, over eta."""

from __future__ import annotations

import pandas as pd

from pfedfair.experiment import RUN
from pfedfair.studies import curves, parts, summary, words
from pfedfair.studies.rows import Cell, Study
from pfedfair.studies.view import Column, Picture, Table, View

METHODS = ("constant", "fedavg-kde", "pfedfair")
RATES = ("npr_s0", "npr_s1")


def cells(dataset: str) -> list[Cell]:
    return curves.cells(METHODS)


def rate_table(part: pd.DataFrame) -> Table:
    """Methods and eta against the rates of both groups, by kind of client."""
    there = set(part["role"])
    shown = [(role, rate) for role in summary.ROLES if role in there for rate in RATES]
    measures = [f"{role}_{rate}" for role, rate in shown]
    columns: list[Column] = [
        parts.measured(f"{words.SHORT_ROLE[role]}\nNPR S={rate[-1]}", name, words.rate)
        for (role, rate), name in zip(shown, measures, strict=True)
    ]
    return Table(
        heading=words.heading(part),
        frame=summary.over_seeds(summary.over_clients(part), RUN, measures),
        columns=(*parts.method_columns(), *columns),
        keys=2,
    )


def view(results: pd.DataFrame) -> View:
    drawn = curves.panels(results)
    rates = drawn.groupby(["panel", "role", "eta"], sort=False)[list(RATES)].mean().reset_index()
    picture = Picture(
        name="figure3",
        kind="rates",
        frames={"rates": rates.sort_values("eta", kind="stable")},
        words={"x": "eta", "y": "negative prediction rate"},
        across=drawn["method"].nunique(),
    )
    legend = (
        "NPR S=0, NPR S=1: the rate of negative predictions in a group, P(Yhat=0 | S).",
        words.WHO[0],
        words.SURE,
    )
    tables = [rate_table(part) for part in summary.parts(results)]
    return parts.view(STUDY.title, results, tables, [picture], legend)


STUDY = Study(title="Figure 3: negative prediction rates over eta", cells=cells, view=view)
