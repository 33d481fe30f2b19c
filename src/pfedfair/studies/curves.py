"""Figures 3, 4, 5 and 7: methods on the paper's five clients, over eta or at one.

Figure 3: rates of negative predictions in the two groups, over eta. Figure 4: the worst client's
trade-off, and the effect of pFedFair's lambda. Figure 5: every client of every method, in one
picture. Figure 7: the mean client's trade-off.
"""

from dataclasses import asdict, replace
from functools import partial

import pandas as pd

from pfedfair.defaults import make
from pfedfair.experiment import FRONTIER, RUN
from pfedfair.partition import fixed_shares
from pfedfair.studies import parts, summary, words
from pfedfair.studies.rows import CONSTANT, ETA
from pfedfair.studies.study import Cell, Study, cells_of
from pfedfair.studies.view import Picture, Table

ETAS = (0.0, 0.3, 0.6, 0.9)
LAMBDAS = (0.0, 0.2, 0.4, 0.8)
METHODS = (
    CONSTANT, "kde-local", "fedavg-kde", "pfedme-kde", "pfedfair", "pfedfair-target", "transport",
    FRONTIER,
)  # fmt: skip
EVERY = (
    CONSTANT, "fedavg-kde", "pfedme-kde", "fa", "mmpf", "fcfl", "pfedfair", "pfedfair-target",
    "transport",
)  # fmt: skip
RATES = ("npr_s0", "npr_s1")
NPR = "NPR S=0, NPR S=1: the rate of negative predictions in a group, P(Yhat=0 | S)."


def over_eta(dataset: str) -> list[Cell]:
    return cells_of(METHODS, fixed_shares(), etas=ETAS)


def by_method(name: str, kind: str, frame: pd.DataFrame, x: str, y: str) -> Picture:
    """A picture with a panel for each data set and method; the constant classifier has none."""
    shown = frame[frame["method"] != CONSTANT]
    shown = shown.assign(panel=shown["dataset"] + ": " + shown["method"])
    across, said = shown["method"].nunique(), {"x": x, "y": y}
    return Picture(name=name, kind=kind, frames={kind: shown}, words=said, across=across)


def rate_table(part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    """Methods and eta against the rates of both groups, by kind of client."""
    there = set(part["role"])
    shown = [(role, rate) for role in summary.ROLES if role in there for rate in RATES]
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


def client_picture(results: pd.DataFrame, rows: pd.DataFrame) -> list[Picture]:
    dots = results[["dataset", "method", "role"]].assign(x=results["ddp"])
    dots["y"] = 100 * results["accuracy"]
    return [by_method("figure5", "clients", dots, "DDP ↓", "accuracy % ↑")]


def with_lambdas(dataset: str) -> list[Cell]:
    """Methods over eta, and pFedFair with other values of lambda at the largest."""
    tuned = asdict(make("pfedfair", data=dataset))["lam"]
    varied = [{"eta": ETA, "lam": lam} for lam in LAMBDAS if lam != tuned]
    return over_eta(dataset) + [Cell(fixed_shares(), "pfedfair", level) for level in varied]


def usual(results: pd.DataFrame) -> pd.DataFrame:
    """Leave out the runs that vary lambda: keep the value that the runs at lower eta have."""
    known = set(results.loc[results["eta"] < results["eta"].max(), "lam"].dropna())
    return results[results["lam"].isna() | results["lam"].isin(known)]


def lambda_table(part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    rows = summary.with_settings(rows, "lam")
    labels = [words.narrow(name) for name in rows["method"]]
    said = ["" if lam != lam else f"\n lam {lam:g}" for lam in rows["lam"]]
    rows["label"] = [label + more for label, more in zip(labels, said, strict=True)]
    judged = parts.judged(usual(part), parts.claims("figure4"))
    return replace(parts.summary_table(part, rows), lines_heading=parts.CLAIMS, lines=judged)


def lambda_pictures(results: pd.DataFrame, rows: pd.DataFrame) -> list[Picture]:
    """The worst client's trade-off; its error and DDP against lambda, at the largest eta."""
    chosen = usual(results)
    at_usual = rows[rows["config"].isin(chosen["config"])]
    fair = rows[(rows["method"] == "pfedfair") & (rows["eta"] == rows["eta"].max())]
    lines = [
        parts.curve(part, f"{name}: worst client's {what}", "lam", f"worst_{measure}")
        for name, part in summary.with_settings(fair, "lam")
        .sort_values("lam")
        .groupby("dataset", sort=False)
        for what, measure in (("error %", "accuracy"), ("DDP", "ddp"))
    ]
    effect = parts.curves_picture("figure4c", lines, {"x": "lambda", "y": ""})
    return [parts.trade_off("figure4b", chosen, at_usual, ("worst",)), effect]


FIGURE3 = Study(
    title="Figure 3: negative prediction rates over eta",
    cells=lambda dataset: cells_of((CONSTANT, "fedavg-kde", "pfedfair"), fixed_shares(), etas=ETAS),
    table=rate_table,
    pictures=rate_picture,
    legend=lambda gap: (NPR, words.WHO[0], words.SURE),
)
FIGURE4 = Study(
    title="Figure 4: worst client's trade-off over eta, and the effect of lambda",
    cells=with_lambdas,
    table=lambda_table,
    pictures=lambda_pictures,
)
FIGURE5 = Study(
    title="Figure 5: every client of every method",
    cells=lambda dataset: cells_of(EVERY, fixed_shares()),
    table=partial(parts.summary_table, what="figure5"),
    pictures=client_picture,
)
FIGURE7 = Study(
    title="Figure 7: mean trade-off over eta",
    cells=over_eta,
    table=partial(parts.summary_table, what="figure7"),
    pictures=lambda results, rows: [parts.trade_off("figure7", results, rows, ("mean",))],
)
