"""Accuracy on Adult if sites pool rare values, and if all rows are on one machine.

    python scripts/measure_inputs.py            # a minute
    python scripts/measure_inputs.py --least 3  # as with least-people = 3

Both train on the same rows, with the same random seeds; a site's inputs are pooled (no number or
category of fewer than `least-people` training rows), and all held-out rows are as they are.
"""

import argparse

import numpy as np

import pfedfair as pff
from pfedfair.engines.site.rows import as_sites

RUNS = (("newton", "additive", 5), ("newton", "additive", 50),
        ("fedavg", None, 5), ("fedavg", None, 50))  # fmt: skip


def accuracies(
    method: str, model: str | None, sites: int, seed: int, least: int
) -> tuple[float, float]:
    """Return the mean accuracy of all clients: of one machine, and of sites."""
    data = pff.load("adult", model=model) if model else pff.load("adult")
    one_machine = data.federate(pff.partition.fixed_shares(clients=sites), seed=seed)
    found = []
    for federation in (one_machine, as_sites(one_machine, least=least)):
        run = pff.train(federation, pff.make(method, {}, federation.data), seed=seed)
        found.append(float(run.table()["accuracy"].mean()))
    return found[0], found[1]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--least", type=int, default=10)
    given = parser.parse_args()
    seeds = range(given.seeds)
    for method, model, sites in RUNS:
        found = np.array([accuracies(method, model, sites, seed, given.least) for seed in seeds])
        lost = found[:, 0] - found[:, 1]
        error = lost.std(ddof=1) / len(lost) ** 0.5
        print(f"{method} ({model or 'mlp'}), {sites} sites of {12000 // sites} rows: "
              f"one machine {found[:, 0].mean():.4f}, sites {found[:, 1].mean():.4f}, "
              f"lost {100 * lost.mean():.2f} ± {100 * error:.2f} points",
              flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
