"""Figure 3: rates of negative predictions in the two groups, over eta."""

import pandas as pd

from pfedfair.data import FACES
from pfedfair.experiments import RUN
from pfedfair.partition import fixed_shares
from pfedfair.studies import parts, summary, words
from pfedfair.studies.curves import ETAS, by_method
from pfedfair.studies.rows import CONSTANT
from pfedfair.studies.study import Study, cells_of
from pfedfair.studies.view import Picture, Table

RATES = ("npr_s0", "npr_s1")
NPR = "NPR S=0, NPR S=1: the rate of negative predictions in a group, P(Yhat=0 | S)."


def rate_table(part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    """Return methods and eta against the rates of both groups, by role of client."""
    present = set(part["role"])
    shown = [(role, rate) for role in summary.ROLES if role in present for rate in RATES]
    columns = [
        parts.measured(f"{words.SHORT_ROLE[role]}\nNPR S={rate[-1]}", f"{role}_{rate}")
        for role, rate in shown
    ]
    runs, measures = summary.over_clients(part), [f"{role}_{rate}" for role, rate in shown]
    frame = summary.over_seeds(runs, RUN, measures)
    return Table(frame=frame, columns=(*parts.METHOD_AND_LEVEL, *columns), keys=2)


def rate_picture(results: pd.DataFrame, rows: pd.DataFrame) -> list[Picture]:
    mean = results.groupby(["dataset", "method", "role", "eta"], sort=False)[list(RATES)].mean()
    rates = mean.reset_index().sort_values("eta", kind="stable")
    return [by_method("figure3", "rates", rates, "eta", "negative prediction rate")]


STUDY = Study(
    title="Figure 3: negative prediction rates over eta",
    cells=lambda dataset: cells_of((CONSTANT, "fedavg-kde", "pfedfair"), fixed_shares(), etas=ETAS),
    table=rate_table,
    pictures=rate_picture,
    legend=lambda gap: (NPR, words.ROLES, words.HALF_WIDTH),
    elsewhere=FACES,
)
