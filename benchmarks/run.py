"""Speed and memory, as ratios against a named rival in the same run.

    python benchmarks/run.py                 # all four
    python benchmarks/run.py round gradient  # some of them

Times on shared machines are noisy: each pair is measured alternately, and the ratio of the medians
is printed with the goal that we set ourselves.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import pfedfair as pff
from pfedfair import experiments
from pfedfair._native import kernel
from pfedfair._util import seeds
from pfedfair.engines import local
from pfedfair.federation import Batch
from pfedfair.models import MLP
from pfedfair.penalties.objective import Objective
from rival import pfedme_round


def alternate(
    ours: Callable[[], object],
    rival: Callable[[], object],
    repeats: int,
    clock: Callable[[], float] = time.process_time,
) -> tuple[float, float]:
    """Median seconds of CPU of each, measured in turns after a warm-up."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(repeats + 1):
        for call, kept in zip((ours, rival), times, strict=True):
            began = clock()
            call()
            if turn:
                kept.append(clock() - began)
    return statistics.median(times[0]), statistics.median(times[1])


def say(what: str, ratio: float, goal: str, met: bool, detail: str) -> None:
    said = "" if goal == "-" else "met" if met else "MISSED"
    print(f"{what:<46} {ratio:6.2f}x   goal {goal:<10} {said:<7} {detail}")


def synthetic(clients: int, rows: int, inputs: int) -> pff.Federation:
    """Clients of `rows` training rows each, `inputs` numbers (S among them)."""
    rng = np.random.default_rng(0)
    n = clients * rows * 4 // 3
    x = rng.normal(size=(n, inputs - 1)).astype(np.float32)
    frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(inputs - 1)])
    s = rng.integers(2, size=n)
    y = (x[:, 0] + 0.5 * s + rng.normal(size=n) > 0).astype(int)
    frame = frame.assign(s=s, y=y, site=np.arange(n) % clients)
    data = pff.from_frame(frame, label="y", sensitive="s", drop=["site"], encoding="standard")
    return data.federate(pff.partition.by_column("site"))


def bench_round() -> None:
    """(a) One pFedMe round against a tidy loop over clients in everyday PyTorch."""
    torch.set_num_threads(1)
    algorithm = pff.methods.PFedMe(
        rounds=1, batch=64, K=5, gamma=15.0, alpha=0.02, alpha_inner=0.01,
        optimiser="sgd", inner="sgd", prox_epochs=0,
    )  # fmt: skip
    for clients, goal, repeats in ((5, 2.5, 7), (50, 4.0, 3)):
        federation = synthetic(clients, 2400, 64)
        network = MLP(63, (64, 64), groups=2)
        kept: dict[str, torch.Tensor] = {}

        def ours(f=federation, n=network, kept=kept) -> None:
            kept["ours"] = local.fit(f, algorithm, n, 0).w

        def rival(f=federation, n=network, kept=kept) -> None:
            kept["rival"] = pfedme_round(f, algorithm, n, 0)

        fast, slow = alternate(ours, rival, repeats)
        error = (kept["ours"] - kept["rival"]).abs().max().item()
        assert error < 1e-5, f"the two compute different things: {error}"
        say(
            f"(a) pFedMe round, {clients} clients: loop / ours",
            slow / fast,
            f">= {goal}",
            slow / fast >= goal,
            f"{slow:.3f} s / {fast:.3f} s, weights equal to {error:.0e}",
        )


def bench_gradient() -> None:
    """(b) One Adult gradient against nothing but its matrix products."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    rows, n, widths = 5, 600, (65, 256, 256, 256, 256, 1)
    network = MLP(widths[0] - 1, widths[1:-1], groups=2)
    w = network.init(seeds.generator(0)).repeat(rows, 1)
    y, s = torch.rand(rows, n).round(), torch.randint(2, (rows, n))
    batch = Batch(torch.randn(rows, n, widths[0] - 1), y, s, torch.full((rows, n), 1 / n))
    objective = Objective(0.9)
    layers = [
        (torch.randn(rows, n, i), torch.randn(rows, n, o), torch.randn(rows, o, i))
        for i, o in pairwise(widths)
    ]

    rooms = [tuple(map(torch.empty_like, (slope, weight, x))) for x, slope, weight in layers]
    both = list(enumerate(zip(layers, rooms, strict=True)))

    def gradient() -> torch.Tensor:  # as training asks for it
        return network.gradient(w, batch.x, batch.s, lambda z: objective.slope(z, batch))

    def products() -> None:
        for number, ((x, slope, weight), (out, of_weight, of_x)) in both:
            torch.bmm(x, weight.mT, out=out)
            torch.bmm(slope.mT, x, out=of_weight)
            if number:
                torch.bmm(slope, weight, out=of_x)

    ours, bare = alternate(gradient, products, 60)
    say(
        "(b) Adult fair gradient: ours / bare products",
        ours / bare,
        "<= 1.15",
        ours / bare <= 1.15,
        f"{1e3 * ours:.1f} ms / {1e3 * bare:.1f} ms",
    )


def bench_throughput() -> None:
    """(c) 10 seeds x 5 eta on COMPAS: two processes against one with two threads."""
    plan = pff.partition.fixed_shares()
    specs = [
        pff.Spec(
            pff.Source("compas"), plan, "pfedfair", pff.methods.PFedFair(eta=eta, rounds=40), seed
        )
        for eta in (0.0, 0.3, 0.5, 0.7, 0.9)
        for seed in range(10)
    ]

    def two_processes() -> None:
        with tempfile.TemporaryDirectory() as folder:
            pff.run_experiment(specs, Path(folder) / "out", jobs=2)

    def two_threads() -> None:
        torch.set_num_threads(2)
        with tempfile.TemporaryDirectory() as folder:
            for spec in specs:
                experiments.execute(Path(folder), spec, lambda part: None)

    ours, rival = alternate(two_processes, two_threads, 1, time.perf_counter)
    say(
        "(c) COMPAS grid: two threads / two processes",
        rival / ours,
        ">= 1.3",
        rival / ours >= 1.3,
        f"{rival:.1f} s / {ours:.1f} s for {len(specs)} runs, starting the processes included",
    )


def bench_memory() -> None:
    """(d) Peak memory of 1,000 clients with Adult's network."""
    code = "import run; run.thousand_clients()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    peak, stack, seconds = map(float, done.stdout.split())
    say(
        "(d) 1,000 clients: peak memory / one stack",
        peak / stack,
        "< 3 GB",
        peak < 3,
        f"peak {peak:.2f} GB, one stack of models {stack:.2f} GB, {seconds:.0f} s",
    )


def thousand_clients() -> None:
    torch.set_num_threads(1)
    federation = synthetic(1000, 240, 65)
    network = MLP(64, (256,) * 4, groups=2)
    began = time.perf_counter()
    fitted = local.fit(federation, pff.methods.PFedFair(rounds=1, prox_epochs=1), network, 0)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(peak, fitted.theta.nbytes / 1e9, seconds)


BENCHMARKS = {
    "round": bench_round,
    "gradient": bench_gradient,
    "throughput": bench_throughput,
    "memory": bench_memory,
}

if __name__ == "__main__":
    print(f"Small perceptrons: {kernel.words()}.")
    for name in sys.argv[1:] or BENCHMARKS:
        BENCHMARKS[name]()
