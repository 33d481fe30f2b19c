"""Tune methods on validation rows, the same number of trials for each.

A trial trains on 80 % of every client's training rows and is scored on the other 20 %. The trials
of a method cover its space evenly and are always the same. The score of a method that aims at
fairness is accuracy - DDP (at eta = 0.9, if it has one), of the others accuracy; mean over the two
kinds of client (so that the underrepresented one counts as much as the four others), then over
seeds. Test rows are not touched.

`changes` and `small` are trials of another kind: one change at a time from pFedFair's settings, and
the two ways in which 20 or 50 small clients can make as many steps as five large ones.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pfedfair.algorithms import ALGORITHMS
from pfedfair.data import DATASETS
from pfedfair.defaults import as_many_steps, closing, levels, make, settings, tuning_space
from pfedfair.errors import InputError, known
from pfedfair.experiment import Source, Spec, run_experiment
from pfedfair.partition import Plan, fixed_shares
from pfedfair.studies.study import ROWS

FIRST_SEED = 100  # not a seed of any table
TRIALS = 12
VALIDATION = 0.2
ROUNDS = {"adult": (10, 20), "compas": (40, 80)}
OTHER_ROUNDS = (20, 40, 80)
BASE = "fedavg"  # trains the model of methods with closing rounds, which are not tuned themselves
OnWork = Callable[[float, int], None]
Trial = tuple[str, dict[str, Any], Plan]  # a method, its settings, and whose the rows are


def tuned_methods() -> list[str]:
    """All methods with something to tune."""
    return [name for name in ALGORITHMS if tuning_space(name)]


def section(source: Source) -> str:
    """The name under which settings are kept: the data set's, or "own" for a table of your own."""
    return source.name if source.name in DATASETS else "own"


def trials(dataset: str, method: str) -> list[dict[str, Any]]:
    """Return the settings to try, always the same ones.

    All combinations if there are just as many as trials; otherwise every value of a
    hyper-parameter comes equally often, in an order of its own (a Latin hypercube).
    """
    space = {"rounds": ROUNDS.get(dataset, OTHER_ROUNDS), **tuning_space(method)}
    if isinstance(space["rounds"], dict):  # a method to which a round is something else
        space["rounds"] = space["rounds"].get(dataset, space["rounds"]["other"])
    every = [dict(zip(space, values, strict=True)) for values in itertools.product(*space.values())]
    if len(every) <= TRIALS:
        return every
    for draw in itertools.count():  # until no two trials are the same
        rng = np.random.default_rng(draw)
        columns = [
            [values[i] for i in rng.permutation(np.arange(TRIALS) % len(values))]
            for values in space.values()
        ]
        chosen = list(zip(*columns, strict=True))
        if len(set(chosen)) == TRIALS:
            return [dict(zip(space, values, strict=True)) for values in chosen]
    raise AssertionError("unreachable")


def score(results: pd.DataFrame) -> pd.DataFrame:
    """Score every trial (a method and its config), best first within a method."""
    fair = {name for name in ALGORITHMS if levels(name, (0.5,)) != ({},)}
    minus = results["ddp"].where(results["method"].isin(fair), 0.0)
    results = results.assign(score=results["accuracy"] - minus)
    keys = ["method", "config", "partition"]
    by_role = results.groupby([*keys, "seed", "role"])[["score", "accuracy", "ddp"]].mean()
    table = by_role.groupby(keys).mean().reset_index()
    return table.sort_values(["method", "score"], ascending=[True, False], ignore_index=True)


def tune(
    source: Source,
    plan: Plan,
    methods: Sequence[str],
    seeds: int,
    out: Path,
    jobs: int | None = None,
    on_work: OnWork = lambda work, runs: None,
) -> tuple[pd.DataFrame, str]:
    """Try the settings of some methods; return all trials, the best first, and the best as TOML.

    A second call with the same `out` goes on where the first one stopped. Methods that make a
    decision rule for FedAvg's model take its settings.
    """
    for method in methods:
        if not tuning_space(known("method", method, list(ALGORITHMS))):
            raise InputError(f"{method} has nothing to tune: leave it out.")
    name = section(source)
    each = [(method, trial, plan) for method in methods for trial in trials(name, method)]
    table = attempt(source, each, seeds, out, jobs, on_work)
    return table, toml(name, table)


def attempt(
    source: Source,
    each: Sequence[Trial],
    seeds: int,
    out: Path,
    jobs: int | None = None,
    on_work: OnWork = lambda work, runs: None,
) -> pd.DataFrame:
    """Run trials and score them."""
    specs = [
        Spec(source, replace(plan, validation=VALIDATION), method, make(method, trial), seed,  # type: ignore[type-var]
             "validation")
        for method, trial, plan in each
        for seed in range(FIRST_SEED, FIRST_SEED + seeds)
    ]  # fmt: skip
    return score(run_experiment(specs, out, jobs, on_work))


def toml(name: str, table: pd.DataFrame) -> str:
    """The best settings of every method, as in ``tuned.toml``."""
    lines = []
    for _, row in table.drop_duplicates("method").iterrows():
        config = json.loads(row["config"])
        best = {key: config[key] for key in trials(name, row["method"])[0]}
        reached = f"validation: accuracy {row['accuracy']:.4f}, DDP {row['ddp']:.4f}"
        lines += _entry(name, row["method"], best, reached)
        if row["method"] == BASE:
            for method in (m for m in ALGORITHMS if closing(m)):
                more = best | {"rounds": best["rounds"] + closing(method)}
                lines += _entry(name, method, more, f"{BASE}'s model, and {closing(method)} more")
    return "\n".join(lines) + "\n"


def _entry(name: str, method: str, best: dict[str, Any], remark: str) -> list[str]:
    lines = [f"{key} = {json.dumps(value)}" for key, value in best.items()]
    return [f"\n[{name}.{method}]  # {remark}", *lines]


def changes(dataset: str) -> list[Trial]:
    """One change at a time from pFedFair's tuned settings; for `attempt`."""
    chosen = settings(dataset, "pfedfair")
    used = asdict(make("pfedfair", data=dataset))["envelope_gradient"]
    other = {"envelope_gradient": "prox" if used == "point" else "point"}
    tried: tuple[dict[str, Any], ...] = ({}, other, {"K": 10}, {"lam": 0.0})
    return [("pfedfair", chosen | change, fixed_shares()) for change in tried]


def small(dataset: str, methods: Sequence[str], clients: Sequence[int]) -> list[Trial]:
    """Both ways for many small clients to make as many steps; for `attempt`."""
    return [
        (m, settings(dataset, m) | as_many_steps(dataset, m, ROWS // n, way), fixed_shares(n))
        for m in methods
        for n in clients
        for way in ("batches", "passes")
    ]
