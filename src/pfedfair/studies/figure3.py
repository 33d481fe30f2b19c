"""Figure 3: rates of negative predictions in the two groups, over eta."""

from __future__ import annotations

import pandas as pd

from pfedfair.experiment import RUN
from pfedfair.studies import curves, parts, summary, words
from pfedfair.studies.study import Study
from pfedfair.studies.view import Picture, Table

METHODS = ("constant", "fedavg-kde", "pfedfair")
RATES = ("npr_s0", "npr_s1")
NPR = "NPR S=0, NPR S=1: the rate of negative predictions in a group, P(Yhat=0 | S)."


def rate_table(part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    """Methods and eta against the rates of both groups, by kind of client."""
    there = set(part["role"])
    shown = [(role, rate) for role in summary.ROLES if role in there for rate in RATES]
    measures = [f"{role}_{rate}" for role, rate in shown]
    columns = [
        parts.measured(f"{words.SHORT_ROLE[role]}\nNPR S={rate[-1]}", name, words.rate)
        for (role, rate), name in zip(shown, measures, strict=True)
    ]
    return Table(
        heading=words.heading(part),
        frame=summary.over_seeds(summary.over_clients(part), RUN, measures),
        columns=(*parts.method_columns(), *columns),
        keys=2,
    )


def pictures(results: pd.DataFrame, rows: pd.DataFrame) -> list[Picture]:
    drawn = curves.panels(results)
    rates = drawn.groupby(["panel", "role", "eta"], sort=False)[list(RATES)].mean().reset_index()
    frames = {"rates": rates.sort_values("eta", kind="stable")}
    said = {"x": "eta", "y": "negative prediction rate"}
    across = drawn["method"].nunique()
    return [Picture(name="figure3", kind="rates", frames=frames, words=said, across=across)]


STUDY = Study(
    title="Figure 3: negative prediction rates over eta",
    cells=lambda dataset: curves.cells(METHODS),
    table=rate_table,
    pictures=pictures,
    legend=lambda gap: (NPR, words.WHO[0], words.SURE),
)
