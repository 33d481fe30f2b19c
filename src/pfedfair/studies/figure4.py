"""Figure 4: the worst client's trade-off over eta, and the effect of pFedFair's lambda."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pandas as pd

from pfedfair.defaults import make
from pfedfair.partition import fixed_shares
from pfedfair.studies import curves, parts, summary, words
from pfedfair.studies.rows import Cell, Study
from pfedfair.studies.view import Picture, View

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


def view(results: pd.DataFrame) -> View:
    rows = summary.summary(results)
    rows["lam"] = [json.loads(config).get("lam") for config in rows["config"]]

    def label(row: pd.Series) -> str:
        return words.narrow(row["method"]) + (f"\n lam {row['lam']:g}" if row["lam"] >= 0 else "")

    at_usual = usual(results)
    tables = []
    for part in summary.parts(results):
        claims = parts.judged(usual(part), CLAIMS)
        table = parts.summary_table(part, parts.rows_of(rows, part), label=label)
        tables.append(replace(table, lines_heading=parts.CLAIMS, lines=claims))
    chosen = rows[rows["config"].isin(at_usual["config"])]
    fair = rows[(rows["method"] == "pfedfair") & (rows["eta"] == rows["eta"].max())]
    effect = fair.sort_values("lam")[
        ["dataset", "lam", "worst_accuracy", "worst_accuracy_half", "worst_ddp", "worst_ddp_half"]
    ]
    effect["panel"] = effect.pop("dataset")
    effect["error"] = 100 * (1 - effect["worst_accuracy"])
    effect["error_half"] = 100 * effect["worst_accuracy_half"].fillna(0)
    pictures = [
        parts.trade_off("figure4b", at_usual, chosen, ("worst",)),
        Picture(
            name="figure4c",
            kind="two scales",
            frames={"points": effect.fillna(0)},
            words={
                "x": "lambda",
                "y": "worst client's error % (red)",
                "other": "worst client's DDP (blue)",
            },
        ),
    ]
    return parts.view(STUDY.title, results, tables, pictures, rows=rows.drop(columns="lam"))


STUDY = Study(
    title="Figure 4: worst client's trade-off over eta, and the effect of lambda",
    cells=cells,
    view=view,
)
