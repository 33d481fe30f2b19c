"""Tune methods on validation rows, the same number of trials for each.

A trial trains on 80 % of every client's training rows and is scored on the other 20 %. The trials
of a method cover its space evenly and are always the same. The score of a fair method is
accuracy - DDP (at eta = 0.9, if it has one), of the others accuracy; averaged over the two roles of
clients (so that the underrepresented one counts as much as the four others), then over seeds. A
trial in which a client collapses to one decision for all rows ranks after all others: with small
clients it would often have the best score. Test rows are not used.

`changes` and `small` are other trials: one change at a time from pFedFair's settings, and the two
ways in which 20 or 50 small clients can make as many steps as five large ones.
"""

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError, known
from pfedfair.data import Dataset
from pfedfair.experiments import Source, Spec, load_source
from pfedfair.methods import METHODS
from pfedfair.methods.defaults import as_many_steps, make, section, settings, sized, space
from pfedfair.partition import Plan, fixed_shares
from pfedfair.studies.study import ROWS

CLIENTS = (20, 50)
FIRST_SEED = 100  # not a seed of any table
TRIALS = 12
VALIDATION = 0.2
Trial = tuple[str, dict[str, Any], Plan]  # a method, its settings, and the partition


def tuned_methods() -> list[str]:
    """Return all methods with something to tune."""
    return [name for name, method in METHODS.items() if method.kind.tuning.tuned]


def trials(dataset: str, method: str) -> list[dict[str, Any]]:
    """Return the settings to try, always the same ones.

    All combinations if there are just as many as trials; otherwise every value of a
    hyper-parameter comes equally often, in an order of its own (a Latin hypercube).
    """
    tried, draw = space(dataset, method), 0
    chosen = list(itertools.product(*tried.values()))
    many = len(chosen) > TRIALS
    while many and len(set(chosen)) != TRIALS:  # until no two trials are the same
        rng, draw = np.random.default_rng(draw), draw + 1
        orders = [rng.permutation(np.arange(TRIALS) % len(values)) for values in tried.values()]
        columns = [[v[i] for i in o] for v, o in zip(tried.values(), orders, strict=True)]
        chosen = list(zip(*columns, strict=True))
    return [dict(zip(tried, values, strict=True)) for values in chosen]


def score(results: pd.DataFrame) -> pd.DataFrame:
    """Return the score of every trial (a method and its config), best first within a method."""
    fair = {name for name, method in METHODS.items() if method.levels((0.5,)) != ({},)}
    minus = results["ddp"].where(results["method"].isin(fair), 0.0)
    results = results.assign(score=results["accuracy"] - minus)
    keys = ["method", "config", "partition"]
    by_role = results.groupby([*keys, "seed", "role"])[["score", "accuracy", "ddp"]].mean()
    collapsed = results.groupby(keys)["collapsed"].mean()
    table = by_role.groupby(keys).mean().join(collapsed).reset_index()
    table = table.assign(_any=table["collapsed"] > 0).sort_values(
        ["method", "_any", "score"], ascending=[True, True, False], ignore_index=True
    )
    return table.drop(columns="_any")


def searched(source: Source, plan: Plan, methods: Sequence[str]) -> list[Trial]:
    """Return all trials of the given methods."""
    for method in methods:
        if not METHODS[known("method", method, METHODS)].kind.tuning.tuned:
            raise InputError(f"{method} has nothing to tune: leave it out.")
    name = tuned_for(load_source(source), plan)
    return [(method, trial, plan) for method in methods for trial in trials(name, method)]


def tuned_for(data: Dataset, plan: Plan) -> str:
    """Return the section of settings: the data set's, or that of its small clients."""
    rows = plan.rows_each(data)
    return section(data) if rows is None else sized(data, rows)


def specs(source: Source, each: Sequence[Trial], seeds: int) -> list[Spec]:
    """Return the runs of trials, with seeds that no table has."""
    return [
        Spec(source, replace(plan, validation=VALIDATION), method, make(method, trial), seed,  # type: ignore[type-var]
             "validation")
        for method, trial, plan in each
        for seed in range(FIRST_SEED, FIRST_SEED + seeds)
    ]  # fmt: skip


def toml(name: str, table: pd.DataFrame) -> str:
    """Return the best settings of every method, in the format of ``tuned.toml``."""
    lines = []
    for _, row in table.drop_duplicates("method").iterrows():
        config = json.loads(row["config"])
        best = {key: config[key] for key in trials(name, row["method"])[0]}
        reached = f"validation: accuracy {row['accuracy']:.4f}, DDP {row['ddp']:.4f}"
        lines += _entry(name, row["method"], best, reached)
    return "\n".join(lines) + "\n"


def _entry(name: str, method: str, best: dict[str, Any], remark: str) -> list[str]:
    lines = [f"{key} = {json.dumps(value)}" for key, value in best.items()]
    return [f"\n[{name}.{method}]  # {remark}", *lines]


def changes(dataset: str) -> list[Trial]:
    """Return trials with one change at a time from pFedFair's tuned settings."""
    chosen = settings(dataset, "pfedfair")
    used = make("pfedfair", data=dataset).to_dict()["envelope_gradient"]
    other = {"envelope_gradient": "prox" if used == "point" else "point"}
    tried: tuple[dict[str, Any], ...] = ({}, other, {"K": 10}, {"lam": 0.0})
    return [("pfedfair", chosen | change, fixed_shares()) for change in tried]


def small(dataset: str, methods: Sequence[str]) -> list[Trial]:
    """Return trials of both ways for many small clients to make as many steps."""
    return [
        (m, settings(dataset, m) | as_many_steps(dataset, m, ROWS // n, way), fixed_shares(n))
        for m in methods
        for n in CLIENTS
        for way in ("batches", "passes")
    ]


def describe(table: pd.DataFrame) -> str:
    """Return the scores of trials, with the settings and numbers of clients that differ."""
    both = zip(table["partition"], table["config"], strict=True)
    about = [json.loads(plan) | json.loads(config) for plan, config in both]
    varied = [key for key in about[0] if len({str(one.get(key)) for one in about}) > 1]
    scores = table[["method", "score", "accuracy", "ddp"]].round(4)
    settings_of = {key: [one.get(key) for one in about] for key in varied}
    return scores.assign(**settings_of).to_string(index=False)
