"""Figure 4: training in one place, the worst client's trade-off over eta, pFedFair's lambda."""

from dataclasses import replace

import pandas as pd

from pfedfair.data import FACES
from pfedfair.methods.defaults import make
from pfedfair.partition import fixed_shares
from pfedfair.studies import central, parts, summary, words
from pfedfair.studies.curves import over_eta
from pfedfair.studies.rows import ETA
from pfedfair.studies.study import Cell, Study
from pfedfair.studies.view import Picture, Table

LAMBDAS = (0.0, 0.2, 0.4, 0.8)


def with_lambdas(dataset: str) -> list[Cell]:
    """Return methods over eta, and pFedFair with other values of lambda at the largest eta."""
    tuned = make("pfedfair", data=dataset).to_dict()["lam"]
    varied = [{"eta": ETA, "lam": lam} for lam in LAMBDAS if lam != tuned]
    clients = over_eta(dataset) + [Cell(fixed_shares(), "pfedfair", level) for level in varied]
    return clients + central.cells(dataset)


def usual(results: pd.DataFrame) -> pd.DataFrame:
    """Return the runs with the lambda of the runs at lower eta, without those that vary it."""
    known = set(results.loc[results["eta"] < results["eta"].max(), "lam"].dropna())
    return results[results["lam"].isna() | results["lam"].isin(known)]


def lambda_table(part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    """Return methods against kinds of client, with lambda; or centralised training."""
    if central.is_central(part).all():
        return central.table(part, rows, "figure4a")
    rows = summary.with_settings(rows, "lam")
    labels = [words.narrow(name) for name in rows["method"]]
    lams = ["" if lam != lam else f"\n lam {lam:g}" for lam in rows["lam"]]
    rows["label"] = [label + lam for label, lam in zip(labels, lams, strict=True)]
    judged = parts.judged(usual(part), parts.claims("figure4"))
    return replace(parts.summary_table(part, rows), lines_heading=parts.CLAIMS, lines=judged)


def lambda_pictures(results: pd.DataFrame, rows: pd.DataFrame) -> list[Picture]:
    """Return pictures of centralised training, the worst client's trade-off, and lambda's effect.

    Lambda's effect is on the worst client's error and DDP.
    """
    centralised, first_rows = results[central.is_central(results)], rows[central.is_central(rows)]
    first = (
        [parts.trade_off("figure4a", centralised, first_rows, ("mean",))]
        if len(centralised)
        else []
    )
    results, rows = results.drop(centralised.index), rows.drop(first_rows.index)
    if not len(results):
        return first
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
    return [*first, parts.trade_off("figure4b", chosen, at_usual, ("worst",)), effect]


STUDY = Study(
    title="Figure 4: trade-offs in one place and of the worst client, effect of lambda",
    cells=with_lambdas,
    table=lambda_table,
    pictures=lambda_pictures,
    elsewhere=FACES,
)
