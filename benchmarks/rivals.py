"""Race other simulators of federated learning, and everyday ways to write one.

    make bench-rivals                                      # with environments of their own
    python benchmarks/rivals.py                            # those that are installed
    python benchmarks/rivals.py --write docs/speed.md      # and keep the table there

Every contestant is a process on the same core, with one thread; they take turns. CPU seconds per
gradient step are compared, medians after a warm-up; a contestant whose model does not end at our
level of loss has done something else, and is left out. What cannot be installed is named.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pfedfair._native import kernel

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parent / ".rivals"
MARKS = "<!-- rivals -->", "<!-- end of rivals -->"
CLIENTS, ROUNDS = (5, 50), {"fedavg": "FedAvg", "pfedme": "pFedMe"}
NEAR = 0.03  # how far a loss may be from ours, as a part of it
ABSENT = {
    "PFLlib": "not on the package index",
    "BlazeFL": "not on the package index",
}
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
) | {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}


class Contestant(NamedTuple):
    name: str
    script: str
    environment: str = ""  # a folder of ENVIRONMENTS; "": ours

    def python(self) -> Path:
        folder = ENVIRONMENTS / self.environment / "bin" / "python"
        return folder if self.environment else Path(sys.executable)


OURS = Contestant("pfedfair", "ours")
CONTESTANTS = (
    OURS,
    Contestant("FedJAX (JAX 0.4)", "fedjax_round", "jax-0.4"),
    Contestant("FedJAX (JAX 0.10)", "fedjax_round", "jax-0.10"),
    Contestant("torch.func.vmap", "vmap"),
    Contestant("pfl-research", "pfl_round", "torch"),
    Contestant("fluke", "fluke_round", "torch"),
    Contestant("tidy PyTorch loop", "loop"),
)


class Runner:
    """A contestant's process."""

    def __init__(self, contestant: Contestant, clients: int) -> None:
        self.complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115  (until it stops)
        pin = {min(os.sched_getaffinity(0))} if hasattr(os, "sched_getaffinity") else None
        self.process = subprocess.Popen(
            [contestant.python(), HERE / "contestants" / f"{contestant.script}.py", str(clients)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.complaints,
            text=True,
            env=os.environ | ONE_THREAD,
            preexec_fn=partial(os.sched_setaffinity, 0, pin) if pin else None,
        )
        self.rounds: list[str] = self._hear()

    def do(self, what: str) -> dict[str, float]:
        assert self.process.stdin is not None
        print(what, file=self.process.stdin, flush=True)
        return dict(self._hear())

    def _hear(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.complaints.seek(0)
            said = self.complaints.read().strip().splitlines() or ["it ended"]
            raise OSError(said[-1])
        return json.loads(line)

    def stop(self) -> None:
        self.process.communicate()
        self.complaints.close()


@contextlib.contextmanager
def started(clients: int, skipped: dict[str, str]) -> Iterator[dict[str, Runner]]:
    """All contestants that can be started; why others cannot is added to `skipped`."""
    runners: dict[str, Runner] = {}
    try:
        for contestant in CONTESTANTS:
            if not contestant.python().exists():
                skipped[contestant.name] = "not installed: make bench-rivals"
                continue
            try:
                runners[contestant.name] = Runner(contestant, clients)
            except OSError as error:
                skipped[contestant.name] = str(error)
        yield runners
    finally:
        for runner in runners.values():
            runner.stop()


def race(clients: int, repeats: int, skipped: dict[str, str]) -> dict[tuple[str, str], dict]:
    """The medians of every contestant and round, by their names."""
    told: dict[tuple[str, str], list[dict[str, float]]] = {}
    with started(clients, skipped) as runners:
        for turn in range(repeats + 1):
            for what in ROUNDS:
                for name, runner in list(runners.items()):
                    if what not in runner.rounds:
                        continue
                    try:
                        answer = runner.do(what)
                    except OSError as error:
                        skipped[name] = f"{ROUNDS[what]} with {clients} clients: {error}"
                        del runners[name]
                        continue
                    if turn:
                        told.setdefault((name, what), []).append(answer)
            print(f"{clients} clients: {turn} of {repeats}", file=sys.stderr)
    found = {}
    for (name, what), each in told.items():
        middle = {key: statistics.median(one[key] for one in each) for key in each[0]}
        middle["megabytes"] = max(one["megabytes"] for one in each)
        ours = told[OURS.name, what][0]["loss"]
        if abs(middle["loss"] / ours - 1) > NEAR:
            skipped[f"{name}, {ROUNDS[what]}"] = (
                f"its loss is {middle['loss']:.3f}, ours {ours:.3f}"
            )
            continue
        found[name, what] = middle
    return found


def table(found: dict[int, dict[tuple[str, str], dict]], skipped: dict[str, str]) -> str:
    """The medians as ratios to ours, in Markdown."""
    columns = [(what, clients) for what in ROUNDS for clients in found]
    heads = [f"{ROUNDS[what]}, {clients} clients" for what, clients in columns]
    most = max(found)
    lines = [
        f"| CPU seconds per gradient step, in times ours | {' | '.join(heads)} | peak MB |",
        "|---" * (len(columns) + 2) + "|",
    ]

    def row(name: str, cells: Sequence[str], peak: str) -> str:
        return f"| {name} | {' | '.join(cells)} | {peak} |"

    for name in (contestant.name for contestant in CONTESTANTS):
        cells = []
        for what, clients in columns:
            one, ours = found[clients].get((name, what)), found[clients][OURS.name, what]
            if one is None:
                cells.append("-")
            elif name == OURS.name:
                each = 1e6 * one["seconds"] / one["steps"] / clients
                cells.append(f"1 ({one['seconds']:.3f} s, {each:.0f} µs a step)")
            else:
                per_step = one["seconds"] / one["steps"]
                cells.append(f"{per_step / (ours['seconds'] / ours['steps']):.1f}x")
        peaks = [one["megabytes"] for (who, _), one in found[most].items() if who == name]
        if peaks:
            lines.append(row(name, cells, f"{max(peaks):.0f}"))
    lines += [
        "",
        f"{date.today()}, {machine()}, one core and one thread for each; ours: {kernel.words()}.",
    ]
    lines += [f"Not in the race: {name} ({why})." for name, why in (ABSENT | skipped).items()]
    return "\n".join(lines)


def machine() -> str:
    """The processor's name, as far as the system tells it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def write(path: Path, text: str) -> None:
    """Put the table between the marks in a page."""
    before, rest = path.read_text().split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    path.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", type=Path, metavar="PAGE")
    options = parser.parse_args()
    skipped: dict[str, str] = {}
    result = table(
        {clients: race(clients, options.repeats, skipped) for clients in CLIENTS}, skipped
    )
    print(result)
    if options.write:
        write(options.write, result)
