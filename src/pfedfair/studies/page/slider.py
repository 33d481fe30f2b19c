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
from pfedfair.studies import verdicts
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


def compute(run: Run, protocol: str | None, advance: Advance) -> pd.DataFrame | None:
    """Return a row for each target and site; None where the method would have to train again."""
    targets = targets_of(run, protocol)
    gap = CRITERIA[run.algorithm.criterion].measure
    measures = [f"{name}{end}" for name in ("accuracy", gap) for end in ("", "_low", "_high")]
    columns = ["client", *measures, f"{gap}_people", "one_decision"]
    frames = []
    try:
        for k, (target, other) in enumerate(zip(targets, run.sweep(targets), strict=True)):
            measured = other.measured(protocol)
            table = measured[[*columns, *({f"{gap}_apart"} & {*measured})]]
            rules = pd.DataFrame([rule.table() for rule in other.fitted.rules], index=table.index)
            frames.append(pd.concat([table, rules], axis=1).assign(target_ddp=target))
            advance((k + 1) / len(targets), f"{k + 1}/{len(targets)} targets")
    except InputError:  # it needs rows that are not stored, or has no other target
        return None
    return pd.concat(frames, ignore_index=True) if frames else None


def load_or_compute(
    run: Run, protocol: str | None, folder: Path | None, advance: Advance
) -> pd.DataFrame | None:
    """Return the targets cached in a folder, or compute and cache them."""
    path = None if folder is None else folder / NAME
    if path is not None and path.exists():
        cached = read_parquet(path)
        names = list(run.federation.partition.names)
        complete = "target_ddp" in cached and "client" in cached
        if complete and list(dict.fromkeys(cached["client"].astype(str))) == names:
            return cached
    computed = compute(run, protocol, advance)
    if computed is not None and path is not None:
        write_parquet(path, computed)
    return computed


def slider(frame: pd.DataFrame, own: float, gap: str, groups: int) -> dict[str, Any]:
    """Return the slider's part of the document: arrays by target and site."""
    targets = sorted(frame["target_ddp"].unique())
    parts = [frame[frame["target_ddp"] == target] for target in targets]
    found: dict[str, Any] = {"targets": column(targets)}
    found["start"] = int(np.abs(np.array(targets) - own).argmin())
    for name in ("accuracy", "gap", "gap_low", "gap_high"):
        source = name.replace("gap", gap)
        found[name] = [column(part[source]) for part in parts]
    judged = [[*verdicts.verdicts(p, t, gap)] for p, t in zip(parts, targets, strict=True)]
    found["verdict"] = judged
    found["within"] = [one.count(verdicts.WITHIN) for one in judged]
    found["mean_accuracy"] = column([part["accuracy"].mean() for part in parts])
    found["worst_accuracy"] = column([part["accuracy"].min() for part in parts])
    found["sentence"] = [_sentence(p, v, t, gap)
                         for p, v, t in zip(parts, judged, targets, strict=True)]  # fmt: skip
    found["thresholds"] = None
    if f"low_s{groups - 1}" in frame and len(parts[0]) <= THRESHOLDS:
        found["thresholds"] = [_thresholds(part, groups) for part in parts]
    return found


def _sentence(part: pd.DataFrame, found: Sequence[str], target: float, gap: str) -> str:
    names = part["client"].astype(str).to_list()
    why = verdicts.reasons(part, found, target, gap)
    return (
        f"{verdicts.sentence(names, found, why, target, gap)} {verdicts.apart(part, gap)}".rstrip()
    )


def _thresholds(part: pd.DataFrame, groups: int) -> list[Any]:
    columns = [[column(part[f"{name}_s{z}"]) for name in PARTS] for z in range(groups)]
    return [[dict(zip(PARTS, (values[i] for values in of_group), strict=True))
             for of_group in columns] for i in range(len(part))]  # fmt: skip
