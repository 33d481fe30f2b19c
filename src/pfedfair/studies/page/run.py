"""The page of one run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError
from pfedfair.experiments import FRONTIER, FRONTIER_LIMITS
from pfedfair.runs import Run
from pfedfair.studies import headline, one_run, words
from pfedfair.studies.judgement import Judgement
from pfedfair.studies.page import about, messages, shapes, site, slider
from pfedfair.studies.page.document import Page, column, counts, more_of, table_of
from pfedfair.studies.rows import CONSTANT, place
from pfedfair.studies.view import View

Advance = Callable[[float, str], None]


def of_run(
    run: Run,
    judged: Judgement,
    view: View,
    folder: Path | None = None,
    advance: Advance = lambda done, note: None,
) -> Page:
    """Return the page of a run.

    Parameters
    ----------
    folder
        The run's folder: it stores other targets, and its files are listed with their hashes.
    advance
        Called with the share of the work done, from 0 to 1.
    """
    results, rules, claim = judged.results, judged.rules, judged.claim
    protocol, first = str(results["protocol"].iloc[0]), results.iloc[0]
    gap, target, data = claim.gap, claim.target, run.federation.data
    level = headline.level_of(claim, rules)
    targets = slider.load_or_compute(run, protocol, level, folder, advance)
    arm = _arm(judged)
    part = {
        "name": f"{first['dataset']}, {len(results):,} clients",
        "sites": {
            "name": results["client"].astype(str).to_list(),
            "role": results["role"].to_list() if "role" in results else None,
            "n_train": counts(results["n_train"]),
            "n_test": counts(results["n_test"]),
        },
        "arms": [arm],
        "chosen": 0,
        "tradeoff": _tradeoff(arm, targets, gap, _frontier(run, protocol, gap)),
        "tables": [table_of(table) for table in view.tables[1:]],
    }
    return Page(
        kind="run",
        title=f"{first['method']} on {first['dataset']}",
        sentence=judged.sentence,
        more=more_of(view),
        gap=gap,
        target=None if target != target else target,
        groups=data.group_names,
        labels=data.label_names,
        positive=data.label_names[-1],
        parts=[part],
        slider=None if targets is None else slider.slider(targets, judged, data.group_names),
        details=site.details(run, results, rules, gap),
        shapes=_shapes(run),
        sent=messages.of_run(run.algorithm, run.fitted.sent),
        warnings=[*view.cautions, *([("note", run.doubts)] if run.doubts else [])],
        about=[*about.of_card(run.card, protocol, run.network.words), *_files(folder)],
        hints={"local": site.NO_LOCAL},
    )


def results_of(run: Run, protocol: str | None = None) -> pd.DataFrame:
    """Return the columns of ``results.parquet`` that a page needs."""
    if not run.measurable and protocol is None:
        raise InputError("No rows are held out to measure this run on: there is nothing to report.")
    algorithm = run.algorithm
    return run.table(protocol).assign(
        dataset=run.federation.data.name,
        method=type(algorithm).__name__,
        model=run.network.words,
        seed=run.seed,
        level=algorithm.level,
        eta=float(algorithm.eta),
        target_ddp=float("nan") if algorithm.target is None else algorithm.target,
        config=json.dumps(algorithm.to_dict(), sort_keys=True),
        seconds=run.seconds,
    )


def _arm(judged: Judgement) -> dict[str, Any]:
    results, rules, gap = judged.results, judged.rules, judged.claim.gap
    first, number, target = results.iloc[0], f"{gap}_people", judged.claim.target
    level = one_run.level_of(first)
    found = {"method": first["method"], "level": level, "target": target}
    found["words"] = f"{first['method']}, {level}" if level else first["method"]
    for name in ("gap", "accuracy"):
        for end in ("", "_low", "_high"):
            found[f"{name}{end}"] = column(results[f"{name.replace('gap', gap)}{end}"])
    found["constant"] = column(rules["constant"]) if "constant" in rules else None
    found["rows"] = counts(results[number]) if number in results else None
    drawn = words.column(results, "randomised")
    found["randomised"] = column(drawn) if np.nan_to_num(drawn).any() else None
    found["verdict"] = judged.found if target == target else None
    found["why"] = judged.why
    return found


def _frontier(run: Run, protocol: str, gap: str) -> list[dict[str, Any]]:
    """Return the frontier of thresholds on the global model's scores, if it can be computed."""
    if gap != "ddp":
        return []
    try:
        found = run.frontier(FRONTIER_LIMITS, protocol)
    except InputError:  # more than two groups or labels, weights, or scores that are not stored
        return []
    points = []
    for limit, rows in found.groupby("target_ddp"):
        best = {"arm": None, "level": f"gap ≤ {limit:g}", "gap": float(rows["ddp"].max())}
        points.append(best | {"error": 1 - float(rows["accuracy"].min())})
    return points


def _tradeoff(
    arm: dict[str, Any], targets: pd.DataFrame | None, gap: str, best: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the run's point among other targets, the constant classifier, and the frontier."""
    gaps = [one for one in arm["gap"] if one is not None]
    worst: dict[str, Any] = {"arm": 0, "level": arm["level"], "gap": max(gaps, default=None)}
    points = [worst | {"error": 1 - min(arm["accuracy"])}]
    if targets is not None:
        points = []
        for target, rows in targets.groupby("target_ddp"):
            error = 1 - float(rows["accuracy"].min())
            number = 0 if target == arm["target"] else None
            point: dict[str, Any] = {"arm": number, "level": f"gap ≤ {target:g}"}
            points.append(point | {"gap": float(rows[gap].max()), "error": error})
    ends = dict.fromkeys(("gap_low", "gap_high", "error_low", "error_high"))
    k = place(arm["method"])
    curves = [{"method": arm["method"], "kind": "method", "colour": k % 7, "marker": k % 11,
               "points": [ends | point for point in points]}]  # fmt: skip
    if arm["constant"]:
        point = {"arm": None, "level": "", "gap": 0.0, "error": 1 - min(arm["constant"])}
        curves.append({"method": CONSTANT, "kind": "constant", "colour": 6, "marker": 0,
                       "points": [ends | point]})  # fmt: skip
    if best:
        curves.append({"method": FRONTIER, "kind": "frontier", "colour": 6, "marker": 0,
                       "points": [ends | point for point in best]})  # fmt: skip
    return {"who": "worst client", "x": gap.upper(), "y": "error %", "curves": curves}


def _shapes(run: Run) -> list[dict[str, Any]] | None:
    if not run.network.linear or run.federation.data.array is not None:
        return None
    try:
        return shapes.shapes(run.shapes())
    except InputError:
        return None


def _files(folder: Path | None) -> about.About:
    return [] if folder is None else about.hashes(folder)
