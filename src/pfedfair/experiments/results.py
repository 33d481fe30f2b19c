"""One tidy file of results: a row per run and client; the seconds are in a separate file."""

import json
import re
from pathlib import Path

import pandas as pd

from pfedfair._util.errors import InputError, option
from pfedfair._util.files import first_line, read_parquet, write_parquet
from pfedfair._util.limits import parse_json
from pfedfair.experiments.spec import FRONTIER_LIMITS, Spec
from pfedfair.metrics.performance import MEASURES
from pfedfair.runs import Run

# The columns that identify a run, except its seed.
RUN = ["dataset", "method", "model", "eta", "level", "config", "partition", "protocol"]
COLUMNS = [
    "dataset", "inputs", "method", "model", "parameters", "eta", "lam", "gamma", "target_ddp",
    "level", "seed", "client", "role",
    "n_train", "n_test", "n_test_s0", "n_test_s1", "share_s1",
    "accuracy", "ddp", "eo", "eopp", "npr_s0", "npr_s1",
    "accuracy_low", "accuracy_high", "ddp_low", "ddp_high",
    "eo_low", "eo_high", "eopp_low", "eopp_high",
    "npr_s0_low", "npr_s0_high", "npr_s1_low", "npr_s1_high",
    "ddp_people", "eo_people", "eopp_people",
    *MEASURES, "constant", "gain", "gain_low", "gain_high",
    "collapsed", "one_decision", "protocol", "partition", "config", "seconds",
]  # fmt: skip
# From 0 to 1.
PARTS = ("accuracy", "npr_s", "share_s", "collapsed", "one_decision", "constant", *MEASURES)
# Columns that folders of earlier versions do not have.
LATER = (
    "n_test_s0", "n_test_s1", "ddp_people", "eo_people", "eopp_people", "one_decision",
    *MEASURES, "constant", "gain", "gain_low", "gain_high",
)  # fmt: skip


def rows_of(run: Run, spec: Spec) -> pd.DataFrame:
    """Return a run's rows of the results, one for each client (protocol, and limit)."""
    algorithm, about = spec.algorithm, spec.algorithm.to_dict()
    protocols = [spec.protocol, "validation"] if spec.validated else [spec.protocol]
    if spec.frontier:
        table = pd.concat([run.frontier(FRONTIER_LIMITS, protocol) for protocol in protocols])
        configs = [json.dumps(about | {"limit": c}, sort_keys=True) for c in table["target_ddp"]]
        levels = [f"≤ {limit:g}" for limit in table["target_ddp"]]
        table = table.assign(collapsed=False, one_decision=False, level=levels)
    else:
        table = pd.concat([run.table(protocol) for protocol in protocols])
        configs = [json.dumps(about, sort_keys=True)] * len(table)
        target = float("nan") if algorithm.target is None else algorithm.target
        table = table.assign(target_ddp=target, level=algorithm.level)
    # Where there are more than two groups:
    groups = re.compile(r"(share_s|npr_s|n_test_s).*|.*_(apart|floor)")
    extra = [c for c in map(str, table) if c not in COLUMNS and groups.fullmatch(c)]
    inner = about.get("method", about)  # of a method with a target
    return table.assign(
        dataset=run.federation.data.name,
        inputs=run.federation.data.inputs,
        method=spec.name,
        model=run.network.words,
        parameters=run.network.parameters,
        eta=float(algorithm.eta),
        lam=float(inner.get("lam", float("nan"))),
        gamma=float(inner.get("gamma", float("nan"))),
        seed=spec.seed,
        partition=json.dumps(spec.plan.to_dict(), sort_keys=True),
        config=configs,
        seconds=run.seconds,
    ).reindex(columns=[*COLUMNS, *extra])


def check_numbers(results: pd.DataFrame, path: Path) -> None:
    """Refuse numbers that cannot be measurements, such as those of an edited file."""
    absent = [c for c in COLUMNS if c not in results and c not in LATER]
    if absent:
        raise InputError(f"{path} has no column '{absent[0]}': this version did not write it.")
    for name in COLUMNS:
        if not name.startswith(PARTS) or name not in results:
            continue
        values = pd.to_numeric(results[name], errors="coerce")
        if bool((results[name].notna() & ~values.between(0, 1)).any()):
            raise InputError(
                f"{path} cannot be believed: '{name}' must be between 0 and 1. Delete it and run "
                "the command that made it again."
            )
    for name in ("accuracy", "ddp"):
        low, high = results[f"{name}_low"], results[f"{name}_high"]
        if bool((low > high).any()):
            raise InputError(
                f"{path} cannot be believed: an interval of '{name}' ends before it begins. Delete "
                "it and run the command that made it again."
            )


def check_settings(results: pd.DataFrame, path: Path) -> None:
    """Refuse results whose settings are not JSON, or nested too deeply."""
    for name in ("config", "partition"):
        try:
            for text in results[name].unique() if name in results else ():
                parse_json(text)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{path} cannot be believed: '{name}' is not JSON ({first_line(error)}). Delete it "
                "and run the command that made it again."
            ) from error


def read_run(path: Path, spec: Spec) -> pd.DataFrame:
    """Read a finished run's rows, if they are this run's."""
    results = read_parquet(path)
    check_numbers(results, path)
    plan = json.dumps(spec.plan.to_dict(), sort_keys=True)
    expected = {"method": spec.name, "seed": spec.seed, "partition": plan}
    if not spec.frontier:
        expected["config"] = json.dumps(spec.algorithm.to_dict(), sort_keys=True)
    different = [c for c, value in expected.items() if not bool((results[c] == value).all())]
    if different or not len(results):
        what = f"another {different[0]}" if different else "no rows"
        raise InputError(
            f"{path} is not the run that its name says ({what}): delete it, and the same command "
            "does the run again."
        )
    return results


def write_results(out: Path, results: pd.DataFrame, rules: pd.DataFrame | None = None) -> None:
    """Write the results, the seconds (not reproducible), and one run's rules if given."""
    keys = [*RUN, "seed"]
    write_parquet(out / "timings.parquet", results[[*keys, "seconds"]].drop_duplicates(keys))
    if rules is not None:
        write_parquet(out / "rules.parquet", rules)
    write_parquet(out / "results.parquet", results.assign(seconds=float("nan")))


def read_results(folder: str | Path) -> pd.DataFrame:
    """Read ``results.parquet`` of a folder, with each run's seconds."""
    folder = Path(folder)
    path = folder / "results.parquet"
    if not path.exists():
        raise InputError(
            f"{folder} has no results.parquet: run train, compare or reproduce with "
            f"{option('out')} first."
        )
    results = read_parquet(path)
    check_numbers(results, path)
    check_settings(results, path)
    if (folder / "timings.parquet").exists():
        timings = read_parquet(folder / "timings.parquet")
        keys = [c for c in timings.columns if c != "seconds"]
        results = results.drop(columns="seconds").merge(timings, on=keys, how="left")
    return results
