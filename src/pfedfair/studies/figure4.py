"""Figure 4: the worst client's trade-off over eta, and the effect of pFedFair's lambda."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pandas as pd

from pfedfair.defaults import make
from pfedfair.partition import fixed_shares
from pfedfair.studies import curves, parts, words
from pfedfair.studies.study import Cell, Study
from pfedfair.studies.view import Picture, Table

LAMBDAS = (0.0, 0.2, 0.4, 0.8)
ETA = 0.9
CLAIMS = (
    ("pfedfair", "kde-local", "worst_accuracy"),
    ("pfedfair", "fedavg-kde", "worst_accuracy"),
    ("pfedfair", "pfedme-kde", "worst_accuracy"),
    ("pfedfair", "kde-local", "worst_ddp"),
)


def cells(dataset: str) -> list[Cell]:
    """Methods over eta, and pFedFair with other values of lambda at the largest."""
    tuned = asdict(make("pfedfair", data=dataset))["lam"]
    varied = [{"eta": ETA, "lam": lam} for lam in LAMBDAS if lam != tuned]
    more = [Cell(fixed_shares(), "pfedfair", level) for level in varied]
    return curves.cells(curves.METHODS) + more


def usual(results: pd.DataFrame) -> pd.DataFrame:
    """Leave out the runs that vary lambda: keep the value that the runs at lower eta have."""
    known = set(results.loc[results["eta"] < results["eta"].max(), "lam"].dropna())
    return results[results["lam"].isna() | results["lam"].isin(known)]


def label(row: pd.Series) -> str:
    lam = json.loads(row["config"]).get("lam")
    return words.narrow(row["method"]) + ("" if lam is None else f"\n lam {lam:g}")


def table(part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    claims = parts.judged(usual(part), CLAIMS)
    return replace(
        parts.summary_table(part, rows, label=label), lines_heading=parts.CLAIMS, lines=claims
    )


def pictures(results: pd.DataFrame, rows: pd.DataFrame) -> list[Picture]:
    chosen = usual(results)
    at_usual = rows[rows["config"].isin(chosen["config"])]
    return [parts.trade_off("figure4b", chosen, at_usual, ("worst",)), effect_of_lambda(rows)]


def effect_of_lambda(rows: pd.DataFrame) -> Picture:
    """The worst client's error and DDP against lambda, at the largest eta."""
    fair = rows[(rows["method"] == "pfedfair") & (rows["eta"] == rows["eta"].max())]
    fair = fair.assign(lam=[json.loads(config)["lam"] for config in fair["config"]])
    lines = [
        parts.curve(part, f"{name}: worst client's {what}", "lam", f"worst_{measure}")
        for name, part in fair.sort_values("lam").groupby("dataset", sort=False)
        for what, measure in (("error %", "accuracy"), ("DDP", "ddp"))
    ]
    return parts.curves_picture("figure4c", lines, {"x": "lambda", "y": ""})


STUDY = Study(
    title="Figure 4: worst client's trade-off over eta, and the effect of lambda",
    cells=cells,
    table=table,
    pictures=pictures,
)
