"""CPU seconds and memory of `pfedfair predict` on a million people.

People are drawn from Adult, with an id, a column of noise so that hardly two are alike, and all of
Adult's columns. The model is the additive one with transport's thresholds, the dearest usual rule.
The bound is 30 s of CPU and 1 GB.

    python benchmarks/predict.py [ROWS]
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import pfedfair as pff


def write(path: Path, n: int) -> None:
    """Write n people drawn from Adult."""
    frame, rng = pff.load("adult").frame, np.random.default_rng(0)
    people = frame.iloc[rng.integers(len(frame), size=n)].reset_index(drop=True)
    people["fnlwgt"] += rng.integers(-5000, 5000, size=n)
    people.insert(0, "id", np.arange(n))
    people.to_parquet(path) if path.suffix == ".parquet" else people.to_csv(path, index=False)


def spent(*command: str) -> tuple[float, float]:
    """CPU seconds and the largest memory in MB of a process."""
    _, status, used = os.wait4(subprocess.Popen(command).pid, 0)
    assert status == 0
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        data = pff.load("adult", model="additive")
        algorithm = pff.make("transport", {"target_ddp": 0.05, "confidence": 0.0}, data)
        pff.train(data.federate(pff.partition.fixed_shares()), algorithm).save(run)
        for kind in ("csv", "parquet"):
            people, out = Path(folder) / f"people.{kind}", Path(folder) / f"out.{kind}"
            code = f"import predict, pathlib; predict.write(pathlib.Path({str(people)!r}), {n})"
            here = Path(__file__).parent
            subprocess.run([sys.executable, "-c", code], check=True, cwd=here)
            command = [sys.executable, "-c", "from pfedfair.cli import main; main()", "predict"]
            files = ["--input", str(people), "--output", str(out), "--id", "id", "--quiet"]
            cpu, memory = spent(*command, str(run), "--client", "1", *files)
            size = people.stat().st_size / 1e6
            print(f"{kind}: {n:,} rows, {size:.0f} MB: {cpu:.1f} s of CPU, {memory:.0f} MB at most")


if __name__ == "__main__":
    main()
