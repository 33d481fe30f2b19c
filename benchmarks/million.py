"""A million embeddings in a federation of ten: seconds, and peak memory of at most 6 GB.

    python benchmarks/million.py
    python benchmarks/million.py --rows 100000 --width 512

The embeddings are made up and written to a Parquet file part by part. One child process does it
from Python, one types the command; each has one thread, and the peak is its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS, WIDTH, CLIENTS, LIMIT = 1_000_000, 768, 10, 6.0
PART = 20_000  # rows that are made at a time
PEAK = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)"
FROM_PYTHON = """
import json, sys, time
import pfedfair as pff

began, seconds = time.perf_counter(), {{}}
def lap(name):
    seconds[name] = round(time.perf_counter() - began - sum(seconds.values()), 1)
data = pff.load({path!r}, label="label", sensitive="group")
lap("load")
federation = data.federate(pff.partition.by_column("site"))
lap("federate")
run = pff.train(federation, pff.methods.FedAvg(rounds=2, alpha=0.003, ridge=0.01), network="linear")
lap("train")
table = run.table()
lap("measure")
data.digest
lap("digest")
print(json.dumps(seconds | {{"accuracy": round(float(table["accuracy"].mean()), 3)}}))
"""
COMMAND = """
import sys
from pfedfair import cli

sys.argv = ["pfedfair", "train", {path!r}, "--label", "label", "--sensitive", "group"]
sys.argv += ["--partition", "column", "--client", "site", "--method", "fedavg", "--rounds", "2"]
sys.argv += ["--set", "epochs=1", "--out", {out!r}, "--quiet"]
try:
    cli.main()
except SystemExit as stop:
    assert not stop.code
"""


def make(path: Path, rows: int, width: int) -> None:
    """Write embeddings whose first numbers know the label and the group; files in no order."""
    kind = pa.list_(pa.float16(), width)
    names = [(name, pa.string()) for name in ("file", "site", "group")]
    schema = pa.schema([*names, ("label", pa.int8()), ("embedding", kind)])
    rng, order = np.random.default_rng(0), np.random.default_rng(1).permutation(rows)
    with pq.ParquetWriter(path, schema, compression="none") as file:
        for start in range(0, rows, PART):
            at = order[start : start + PART]
            label, group = (rng.integers(0, 2, len(at), dtype=np.int8) for _ in range(2))
            values = rng.standard_normal((len(at), width), dtype=np.float32)
            values[:, 0] += label
            values[:, 1] += group
            flat = pa.array(values.astype(np.float16).ravel(), pa.float16())
            columns = {
                "file": [f"{number:07d}.jpg" for number in at],
                "site": [f"site {number % CLIENTS}" for number in at],
                "group": np.where(group == 1, "a", "b"),
                "label": label,
                "embedding": pa.FixedSizeListArray.from_arrays(flat, width),
            }
            file.write_table(pa.table(columns, schema=schema))


def measured(script: str) -> tuple[list[str], float, float]:
    """Run a script in a process of its own: what it printed, its seconds and its peak in GB."""
    began = time.perf_counter()
    alone = os.environ | {"OMP_NUM_THREADS": "1"}
    child = [sys.executable, "-c", f"{script}\n{PEAK}"]
    done = subprocess.run(child, env=alone, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    *said, peak = done.stdout.splitlines()
    return said, time.perf_counter() - began, float(peak)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--width", type=int, default=WIDTH)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "million.parquet", Path(folder) / "run"
        began = time.perf_counter()
        make(path, given.rows, given.width)
        size = path.stat().st_size / 2**30
        told = f"{given.rows:,} embeddings of {given.width}"
        print(f"{told}, {size:.2f} GB, written in {time.perf_counter() - began:.0f} s")
        said, seconds, first = measured(FROM_PYTHON.format(path=str(path)))
        laps = ", ".join(f"{name} {value}" for name, value in json.loads(said[-1]).items())
        print(f"from Python: {seconds:.0f} s ({laps}), peak {first:.2f} GB")
        _, seconds, second = measured(COMMAND.format(path=str(path), out=str(out)))
        print(f"pfedfair train: {seconds:.0f} s, peak {second:.2f} GB")
    return int(max(first, second) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
