"""Results that nobody trained for: every view can be looked at in a moment."""

import json

import numpy as np
import pandas as pd

from pfedfair.experiments import COLUMNS, FRONTIER_LIMITS, load_source

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
    tables, parts = [], {}
    drawn = [c for c in COLUMNS if c.startswith(("accuracy", "ddp", "eo", "npr", "share"))]
    for k, spec in enumerate(specs):
        rng = np.random.default_rng(k)
        data, plan = load_source(spec.source), json.dumps(spec.describe()["plan"], sort_keys=True)
        key = (data.name, plan, spec.seed)
        if key not in parts:
            parts[key] = spec.plan.split(data, spec.seed)
        part, about = parts[key], spec.algorithm.to_dict()
        protocols = ["pool", "validation"] if spec.validated else ["pool"]
        for limit in FRONTIER_LIMITS if spec.frontier else [None]:
            for protocol in protocols:
                numbers = {name: rng.uniform(0.05, 0.3, len(part.names)) for name in drawn}
                numbers["accuracy"] = 1 - numbers["accuracy"]
                if spec.method == "constant":
                    numbers["ddp"] = 0.0
                config = about if limit is None else about | {"limit": limit}
                target = spec.algorithm.target
                about_run = {
                    "client": part.names,
                    "role": part.roles,
                    "dataset": data.name,
                    "inputs": data.inputs,
                    "method": spec.name,
                    "model": spec.source.model or "mlp",
                    "parameters": 100 + len(spec.source.model or ""),
                    "target_ddp": np.nan if target is None else target,
                    "seconds": rng.uniform(1, 2),
                    "eta": spec.algorithm.eta,
                    "lam": about.get("lam", float("nan")),
                    "level": spec.algorithm.level if limit is None else f"≤ {limit:g}",
                    "seed": spec.seed,
                    "n_train": 100,
                    "n_test": 100,
                    "collapsed": spec.method == "fa",
                    "protocol": protocol,
                    "partition": plan,
                    "config": json.dumps(config, sort_keys=True),
                }
                tables.append(pd.DataFrame(numbers | about_run))
    return pd.concat(tables, ignore_index=True)
