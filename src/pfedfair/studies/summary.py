"""Results over clients and over seeds, and differences between methods in pairs."""

import json
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from pfedfair.experiments import RUN
from pfedfair.metrics import half_width, mean_interval
from pfedfair.metrics.criteria import CRITERIA

ROLES = ("underrepresented", "overrepresented")
WHO = (*ROLES, "worst", "joint_worst", "mean")


def parts(results: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The results of each data set and partition."""
    for _, part in results.groupby(["dataset", "partition"], sort=False):
        yield part


def rows_of(rows: pd.DataFrame, part: pd.DataFrame) -> pd.DataFrame:
    """The rows of a summary that are about one data set and partition."""
    keys = ["dataset", "partition"]
    found: pd.DataFrame = rows[(rows[keys] == part[keys].iloc[0]).all(axis=1)]
    return found


def held_out(results: pd.DataFrame) -> pd.DataFrame:
    """Leave out what was measured on validation rows, which is for choosing."""
    held = results[results["protocol"] != "validation"]
    return held if len(held) else results  # tuning looks at nothing else


def gap_of(results: pd.DataFrame) -> str:
    """The gap that the runs were asked to keep small: "ddp", "eo" or "eopp"."""
    for config in results["config"].unique():
        about = json.loads(config)
        criterion = about.get("method", about).get("criterion", "dp")
        if criterion != "dp":
            return CRITERIA[criterion].measure
    return CRITERIA["dp"].measure


def with_settings(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    """Add columns of the methods' settings; NaN where a method has none of that name."""
    about = [json.loads(config) for config in frame["config"]]
    found = {name: np.array([one.get(name) for one in about], dtype=float) for name in names}
    return frame.assign(**found)


def over_clients(results: pd.DataFrame, more: Sequence[str] = ()) -> pd.DataFrame:
    """Summarise each run over its clients; the gap is that of the runs' criterion.

    Worst accuracy and worst gap may be those of different clients, as in the paper; the joint worst
    client is the one with the largest sum of error and gap. Of `more` columns there is the mean.
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
    return pd.DataFrame(found | {name: each[name].mean() for name in more})


def over_seeds(frame: pd.DataFrame, keys: list[str], measures: Sequence[str]) -> pd.DataFrame:
    """Mean over seeds of each measure, and the half-width of its interval (``*_half``).

    It is `mean_interval` of each: unknown where a seed has none.
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
    """One row per data set, method and level: kinds of client, worst and mean, over seeds."""
    measures = [f"{who}_{what}" for who in WHO for what in ("accuracy", gap_of(results))]
    return over_seeds(over_clients(results), RUN, measures)


def by_client(results: pd.DataFrame) -> pd.DataFrame:
    """One row per data set, method, level and client, over seeds; the fewest people of a seed."""
    gap, keys = gap_of(results), [*RUN, "client", "role"]
    found = over_seeds(results, keys, ["accuracy", gap, "npr_s0", "npr_s1"])
    if (people := f"{gap}_people") in results:
        fewest = results.groupby(keys, sort=False, dropna=False)[people].min()
        found = found.assign(**{people: fewest.to_numpy()})
    return found


def fairest(runs: pd.DataFrame) -> pd.DataFrame:
    """Of each method the runs at the fair end of its curve, the last one in the order of eta."""
    last = runs.sort_values("eta", kind="stable").groupby("method")["config"].last()
    return runs[runs["config"] == runs["method"].map(last)]


def paired(runs: pd.DataFrame, method: str, rival: str, measure: str) -> tuple[float, ...]:
    """Mean difference method - rival over seeds, and its interval; runs are paired by seed.

    `runs` is what `over_clients` returns, with one level of each of the two.
    """
    ours, theirs = (runs.loc[runs["method"] == m, ["seed", measure]] for m in (method, rival))
    pair = ours.merge(theirs, on="seed", validate="one_to_one")
    return mean_interval((pair[f"{measure}_x"] - pair[f"{measure}_y"]).to_numpy())
