"""One tidy file of results: a row per run and client, and the seconds apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from pfedfair.errors import InputError
from pfedfair.experiment.spec import Spec
from pfedfair.files import read_parquet, write_parquet
from pfedfair.metrics import RUN

COLUMNS = [
    "dataset", "method", "eta", "lam", "gamma", "target_ddp", "seed", "client", "role",
    "n_train", "n_test", "share_s1", "accuracy", "ddp", "eo", "eopp", "npr_s0", "npr_s1",
    "accuracy_low", "accuracy_high", "ddp_low", "ddp_high",
    "eo_low", "eo_high", "eopp_low", "eopp_high",
    "npr_s0_low", "npr_s0_high", "npr_s1_low", "npr_s1_high",
    "collapsed", "protocol", "partition", "config", "seconds",
]  # fmt: skip


def checkpoint(runs: Path, spec: Spec) -> Path:
    return runs / f"{spec.key}.parquet"


def collect(specs: Sequence[Spec], out: Path, runs: Path) -> pd.DataFrame:
    """Put finished runs together, in the order of the list."""
    parts = [read_parquet(checkpoint(runs, spec)) for spec in specs]
    results = pd.concat(parts, ignore_index=True)
    keys = [*RUN, "seed"]
    write_parquet(out / "timings.parquet", results[[*keys, "seconds"]].drop_duplicates(keys))
    write_parquet(out / "results.parquet", results.assign(seconds=float("nan")))
    return results


def read_results(folder: str | Path) -> pd.DataFrame:
    """Read ``results.parquet`` of a folder, with the seconds that each run took."""
    folder = Path(folder)
    path = folder / "results.parquet"
    if not path.exists():
        raise InputError(f"{folder} has no results.parquet: run compare or reproduce first.")
    results = read_parquet(path)
    absent = [c for c in COLUMNS if c not in results]
    if absent:
        raise InputError(f"{path} has no column '{absent[0]}': it was not written by pfedfair.")
    if (folder / "timings.parquet").exists():
        timings = read_parquet(folder / "timings.parquet")
        keys = [c for c in timings.columns if c != "seconds"]
        results = results.drop(columns="seconds").merge(timings, on=keys, how="left")
    return results
