"""Whole commands of this version and of another one side by side, in turns.

    python benchmarks/versions.py --before PATH_TO_OTHER_CHECKOUT
    python benchmarks/versions.py --before ../before --only pfedfair --times 1

Seconds of CPU with all that a command starts, and the most memory that it takes: medians of three.
The other checkout must have its libraries in C built, where it has some. `predict` needs the run of
`million` before it.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent.parent
RUN = """import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
sys.exit(code)
"""
TABLE = ("--label", "hired", "--sensitive", "sex", "--client", "client")
COMMANDS = {
    "transport": ("train", "adult", "--method", "transport", "--out", "run"),
    "pfedfair": ("train", "adult", "--method", "pfedfair", "--out", "run"),
    "table1": ("reproduce", "table1", "--seeds", "1", "--jobs", "1", "--out", "run"),
    "clients": ("train", "clients.parquet", *TABLE, "--method", "transport", "--out", "run"),
    "million": ("train", "million.parquet", *TABLE, "--method", "transport", "--out", "million"),
    "predict": (
        *("predict", "million", "--input", "million.parquet"),
        *("--client", "0", "--output", "decisions.csv"),
    ),
    "predict-csv": (
        *("predict", "million", "--input", "million.csv"),
        *("--client", "0", "--output", "decisions.csv"),
    ),
}


def write_table(path: Path, rows: int, clients: int) -> None:
    """Write a table of so many rows, whose label depends on the columns and a little on S."""
    rng = np.random.default_rng(0)
    x, sex = rng.standard_normal((rows, 6)), rng.integers(0, 2, rows)
    score = x @ rng.standard_normal(6) + 0.5 * sex + rng.standard_normal(rows)
    frame = pd.DataFrame(x.round(3), columns=[f"x{k}" for k in range(6)])
    frame["sex"] = np.where(sex == 1, "f", "m")
    frame["client"] = rng.permutation(np.arange(rows) % clients).astype(str)
    frame["hired"] = np.where(score > 0, "yes", "no")
    frame.to_parquet(path, index=False)


def measure(source: Path, folder: Path, command: tuple[str, ...]) -> tuple[float, float]:
    """Return CPU seconds and megabytes of a command, with the package in this folder."""
    settings = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    subprocess.run(["rm", "-rf", "run", "decisions.csv"], cwd=folder, check=True)
    if command[0] == "train" and "million" in command[-1]:
        subprocess.run(["rm", "-rf", "million"], cwd=folder, check=True)
    pfedfair = [sys.executable, "-m", "pfedfair", *command, "--quiet"]
    done = subprocess.run(
        [sys.executable, "-c", RUN, *pfedfair],
        cwd=folder, env=settings, check=True, capture_output=True, text=True,
    )  # fmt: skip
    seconds, memory = map(float, done.stdout.split())
    return seconds, memory


def compare(before: Path, names: list[str], times: int) -> None:
    """Print a line for each command."""
    sources = before / "src", HERE / "src"
    print(f"{'command':12}{'before':>20}{'now':>20}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as root:
        folders = [Path(root) / name for name in ("before", "now")]
        for folder in folders:
            folder.mkdir()
            write_table(folder / "clients.parquet", 500_000, 10_000)
            write_table(folder / "million.parquet", 1_000_000, 10)
            pd.read_parquet(folder / "million.parquet").to_csv(folder / "million.csv", index=False)
        for name in names:
            found = [[measure(*one, COMMANDS[name]) for one in zip(sources, folders, strict=True)]
                     for _ in range(times)]  # fmt: skip
            each = [[statistics.median(part) for part in zip(*runs, strict=True)]
                    for runs in zip(*found, strict=True)]  # fmt: skip
            cells = [f"{seconds:.1f} s {memory:,.0f} MB" for seconds, memory in each]
            ratio = each[1][0] / each[0][0]
            print(f"{name:12}{cells[0]:>20}{cells[1]:>20}{ratio:8.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="another checkout")
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--times", type=int, default=3, help="runs of each; the median counts")
    asked = parser.parse_args()
    compare(asked.before.resolve(), asked.only, asked.times)
