"""Certificates: false ones in simulation, and what they cost on real data.

    python benchmarks/certificates.py simulate --federations 2000
    python benchmarks/certificates.py adult --seeds 20
    python benchmarks/certificates.py compas --seeds 20
    python benchmarks/certificates.py states --seeds 20 --table acs-income-39-states.parquet

`simulate` makes federations of sites whose score distributions differ from the pooled ones that
their paths are made of, lets rows choose rules, and counts federations with any rule whose true
gap exceeds the target. The others compare certificates with the best guess, the confidence level,
the same test on a fifth of the rows, and FedFaiREE's rule (`fedfaire`).
"""

import argparse

import numpy as np
from scipy.special import expit, logit
from scipy.stats import beta

from pfedfair.theory.certificates import Path, choose, path_of

TARGET, JOINT = 0.05, 0.05
BINS = 200
CENTRES = (np.arange(BINS) + 0.5) / BINS
SITES = 3, 5, 10, 30, 100
ROWS = 100, 300, 1_000, 3_000, 10_000, 20_000
SHARES = 0.02, 0.1, 0.3, 0.5


def shapes_of(rng: np.random.Generator) -> np.ndarray:
    """Return two groups' distributions of scores, ``(2, bins)``."""
    mean, strength = expit(rng.normal(-0.8, 0.7) + rng.normal(0, 0.6, 2)), rng.uniform(2, 8, 2)
    mass = [beta.pdf(CENTRES, m * k, (1 - m) * k) for m, k in zip(mean, strength, strict=True)]
    return np.array([one / one.sum() for one in mass])


def moved(shapes: np.ndarray, scale: float, rng: np.random.Generator) -> np.ndarray:
    """Return a site's distributions: tilted, by other numbers in each group."""
    z = logit(CENTRES)
    by = rng.normal(0, scale, (2, 1)) * z + rng.normal(0, scale, (2, 1)) * z**2 / 4
    mass = shapes * np.exp(by - by.max(1, keepdims=True))
    return mass / mass.sum(1, keepdims=True)


def true_gap(path: Path, rule: int, parts: tuple[float, float], shapes: np.ndarray) -> float:
    above = logit(CENTRES)[None] >= path.thresholds[rule][:, None]
    other = (shapes * (above != path.usual)).sum(1)
    return abs(parts[1] * other[1] - parts[0] * other[0])


def federation(rng: np.random.Generator, randomised: float) -> tuple[int, int, int]:
    """Return how many sites there are, how many are certified, and how many of these falsely."""
    sites, pooled = int(rng.choice(SITES)), shapes_of(rng)
    same, scale = rng.random() < 0.5, rng.choice([0.0, 0.2, 0.6])
    n, share, certified, false = rng.choice(ROWS), rng.choice(SHARES), 0, 0
    for _ in range(sites):
        if not same:
            n, share = rng.choice(ROWS), rng.choice(SHARES)
        rows = np.array([n - round(n * share), round(n * share)])
        rows = rows if rng.random() < 0.5 else rows[::-1]
        shapes, path = (
            moved(pooled, scale, rng),
            path_of(np.tile(CENTRES, (2, 1)), pooled, rows / rows.sum()),
        )
        scores = [np.repeat(logit(CENTRES), rng.multinomial(m, mass))
                  for m, mass in zip(rows, shapes, strict=True)]  # fmt: skip
        found = choose(path, scores, TARGET, JOINT / sites, randomised)
        if found.rule is not None:
            certified += 1
            false += true_gap(path, found.rule, found.parts, shapes) > TARGET
    return sites, certified, false


def simulate(federations: int, seed: int) -> None:
    for randomised, number in ((0.0, federations), (1.0, federations // 20)):
        rng = np.random.default_rng(seed)
        found = np.array([federation(rng, randomised) for _ in range(number)])
        sites, certified, false = found.T
        any_false = (false > 0).mean()
        error = (any_false * (1 - any_false) / number) ** 0.5
        print(
            f"random decisions for up to {randomised:.0%} of the rows: {number:,} federations, "
            f"{sites.sum():,} sites, {certified.sum() / sites.sum():.0%} certified; any false "
            f"certificate in {any_false:.1%} (standard error {error:.1%}) of the federations, "
            f"{false.sum()} sites in all"
        )
        for m in np.unique(sites):
            of = sites == m
            print(f"  {m:4d} sites: {(false[of] > 0).mean():.1%} of {of.sum()}, "
                  f"{certified[of].sum() / sites[of].sum():.0%} certified")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["simulate", "adult", "compas", "states"])
    parser.add_argument("--federations", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if asked.what == "simulate":
        simulate(asked.federations, asked.seed)


if __name__ == "__main__":
    main()
