"""A million rows of fifteen columns: seconds of CPU and peak memory to read, encode and train.

    python benchmarks/rows.py
    python benchmarks/rows.py --rows 100000

The table is made up: numbers with a spike and with empty cells, codes, words, hundreds of levels,
dates, an identifier. It is written to a Parquet file; one child process with one thread reads it,
fits the encoder, encodes all rows, trains `transport` with its usual settings and measures it. The
limits are for all of it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

ROWS, SECONDS, GIGABYTES = 1_000_000, 60.0, 3.0
CHILD = """
import json, resource, time
import pfedfair as pff
from pfedfair.data.table import read_table

began, seconds = time.process_time(), {{}}
def lap(name):
    seconds[name] = round(time.process_time() - began - sum(seconds.values()), 2)
def peak():
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)
before = peak()
frame = read_table(__import__("pathlib").Path({path!r}))
lap("read")
data = pff.from_frame(frame, "label", "sex", categorical=["occupation"])
lap("columns")
federation = data.federate(pff.partition.by_column("state"))
lap("encode")
encoded = peak()
run = pff.train(federation, pff.make("transport", {{"target_ddp": 0.05, "confidence": 0.0}}, data))
lap("train")
table = run.table()
lap("measure")
stored = federation.table.x.nbytes / 2**20
print(json.dumps({{"seconds": seconds, "GB at the start": before, "GB encoded": encoded,
    "GB at the end": peak(), "MB stored": round(stored), "inputs": federation.encoder.width,
    "mean accuracy": round(float(table["accuracy"].mean()), 3),
    "largest DDP": round(float(table["ddp"].max()), 3), "notes": data.notes}}))
"""


def people(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"age": rng.integers(16, 95, n), "hours": rng.choice(np.r_[[40] * 50, :99], n)}
    )
    frame["income"] = rng.lognormal(10, 1, n).astype(np.float32)
    frame["gain"] = np.where(rng.random(n) < 0.92, 0, rng.integers(100, 99_999, n))
    frame["weight"] = rng.normal(75, 12, n)
    frame["pressure"] = np.where(rng.random(n) < 0.3, np.nan, rng.normal(120, 15, n))
    frame["schooling"] = rng.integers(1, 25, n)
    frame["occupation"] = rng.zipf(1.2, n).clip(max=529)
    frame["birthplace"] = rng.choice([f"place {i}" for i in range(223)], n)
    frame["marital"] = rng.choice(["married", "single", "divorced", "widowed"], n)
    frame["owner"] = rng.random(n) < 0.6
    frame["since"] = pd.Timestamp("2000-01-01") + pd.to_timedelta(rng.integers(0, 8000, n), "D")
    frame["id"] = rng.permutation(n) + 10_000_000
    frame["state"] = rng.choice([f"state {i}" for i in range(39)], n)
    frame["sex"] = rng.integers(1, 3, n)
    odds = 0.05 * (frame["age"] - 40) + 0.2 * frame["schooling"] - 3
    return frame.assign(label=rng.random(n) < 1 / (1 + np.exp(-odds)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        people(rows).to_parquet(path)
        one = {"OMP_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1"}
        code = CHILD.format(path=str(path))
        done = subprocess.run(
            [sys.executable, "-c", code], env=os.environ | one, capture_output=True, text=True
        )
    if done.returncode:
        sys.exit(done.stderr)
    found = json.loads(done.stdout)
    for name, value in found.items():
        print(f"{name}: {value}")
    spent, most = sum(found["seconds"].values()), found["GB at the end"]
    print(f"{rows:,} rows read, encoded and trained on: {spent:.1f} s of CPU, {most} GB at most.")
    if rows <= ROWS and (spent > SECONDS or most > GIGABYTES):
        sys.exit(f"The limits are {SECONDS} s and {GIGABYTES} GB.")


if __name__ == "__main__":
    main()
