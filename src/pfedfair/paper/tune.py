"""Tune every method on validation rows, the same number of trials for each.

    python -m pfedfair.paper.tune adult --out runs/tune-adult
    python -m pfedfair.paper.tune adult --changes --out runs/changes-adult
    python -m pfedfair.paper.tune adult --small --out runs/small-adult

A trial trains on 80 % of every client's training rows and is scored on the other 20 %. The trials
of a method cover its space below evenly and are always the same. The score of a fair method is
accuracy - DDP at eta = 0.9, of the others accuracy; mean over the two kinds of client (so that the
underrepresented one counts as much as the four others), then over seeds. Test rows are not touched.
The best settings go to ``OUT/tuned.toml``; ``tuned.toml`` beside this file keeps them. The second
command changes one of pFedFair's tuned settings at a time; the third compares the two ways in which
20 or 50 small clients can make as many steps as five large ones.
"""

from __future__ import annotations

import argparse
import itertools
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pfedfair.algorithms import (
    ALGORITHMS,
    FA,
    FAIR,
    FCFL,
    LIMIT,
    MMPF,
    Algorithm,
    FairFed,
    FedProx,
    PerFedAvg,
    PFedFair,
    make,
)
from pfedfair.algorithms.moreau import Moreau
from pfedfair.experiment import Source, Spec, run_experiment
from pfedfair.files import atomic
from pfedfair.paper import as_many_steps, settings, tuned
from pfedfair.paper.many_clients import CLIENTS, ROWS
from pfedfair.partition import fixed_shares

FIRST_SEED = 100  # not a seed of any table
TRIALS = 12
ROUNDS = {"adult": (10, 20), "compas": (40, 80)}
FCFL_ROUNDS = {"adult": (100, 200), "compas": (200, 400)}  # a round is one step there
# What is tuned, for a class of algorithms and all that derive from it.
SPACES: dict[type[Algorithm], dict[str, tuple[Any, ...]]] = {
    Algorithm: {"alpha": (5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2)},
    Moreau: {
        "gamma": (0.001, 0.003, 0.01, 0.03, 0.1, 0.3),
        "alpha_inner": (3e-4, 1e-3, 3e-3),
        "prox_epochs": (10, 30),
    },
    PFedFair: {"envelope_gradient": ("point", "prox")},
    FedProx: {"mu": (0.001, 0.01, 0.1, 1.0)},
    PerFedAvg: {"alpha_inner": (0.003, 0.01, 0.03, 0.1), "adapt_epochs": (1, 5)},
    MMPF: {"groups": ("clients", "sensitive", "both"), "mu_step": (0.05, 0.2, 0.5)},
    FA: {"ascent": (0.03, 0.1, 0.3), "dual_step": (0.1, 0.3, 1.0), "rho": (2.0, 8.0)},
    FCFL: {"alpha": (0.3, 1.0, 2.0), "pareto": (0.25, 0.5)},
    FairFed: {"beta": (0.1, 0.3, 1.0, 3.0)},
}
UNTUNED = ("constant", "logofair", "transport")  # the latter two have FedAvg's base model
ACCURATE = set(ALGORITHMS) - FAIR - set(LIMIT)  # not fair


def trials(dataset: str, method: str) -> list[dict[str, Any]]:
    """Return the settings to try, always the same ones.

    All combinations if there are just as many as trials; otherwise every value of a
    hyper-parameter comes equally often, in an order of its own (a Latin hypercube).
    """
    rounds = FCFL_ROUNDS if method == "fcfl" else ROUNDS
    space: dict[str, tuple[Any, ...]] = {"rounds": rounds[dataset]}
    for kind, more in SPACES.items():
        if issubclass(ALGORITHMS[method], kind):
            space |= more
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
    fair = ~results["method"].isin(ACCURATE)
    results = results.assign(score=results["accuracy"] - results["ddp"].where(fair, 0.0))
    keys = ["method", "config", "partition"]
    columns = ["score", "accuracy", "ddp"]
    by_role = results.groupby([*keys, "seed", "role"])[columns].mean()
    table = by_role.groupby(keys).mean().reset_index()
    return table.sort_values(["method", "score"], ascending=[True, False], ignore_index=True)


def specification(
    dataset: str, method: str, settings: dict[str, Any], seed: int, clients: int | None = None
) -> Spec:
    """Return a trial's run: 20 % of every client's training rows are held out for its score."""
    plan = fixed_shares(clients, validation=0.2)
    return Spec(Source(dataset), plan, method, make(method, **settings), seed, "validation")


def report_trials(dataset: str, table: pd.DataFrame) -> str:
    """Print all trials; return the best settings of every method as TOML."""
    lines = []
    for method, rows in table.groupby("method", sort=False):
        print(f"\n{method}\n{rows[['score', 'accuracy', 'ddp', 'config']].to_string()}")
        best = rows.iloc[0]
        config = json.loads(best["config"])
        lines.append(
            f"\n[{dataset}.{method}]  # validation: accuracy {best['accuracy']:.4f}, "
            f"DDP {best['ddp']:.4f}"
        )
        tried = trials(dataset, str(method))[0]
        lines += [f"{name} = {json.dumps(config[name])}" for name in tried]
    return "\n".join(lines) + "\n"


def report_small(table: pd.DataFrame) -> str:
    """List both ways for every method."""
    config = table["config"].map(json.loads)
    table = table.assign(
        clients=[json.loads(plan)["clients"] for plan in table["partition"]],
        way=["passes" if one["epochs"] > 1 else "batches" for one in config],
    )
    wide = table.pivot_table(index="method", columns=["clients", "way"], values="score", sort=False)
    return f"{wide.round(4).to_string()}\n"


def report_changes(table: pd.DataFrame, base: dict[str, Any]) -> str:
    """List what each single change of pFedFair's tuned settings does to its score."""
    lines = []
    for _, row in table.iterrows():
        config = json.loads(row["config"])
        change = {k: config[k] for k in ("K", "envelope_gradient", "lam") if config[k] != base[k]}
        lines.append(
            f"{change or 'as tuned'!s:<32} score {row['score']:.4f}  "
            f"accuracy {row['accuracy']:.4f}  DDP {row['ddp']:.4f}"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("dataset", choices=list(ROUNDS))
    tried = [m for m in ALGORITHMS if m not in UNTUNED]
    parser.add_argument("--methods", default=",".join(tried))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--jobs", type=int)
    parser.add_argument(
        "--changes", action="store_true", help="one change at a time from pFedFair's tuned settings"
    )
    parser.add_argument(
        "--small", action="store_true", help="how 20 and 50 small clients make as many steps"
    )
    args = parser.parse_args()
    base = asdict(tuned(args.dataset, "pfedfair"))
    names = args.methods.split(",")
    each: list[tuple[str, dict[str, Any], int | None]]
    if args.changes:
        chosen = settings(args.dataset, "pfedfair")
        other = {"point": "prox", "prox": "point"}[base["envelope_gradient"]]
        changes: tuple[dict[str, Any], ...]
        changes = ({}, {"envelope_gradient": other}, {"K": 10}, {"lam": 0.0})
        each = [("pfedfair", chosen | change, None) for change in changes]
    elif args.small:
        each = [
            (m, settings(args.dataset, m) | as_many_steps(args.dataset, m, ROWS // n, way), n)
            for m in names
            for n in CLIENTS
            for way in ("batches", "passes")
        ]
    else:
        each = [(m, trial, None) for m in names for trial in trials(args.dataset, m)]
    specs = [
        specification(args.dataset, method, trial, seed, clients)
        for method, trial, clients in each
        for seed in range(FIRST_SEED, FIRST_SEED + args.seeds)
    ]
    total = sum(spec.work for spec in specs)
    results = run_experiment(
        specs,
        args.out,
        args.jobs,
        lambda work, runs: print(f"\r{runs}/{len(specs)} runs, {work / total:.0%}", end=""),
    )
    table = score(results)
    if args.changes:
        name, text = "changes.txt", report_changes(table, base)
    elif args.small:
        name, text = "small.txt", report_small(table)
    else:
        name, text = "tuned.toml", report_trials(args.dataset, table)
    with atomic(args.out / name) as beside:
        beside.write_text(text)
    print(f"\n{text}")


if __name__ == "__main__":
    main()
