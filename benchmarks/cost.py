"""What 1,000 runs cost on rented machines: measured CPU seconds times a price.

    python benchmarks/cost.py                # 0.04 an hour of one CPU
    python benchmarks/cost.py 0.03 adult     # another price; one data set

One run of each method with its tuned settings, in this process on one thread; its CPU seconds, with
dealing rows and measuring, times 1,000, and a part more for what a cluster is idle.
"""

import sys
import tempfile
import time
from pathlib import Path

import pfedfair as pff
from pfedfair.engines.local import one_thread
from pfedfair.experiments import Source, Spec, load_source, run_experiment

METHODS = ("fedavg", "transport", "fedavg-kde", "pfedfair", "pfedme-kde")
IDLE = 1.25  # CPU seconds that are paid for each that works: start, the last runs, lost ones


def seconds(name: str, method: str) -> float:
    source, plan = Source(name), pff.partition.fixed_shares()
    algorithm = pff.make(method, {}, name)
    with tempfile.TemporaryDirectory() as folder, one_thread():
        load_source(source)
        began = time.process_time()
        run_experiment([Spec(source, plan, method, algorithm, 0)], Path(folder), jobs=1)
        return time.process_time() - began


def main() -> None:
    numbers = [float(word) for word in sys.argv[1:] if word[0].isdigit()]
    names = [word for word in sys.argv[1:] if not word[0].isdigit()] or ["compas", "adult"]
    price = numbers[0] if numbers else 0.04
    print(f"price of one CPU for one hour: {price:g}; paid for {IDLE:g} times what works\n")
    print("| data | method | CPU s per run | CPU hours per 1,000 runs | price of 1,000 runs |")
    print("|---|---|---|---|---|")
    for name in names:
        for method in METHODS:
            one = seconds(name, method)
            hours = 1000 * one / 3600 * IDLE
            cells = (name, f"`{method}`", f"{one:.1f}", f"{hours:.1f}", f"{hours * price:.2f}")
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
