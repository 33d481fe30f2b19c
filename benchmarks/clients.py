"""Ten thousand clients: CPU seconds of a client against those among 100, and peak memory.

    python benchmarks/clients.py                      # fedavg, pfedfair and transport, both models
    python benchmarks/clients.py transport additive   # some of them
    python benchmarks/clients.py --clients 1000       # a smaller federation
    python benchmarks/clients.py large                # networks of 4 x 256, one for all clients

Every client has 240 rows to train on. Each case has a process and a thread of its own, the large
federation between two small ones. What counts is the training, `engines.local.fit`; the peak is
that of the whole process, with the rows, their encoding and the table of all clients.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

CLIENTS, FEW, ROWS = 10_000, 100, 240
RATIO, GIGABYTES = 1.3, 4.0
MODELS = {"additive": (), "mlp": (64, 64)}
METHODS = {
    "fedavg": {"rounds": 2},
    "pfedfair": {"rounds": 2, "prox_epochs": 2},
    "transport": {"rounds": 8, "target_ddp": 0.05, "confidence": 0.0},
}


def case(clients: int, method: str, model: str, settings: dict[str, float]) -> None:
    """Train, in this process; print what it took."""
    import resource

    import numpy as np
    import pandas as pd
    import torch

    import pfedfair as pff
    from pfedfair.data import with_model
    from pfedfair.engines import local
    from pfedfair.runs import Run, choose_network

    torch.set_num_threads(1)
    rng, n = np.random.default_rng(0), clients * ROWS * 4 // 3
    frame = pd.DataFrame({f"x{i}": rng.normal(size=n).astype(np.float32) for i in range(6)})
    frame["age"] = rng.integers(17, 90, n)
    for k in (5, 8, 16):
        levels = [f"level {j}" for j in range(k)]
        frame[f"c{k}"] = pd.Categorical.from_codes(rng.integers(k, size=n), levels)
    s = rng.integers(2, size=n)
    y = (frame["x0"] + 0.5 * s + rng.normal(size=n) > 0).astype(int)
    frame = frame.assign(s=s, y=y, site=rng.permutation(n) % clients)
    data = with_model(pff.from_frame(frame, "y", "s"), "additive" if model == "additive" else "mlp")
    data = replace(data, hidden=MODELS.get(model, (256,) * 4))
    federation = data.federate(pff.partition.by_column("site"))
    algorithm = pff.make(method, settings, data)
    network = choose_network(federation, algorithm)
    before = time.process_time()
    fitted = local.fit(federation, algorithm, network, 0)
    trained = time.process_time()
    table = Run(federation, algorithm, network, fitted, 0, 0.0).table()
    measured = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({
        "each": (trained - before) / clients, "table": measured - trained, "peak": peak,
        "models": network.size * 4 * clients / 1e9, "accuracy": float(table["accuracy"].mean()),
    }))  # fmt: skip


def apart(*given: object) -> dict[str, float]:
    """Run a case in a process of its own."""
    code = f"import clients; clients.case(*{given!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1"},
    )  # fmt: skip
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def say(what: str, number: str, goal: str, met: bool, detail: str) -> None:
    print(f"{what:<46} {number:>8}   goal {goal:<10} {'met' if met else 'MISSED':<7} {detail}")


def compare(clients: int, method: str, model: str) -> None:
    few, many, again = (apart(n, method, model, METHODS[method]) for n in (FEW, clients, FEW))
    each = (few["each"] + again["each"]) / 2
    ratio, peak = many["each"] / each, many["peak"]
    what = f"{method}, {model}: a client of {clients:,} / of {FEW}"
    say(
        what, f"{ratio:.2f}x", f"<= {RATIO}", ratio <= RATIO,
        f"{1e3 * many['each']:.1f} ms / {1e3 * each:.1f} ms",
    )  # fmt: skip
    say(
        f"{method}, {model}: peak memory", f"{peak:.2f} GB", f"< {GIGABYTES:g} GB",
        peak < GIGABYTES, f"all models would take {many['models']:.2f} GB; table of all clients "
        f"in {many['table']:.1f} s",
    )  # fmt: skip


def large(clients: int) -> None:
    """Networks of 4 x 256 for FedAvg: all clients have one, and it is kept once."""
    found = apart(clients, "fedavg", "large", {"rounds": 1})
    say(
        f"fedavg, 4 x 256, {clients:,} clients: peak memory", f"{found['peak']:.2f} GB",
        f"< {GIGABYTES:g} GB", found["peak"] < GIGABYTES,
        f"all models would take {found['models']:.2f} GB",
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("which", nargs="*", help="methods, models, or large")
    parser.add_argument("--clients", type=int, default=CLIENTS)
    given = parser.parse_args()
    unknown = {*given.which} - {*METHODS, *MODELS, "large"}
    if unknown:
        parser.error(f"{', '.join(unknown)}: there are {', '.join((*METHODS, *MODELS))} and large")
    if given.which == ["large"]:
        return large(given.clients)
    for method in [m for m in METHODS if m in given.which] or METHODS:
        for model in [m for m in MODELS if m in given.which] or MODELS:
            compare(given.clients, method, model)
    if not given.which or "large" in given.which:
        large(given.clients)


if __name__ == "__main__":
    main()
