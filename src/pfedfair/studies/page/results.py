"""The page of a comparison or a study: every arm of every part, and all trade-offs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pfedfair._util.errors import InputError
from pfedfair.experiments import FRONTIER
from pfedfair.methods import from_dict
from pfedfair.studies import arms as arms_of
from pfedfair.studies import summary, words
from pfedfair.studies.arms import Arm
from pfedfair.studies.page import about
from pfedfair.studies.page.document import Page, column, counts, more_of, table_of
from pfedfair.studies.rows import CONSTANT, place
from pfedfair.studies.view import Table, View

NO_LOCAL = (
    "To see what a site gains over local training, also compare a method that trains locally, such "
    "as erm-local or kde-local."
)


def of_results(
    results: pd.DataFrame,
    view: View,
    kind: str,
    folder: Path | None = None,
    command: str = "",
) -> Page:
    """Return the page of all runs in a folder; `kind` is "comparison" or "study"."""
    held, gap = summary.held_out(results), summary.gap_of(results)
    rows = summary.summary(held)
    number = sum(1 for _ in summary.parts(held))
    tables, parts, arms = list(view.tables), [], []
    for k, part in enumerate(summary.parts(held)):
        arms.append(arms_of.arms(part))
        part_tables = tables[k::number]  # one of each kind for each part
        parts.append(_part(part, arms[-1], summary.rows_of(rows, part), gap, part_tables))
    first = arms[0]
    best = first[parts[0]["chosen"]] if first else None
    local = _local(first, gap)
    return Page(
        kind=kind,
        title=view.title if kind == "study" else f"{view.title} on {held['dataset'].iloc[0]}",
        sentence=view.sentence or f"{view.title}.",
        more=more_of(view),
        gap=gap,
        target=None if best is None else best.target,
        groups=_groups(held),
        parts=parts,
        details=local,
        warnings=list(view.cautions),
        about=[*about.of_results(results, command), *([] if folder is None else
               about.hashes(folder))],
        hints=None if local else {"local": NO_LOCAL},
    )  # fmt: skip


def _groups(held: pd.DataFrame) -> list[str]:
    return [f"S={name.removeprefix('npr_s')}" for name in map(str, held)
            if name.startswith("npr_s") and name.removeprefix("npr_s").isdigit()]  # fmt: skip


def _part(
    part: pd.DataFrame, arms: Sequence[Arm], rows: pd.DataFrame, gap: str, tables: Sequence[Table]
) -> dict[str, Any]:
    sites = list(dict.fromkeys(part["client"]))
    about_sites = part.drop_duplicates("client").set_index("client").loc[sites]
    constant_arm = next((arm for arm in arms if arm.method == CONSTANT), None)
    constant = None if constant_arm is None else column(constant_arm.frame["accuracy"])
    return {
        "name": words.heading(part),
        "sites": {
            "name": [str(name) for name in sites],
            "role": about_sites["role"].to_list() if "role" in about_sites else None,
            "n_train": _counts(about_sites, "n_train"),
            "n_test": _counts(about_sites, "n_test"),
        },
        "arms": [_arm(arm, gap, constant) for arm in arms],
        "chosen": arms_of.chosen(arms, gap),
        "tradeoff": _tradeoff(arms, rows, gap),
        "tables": [table_of(one) for one in tables if not one.detail],
    }


def _counts(frame: pd.DataFrame, name: str) -> list[int | None] | None:
    return counts(frame[name]) if name in frame else None


def _arm(arm: Arm, gap: str, constant: list[float] | None) -> dict[str, Any]:
    found: dict[str, Any] = {"method": arm.method, "level": arm.level, "words": arm.words}
    found["target"] = arm.target
    for name in ("gap", "accuracy"):
        for end in ("", "_low", "_high"):
            source = f"{name.replace('gap', gap)}{end}"
            known = source in arm.frame
            found[f"{name}{end}"] = column(arm.frame[source]) if known else [None] * len(arm.frame)
    found["constant"] = constant
    found["rows"] = _counts(arm.frame, f"{gap}_people")
    return found | {"verdict": arm.verdicts(gap), "why": arm.reasons(gap)}


def _tradeoff(arms: Sequence[Arm], rows: pd.DataFrame, gap: str) -> dict[str, Any]:
    """Return the worst client's error against its gap: a curve over levels for each method."""
    numbers = {(arm.method, arm.config): k for k, arm in enumerate(arms)}
    curves = []
    for method, curve in rows.groupby("method", sort=False):
        curve = curve.sort_values("eta", kind="stable")
        kind = {CONSTANT: "constant", FRONTIER: "frontier"}.get(str(method), "method")
        points = []
        for _, row in curve.iterrows():
            x, y = row[f"worst_{gap}"], 1 - row["worst_accuracy"]
            x_half, y_half = row[f"worst_{gap}_half"], row["worst_accuracy_half"]
            arm = numbers.get((str(method), row["config"]))
            points.append({
                "arm": arm, "apart": arm is not None and arms[arm].apart,
                "level": words.level(row["level"]) if row["level"] else "",
                "gap": x, "gap_low": max(0.0, x - x_half), "gap_high": x + x_half,
                "error": y, "error_low": max(0.0, y - y_half), "error_high": min(1.0, y + y_half),
            })  # fmt: skip
            if x_half != x_half:  # one seed
                points[-1] |= dict.fromkeys(("gap_low", "gap_high", "error_low", "error_high"))
        k = place(str(method))
        curve_of = {"method": method, "kind": kind, "colour": k % 7, "marker": k % 11}
        curves.append(curve_of | {"points": points})
    return {"who": "worst client", "x": gap.upper(), "y": "error %", "curves": curves}


def _local(arms: Sequence[Arm], gap: str) -> list[dict[str, Any]] | None:
    """Return each site's accuracy and gap by local training, if a method trains locally.

    Of several levels the one with the least sum of error and gap at the worst client.
    """
    local = [arm for arm in arms if arm.method != CONSTANT and _trains_locally(arm)]
    if not local:
        return None
    best = local[arms_of.chosen(local, gap)]
    empty: dict[str, Any] = dict.fromkeys(("changed", "scores", "thresholds", "cost"))
    text = f"{best.words}: every client trains locally, nothing is sent"
    return [
        {"rates": [], **empty, "rule": [], "facts": [],
         "local": {"accuracy": row["accuracy"], "gap": row[gap], "words": text}}
        for _, row in best.frame.iterrows()
    ]  # fmt: skip


def _trains_locally(arm: Arm) -> bool:
    try:
        return from_dict(json.loads(arm.config)).place in ("local", "centralised")
    except (InputError, KeyError, TypeError, ValueError):  # of another version, or edited by hand
        return False
