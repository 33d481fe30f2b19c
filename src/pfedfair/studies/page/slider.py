"""Every site's numbers for other targets, computed in advance.

They are cached next to the page as ``targets.parquet``.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError
from pfedfair._util.files import read_parquet, write_parquet
from pfedfair.metrics.criteria import CRITERIA
from pfedfair.rules.thresholds import PARTS
from pfedfair.runs import Run, measured_rows
from pfedfair.studies import headline, verdicts
from pfedfair.studies.judgement import Judgement
from pfedfair.studies.page.document import column

NAME = "targets.parquet"
LARGEST = 0.3
MOST, LEAST = 25, 5  # targets
BUDGET = 10.0  # seconds that they may take, about
LONGEST = 300.0  # seconds, beyond which there is no slider
PER_CLIENT, PER_ROW = 2e-3, 2.5e-7  # seconds, measured on one core
PER_WEIGHT = 2e-10  # seconds to score a row, for each parameter of the network
THRESHOLDS = 400  # sites, at most, whose thresholds are shown at every target
Advance = Callable[[float, str], None]


def targets_of(run: Run, protocol: str | None = None) -> list[float]:
    """Return the targets to compute, including the run's; fewer for many sites.

    Their number follows from the number of sites and rows, not from measured time: the same run
    has the same targets.
    """
    own = run.algorithm.target
    if own is None or run.certificate or not run.algorithm.dial.retargets:
        return []
    _, rows, _ = measured_rows(run.federation.partition, protocol)
    scored = 0.0 if run.logits is not None else PER_WEIGHT * run.network.size
    program = 1.0 if run.federation.table.task.binary else 50.0  # a linear program
    relative = run.algorithm.cost().per_rule * program
    each = relative * PER_CLIENT * len(rows) + (PER_ROW + scored) * sum(map(len, rows))
    if LEAST * each > LONGEST:
        return []
    number = int(np.clip(BUDGET / each, LEAST, MOST))
    # Users set small targets: steps grow towards the end.
    grid = LARGEST * np.linspace(0, 1, number) ** 1.5
    near = int(np.abs(grid - own).argmin())
    grid[near] = own if own <= LARGEST else grid[near]
    targets = {round(float(t), 3) for k, t in enumerate(grid) if k != near} | {float(own)}
    return sorted(targets)


def compute(run: Run, protocol: str | None, level: float, advance: Advance) -> pd.DataFrame | None:
    """Return a row for each target and site, with intervals of this confidence level.

    None where the method would have to train again.
    """
    targets = targets_of(run, protocol)
    gap = CRITERIA[run.algorithm.criterion].measure
    measures = [f"{name}{end}" for name in ("accuracy", gap) for end in ("", "_low", "_high")]
    columns = ["client", *measures, f"{gap}_people", "one_decision", "n_test"]
    facts = ["too_small", "enough_rows", "enough_target", "enough_confidence"]
    frames = []
    try:
        for k, (target, other) in enumerate(zip(targets, run.sweep(targets), strict=True)):
            measured = other.measured(protocol, level)
            table = measured[[*columns, *({f"{gap}_apart", "randomised"} & {*measured})]]
            rules = pd.DataFrame([
                {**rule.table(), **{key: rule.facts[key] for key in facts if key in rule.facts}}
                for rule in other.fitted.rules
            ], index=table.index)  # fmt: skip
            frames.append(pd.concat([table, rules], axis=1).assign(target_ddp=target))
            advance((k + 1) / len(targets), f"{k + 1}/{len(targets)} targets")
    except InputError:  # it needs rows that are not stored, or has no other target
        return None
    return pd.concat(frames, ignore_index=True) if frames else None


def load_or_compute(
    run: Run, protocol: str | None, level: float, folder: Path | None, advance: Advance
) -> pd.DataFrame | None:
    """Return the targets cached in a folder, or compute and cache them."""
    path = None if folder is None else folder / NAME
    if path is not None and path.exists():
        cached = read_parquet(path)
        names = list(run.federation.partition.names)
        complete = "target_ddp" in cached and "client" in cached
        if complete and list(dict.fromkeys(cached["client"].astype(str))) == names:
            return cached
    computed = compute(run, protocol, level, advance)
    if computed is not None and path is not None:
        write_parquet(path, computed)
    return computed


def slider(frame: pd.DataFrame, judged: Judgement, groups: Sequence[str]) -> dict[str, Any]:
    """Return the slider's part of the document: arrays by target and site."""
    targets, gap = sorted(frame["target_ddp"].unique()), judged.claim.gap
    parts = [frame[frame["target_ddp"] == target] for target in targets]
    found: dict[str, Any] = {"targets": column(targets)}
    found["start"] = int(np.abs(np.array(targets) - judged.claim.target).argmin())
    for name in ("accuracy", "gap", "gap_low", "gap_high"):
        source = name.replace("gap", gap)
        found[name] = [column(part[source]) for part in parts]
    if "randomised" in frame:
        found["randomised"] = [column(part["randomised"]) for part in parts]
    verdict = [[*verdicts.verdicts(p, t, gap)] for p, t in zip(parts, targets, strict=True)]
    found["verdict"] = verdict
    found["within"] = [one.count(verdicts.WITHIN) for one in verdict]
    found["mean_accuracy"] = column([part["accuracy"].mean() for part in parts])
    found["worst_accuracy"] = column([part["accuracy"].min() for part in parts])
    where = headline.place(judged.results)
    found["sentence"] = [
        headline.sentence(part, part, judged.claim._replace(target=float(target)), one, where)
        for part, one, target in zip(parts, verdict, targets, strict=True)
    ]
    found["thresholds"] = None
    if f"low_s{len(groups) - 1}" in frame and len(parts[0]) <= THRESHOLDS:
        found["thresholds"] = [_thresholds(part, len(groups)) for part in parts]
    return found


def _thresholds(part: pd.DataFrame, groups: int) -> list[Any]:
    columns = [[column(part[f"{name}_s{z}"]) for name in PARTS] for z in range(groups)]
    return [[dict(zip(PARTS, (values[i] for values in of_group), strict=True))
             for of_group in columns] for i in range(len(part))]  # fmt: skip
