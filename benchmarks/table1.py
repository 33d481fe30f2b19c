"""What table 1 takes: this version against an earlier one, in turns.

    python benchmarks/table1.py                 # both data sets, five seeds: a quarter of an hour
    python benchmarks/table1.py --seeds 1 --rival HEAD~20

Seconds of CPU of the whole command, one process and one thread, all that it starts included. The
earlier version is taken from git; what it has in C is not built.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from run import say

HERE = Path(__file__).parent.parent
RIVAL, GOAL = "e4dae70", 2  # of 2026-11-16, before steps had memory and a kernel of their own


def unpacked(revision: str, folder: Path) -> Path:
    """The source of an earlier version."""
    packed = subprocess.run(
        ["git", "archive", revision, "src"], cwd=HERE, check=True, capture_output=True
    )
    subprocess.run(["tar", "-x"], cwd=folder, check=True, input=packed.stdout)
    return folder / "src"


def seconds(source: Path, dataset: str, seeds: int) -> float:
    """CPU seconds of the command with the package in this folder."""
    told = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(
            [sys.executable, "-c", "from pfedfair.cli import main; main()", "reproduce", "table1",
             "--datasets", dataset, "--seeds", str(seeds), "--jobs", "1", "--quiet",
             "--out", f"{out}/table1"],
            env=told, check=True,
        )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rival", default=RIVAL, help="a commit")
    asked = parser.parse_args()
    ours, theirs = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        earlier = unpacked(asked.rival, Path(folder))
        for dataset in ("adult", "compas"):
            ours[dataset] = seconds(HERE / "src", dataset, asked.seeds)
            theirs[dataset] = seconds(earlier, dataset, asked.seeds)
            ratio, detail = theirs[dataset] / ours[dataset], (ours[dataset], theirs[dataset])
            say(f"table 1, {dataset}", ratio, "-", True, "{:.1f} s / {:.1f} s".format(*detail))
    ratio = sum(theirs.values()) / sum(ours.values())
    detail = f"{sum(ours.values()):.1f} s / {sum(theirs.values()):.1f} s"
    say(
        f"table 1, {asked.seeds} seeds, against {asked.rival}",
        ratio,
        f">= {GOAL}",
        ratio >= GOAL,
        detail,
    )
