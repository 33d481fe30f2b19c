"""Results over clients and over seeds, and differences between methods in pairs."""

import json
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from pfedfair.experiments import RUN
from pfedfair.metrics import half_width, mean_interval
from pfedfair.metrics.criteria import CRITERIA

ROLES = ("underrepresented", "overrepresented")
KINDS = (*ROLES, "worst", "joint_worst", "mean")  # of summaries over clients


def parts(results: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the results of each data set and partition."""
    for _, part in results.groupby(["dataset", "partition"], sort=False):
        yield part


def rows_of(rows: pd.DataFrame, part: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a summary for the data set and partition of `part`."""
    keys = ["dataset", "partition"]
    matches: pd.DataFrame = rows[(rows[keys] == part[keys].iloc[0]).all(axis=1)]
    return matches


def held_out(results: pd.DataFrame) -> pd.DataFrame:
    """Return the results on held-out rows, without those on validation rows."""
    held = results[results["protocol"] != "validation"]
    return held if len(held) else results  # tuning has validation rows only


def gap_of(results: pd.DataFrame) -> str:
    """Return the gap that the runs make small: "ddp", "eo" or "eopp"."""
    for config in results["config"].unique():
        about = json.loads(config)
        criterion = about.get("method", about).get("criterion", "dp")
        if criterion != "dp":
            return CRITERIA[criterion].measure
    return CRITERIA["dp"].measure


def with_settings(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    """Add columns of the methods' settings; NaN where a method has none of that name."""
    about = [json.loads(config) for config in frame["config"]]
    values = {name: np.array([one.get(name) for one in about], dtype=float) for name in names}
    return frame.assign(**values)


def over_clients(results: pd.DataFrame, extra: Sequence[str] = ()) -> pd.DataFrame:
    """Summarise each run over its clients; the gap is that of the runs' criterion.

    Worst accuracy and worst gap may be those of different clients, as in the paper; the joint worst
    client is the one with the largest sum of error and gap. `extra` columns are averaged.
    """
    gap, keys = gap_of(results), [*RUN, "seed"]
    results = results.reset_index(drop=True)
    run = results.groupby(keys, sort=False, dropna=False).ngroup()
    first, number = run.drop_duplicates().index, run.nunique()
    if (twice := results.assign(run=run).duplicated(["run", "client"])).any():
        key = tuple(results.loc[twice, keys].iloc[0])
        raise ValueError(f"two results for one client in the run {key}")
    each = results.groupby(run)
    joint = results.loc[(results[gap].fillna(0) - results["accuracy"]).groupby(run).idxmax()]
    found = {name: results.loc[first, name].to_numpy() for name in keys}
    found |= {"worst_accuracy": each["accuracy"].min(), f"worst_{gap}": each[gap].max()}
    found |= {f"mean_{name}": each[name].mean() for name in ("accuracy", gap)}
    found |= {f"joint_worst_{name}": joint[name].array for name in ("client", "accuracy", gap)}
    for role in ROLES:
        part = results[results["role"] == role].groupby(run)
        for name in ("accuracy", gap, "npr_s0", "npr_s1"):
            found[f"{role}_{name}"] = part[name].mean().reindex(range(number))
    return pd.DataFrame(found | {name: each[name].mean() for name in extra})


def over_seeds(frame: pd.DataFrame, keys: list[str], measures: Sequence[str]) -> pd.DataFrame:
    """Return the mean over seeds of each measure, and the half-width of its interval (``*_half``).

    It is the `mean_interval` of each measure: NaN if it is NaN for a seed.
    """
    frame = frame.reset_index(drop=True)
    group = frame.groupby(keys, sort=False, dropna=False).ngroup()
    if (twice := frame.assign(group=group).duplicated(["group", "seed"])).any():
        key = tuple(frame.loc[twice, keys].iloc[0])
        raise ValueError(f"two results for one seed: {key}")
    found = frame.loc[group.drop_duplicates().index, keys].reset_index(drop=True)
    each = frame.groupby(group)
    seeds = each.size()
    wide = seeds.map({n: half_width(n) for n in seeds.unique()})
    for name in measures:
        known = each[name].count() == seeds
        found[name] = each[name].mean().where(known)
        found[f"{name}_half"] = (wide * each[name].std(ddof=1)).where(known)
    return found.assign(seeds=seeds)


def summary(results: pd.DataFrame) -> pd.DataFrame:
    """Return a row per data set, method and level: by role, worst and mean client, over seeds."""
    measures = [f"{kind}_{what}" for kind in KINDS for what in ("accuracy", gap_of(results))]
    return over_seeds(over_clients(results), RUN, measures)


def by_client(results: pd.DataFrame) -> pd.DataFrame:
    """Return a row per data set, method, level and client, over seeds; the least ``*_people``."""
    gap, keys = gap_of(results), [*RUN, "client", "role"]
    table = over_seeds(results, keys, ["accuracy", gap, "npr_s0", "npr_s1"])
    if (number := f"{gap}_people") in results:
        fewest = results.groupby(keys, sort=False, dropna=False)[number].min()
        table = table.assign(**{number: fewest.to_numpy()})
    return table


def fairest(runs: pd.DataFrame) -> pd.DataFrame:
    """Return each method's runs at the fair end of its curve, the last one in the order of eta."""
    last = runs.sort_values("eta", kind="stable").groupby("method")["config"].last()
    return runs[runs["config"] == runs["method"].map(last)]


def paired(runs: pd.DataFrame, method: str, rival: str, measure: str) -> tuple[float, ...]:
    """Return the mean difference method - rival, paired by seed, and its interval.

    `runs` is what `over_clients` returns, with one level of each of the two.
    """
    first, second = (runs.loc[runs["method"] == m, ["seed", measure]] for m in (method, rival))
    pair = first.merge(second, on="seed", validate="one_to_one")
    return mean_interval((pair[f"{measure}_x"] - pair[f"{measure}_y"]).to_numpy())
