"""Results that nobody trained for: every view can be looked at in a moment."""

import json

import numpy as np
import pandas as pd

from pfedfair.experiment import COLUMNS, FRONTIER_LIMITS, load_source

PLAN = json.dumps({"kind": "FixedShares"})


def two_methods(shift=0.02, seeds=4):
    """Two methods, two clients; b is `shift` more accurate than a at every seed."""
    rng = np.random.default_rng(0)
    rows = []
    for seed in range(seeds):
        easy = rng.normal(0.8, 0.04)  # a hard or an easy split, the same for both methods
        for method, plus in (("a", 0.0), ("b", shift)):
            for client, role in (("1", "underrepresented"), ("2", "overrepresented")):
                noise = rng.normal(0, 0.001)
                rows.append(
                    {"dataset": "d", "inputs": "", "method": method, "model": "mlp",
                     "eta": 0.9, "level": "0.9",
                     "config": json.dumps({"m": method, "eta": 0.9}), "partition": PLAN,
                     "protocol": "pool", "seed": seed, "client": client, "role": role,
                     "accuracy": easy + plus + noise, "ddp": 0.05 - plus,
                     "npr_s0": 0.8, "npr_s1": 0.85, "collapsed": False}
                )  # fmt: skip
    return pd.DataFrame(rows)


def results(specs):
    """Rows as of these runs, every number drawn."""
    tables = []
    for k, spec in enumerate(specs):
        rng = np.random.default_rng(k)
        part = spec.plan.split(load_source(spec.source), spec.seed)
        about = spec.algorithm.to_dict()
        limits = FRONTIER_LIMITS if spec.frontier else [None]
        protocols = ["pool", "validation"] if spec.validated else ["pool"]
        for limit in limits:
            for protocol in protocols:
                n = len(part.names)
                table = pd.DataFrame({"client": part.names, "role": part.roles})
                for name in COLUMNS:
                    if name.startswith(("accuracy", "ddp", "eo", "npr", "share")):
                        table[name] = rng.uniform(0.05, 0.3, n)
                if spec.method == "constant":
                    table["ddp"] = 0.0
                config = about if limit is None else about | {"limit": limit}
                tables.append(
                    table.assign(
                        accuracy=1 - table["accuracy"],
                        dataset=load_source(spec.source).name,
                        inputs=load_source(spec.source).inputs,
                        method=spec.name,
                        model=spec.source.model or "mlp",
                        parameters=100 + len(spec.source.model or ""),
                        target_ddp=np.nan
                        if spec.algorithm.target is None
                        else spec.algorithm.target,
                        seconds=rng.uniform(1, 2),
                        eta=spec.algorithm.eta,
                        lam=about.get("lam", float("nan")),
                        level=spec.algorithm.level if limit is None else f"≤ {limit:g}",
                        seed=spec.seed,
                        n_train=100,
                        n_test=100,
                        collapsed=spec.method == "fa",
                        protocol=protocol,
                        partition=json.dumps(spec.describe()["plan"], sort_keys=True),
                        config=json.dumps(config, sort_keys=True),
                    )
                )
    return pd.concat(tables, ignore_index=True)
