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
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from scipy.special import expit, logit
from scipy.stats import beta

import pfedfair as pff
from pfedfair.data import with_model
from pfedfair.methods.clients import Clients, hold_out
from pfedfair.rules import Rule, Thresholds
from pfedfair.runs import Run, certification
from pfedfair.theory.certificates import Path, choose, path_of

TARGET, JOINT = 0.05, 0.05
BINS = 2000
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
        found = []
        for k in range(number):
            found.append(federation(rng, randomised))
            if k % 100 == 99:
                print(f"{k + 1}: {np.mean([false > 0 for *_, false in found]):.3f}", flush=True)
        sites, certified, false = np.array(found).T
        any_false, most = (false > 0).mean(), certified >= 0.9 * sites
        error = (any_false * (1 - any_false) / number) ** 0.5
        print(
            f"random decisions for up to {randomised:.0%} of the rows: {number:,} federations, "
            f"{sites.sum():,} sites, {certified.sum() / sites.sum():.0%} certified; any false "
            f"certificate in {any_false:.1%} (standard error {error:.1%}) of the federations, "
            f"{false.sum()} sites in all; of the {most.sum()} federations with at least 90 % of "
            f"the sites certified in {(false[most] > 0).mean():.1%}"
        )
        for m in np.unique(sites):
            of = most & (sites == m)
            print(f"  of these with {m} sites: {(false[of] > 0).mean():.1%} of {of.sum()}")


def fedfaire(
    scores: Sequence[np.ndarray], y: Sequence[np.ndarray], target: float, level: float
) -> np.ndarray | None:
    """Return thresholds by the idea of FedFaiREE (arXiv 2402.16158), for demographic parity.

    A group's threshold is one of its calibration scores, in order. Above the k-th of n the share of
    the group's population is a Beta(n - k + 1, k) variable whatever its distribution. Pairs of
    ranks are candidates if their gap exceeds the target with a chance of at most the level; of
    these the one with the best accuracy on the calibration rows is taken. Here each site has its
    pair; the paper has one for all sites, from sketches of their scores.
    """
    ranks, rates, right = [], [], []
    grid = np.linspace(0, 1, 401)
    for z, y_z in zip(scores, y, strict=True):
        order = np.argsort(z)
        k = np.unique(np.linspace(1, len(z), min(len(z), 60)).astype(int))
        ranks.append(z[order][k - 1])
        rates.append(beta.cdf(grid, len(z) - k[:, None] + 1, k[:, None]))
        negatives = np.cumsum(1 - y_z[order])[k - 1] - (1 - y_z[order])[k - 1]
        right.append(negatives + y_z.sum() - np.cumsum(y_z[order])[k - 1] + y_z[order][k - 1])
    mass = np.diff(rates[0], axis=1)
    middle = (grid[1:] + grid[:-1]) / 2
    within = [np.array([np.interp(middle + sign * target, grid, of) for of in rates[1]])
              for sign in (1, -1)]  # fmt: skip
    exceeds = 1 - mass @ (within[0] - within[1]).T
    accuracy = np.where(exceeds <= level, right[0][:, None] + right[1], -1)
    i, j = np.unravel_index(accuracy.argmax(), accuracy.shape)
    return np.array([ranks[0][i], ranks[1][j]]) if accuracy[i, j] >= 0 else None


def with_rules(run: Run, rules: Sequence[Rule | None]) -> tuple[Run, np.ndarray]:
    """Return the run with the rules that are not None, and where these are."""
    new = [of or old for of, old in zip(rules, run.fitted.rules, strict=True)]
    return replace(run, fitted=run.fitted._replace(rules=new)), np.array(
        [r is not None for r in rules]
    )


def plain_split(federation: pff.Federation, method: pff.methods.Method, seed: int) -> Iterator:
    """Yield the same test, and FedFaiREE's rule, on a fifth of each site's rows."""
    table, part = federation.table, federation.partition
    every = Clients(None, table, part.train, range(len(federation)), seed + 1)
    trained, held = hold_out(every, 0.2)
    apart = replace(federation, partition=replace(part, train=tuple(trained.rows)))
    run, level = pff.train(apart, method, seed), JOINT / len(federation)
    rules = {"the test on a 20 % split": [], "FedFaiREE's rule on a 20 % split": []}
    for i, rows in enumerate(held.rows):
        z = Clients(run.network, table, [rows], [i], seed).scores(run.fitted.w, 0)[:, 0].numpy()
        s, y = table.s.numpy()[rows], table.y.numpy()[rows]
        scores, labels = ([x[s == g] for g in (0, 1)] for x in (z, y))
        path = method.path(run.fitted.server, part.shares[i])
        found = choose(path, [np.sort(of) for of in scores], TARGET, level, 0.0)
        chosen = None if found.rule is None else path.thresholds[found.rule]
        faire = fedfaire(scores, labels, TARGET, level) if all(map(len, scores)) else None
        for name, thresholds in zip(rules, (chosen, faire), strict=True):
            numbers = (
                None if thresholds is None else np.stack([thresholds] * 2 + [0 * thresholds] * 2)
            )
            rules[name].append(
                None if numbers is None else Thresholds(torch.tensor(numbers.T).float())
            )
    for name, found in rules.items():
        yield name, *with_rules(run, found)


def runs(federation: pff.Federation, seed: int) -> Iterator[tuple[str, Run, np.ndarray]]:
    """Yield a name, a run, and which sites it makes a claim about."""
    method = pff.make("transport", {"target_ddp": TARGET}, federation.data)
    every = np.ones(len(federation), bool)
    run = pff.train(federation, method, seed)
    yield "best guess", run.retarget(confidence=0.0), every
    yield "confidence .95", run.retarget(confidence=0.95), every
    first = pff.train(federation, method, seed, certify=True)
    for name, randomised in (("certificate", 0.05), ("certificate, randomised", 1.0)):
        certification.MAX_RANDOMISED = randomised
        found = first if randomised < 1 else certification.certify(first)
        yield name, found, np.isin(federation.partition.names, found.certificate["certified"])
    certification.MAX_RANDOMISED = 0.05
    yield from plain_split(federation, method, seed)


def real(make: Callable[[int], pff.Federation], seeds: int) -> None:
    found = []
    for seed in range(seeds):
        federation = make(seed)
        for name, run, claimed in runs(federation, seed):
            table = run.table()
            rows = federation.partition.train
            drawn = [
                np.mean(
                    one.rule.draw_chances(
                        one.logits(
                            run.federation.table.x[own],
                            run.federation.table.s[own],
                            run.federation.table.encoder,
                        ),
                        run.federation.table.s[own],
                    )
                    .max(1)
                    .values.numpy()
                    < 1
                )
                for one, own in zip(run.predictors, rows, strict=True)
            ]
            over = (table["ddp_low"] > TARGET).to_numpy() & claimed
            above = (table["ddp"] > TARGET).to_numpy() & claimed
            found.append({
                "method": name, "mean accuracy": 100 * table["accuracy"].mean(),
                "worst accuracy": 100 * table["accuracy"].min(),
                "claimed %": 100 * claimed.mean(), "randomised %": 100 * np.mean(drawn),
                "claims kept %": 100 * (1 - above.sum() / max(claimed.sum(), 1)),
                "all kept %": 100.0 * (not above.any()), "clearly broken": over.sum(),
                "largest": table["ddp"][claimed].max(),
            })  # fmt: skip
        means = pd.DataFrame(found).groupby("method", sort=False).mean().round(3)
        print(f"after {seed + 1} seeds\n{means.to_csv(sep='|')}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["simulate", "adult", "compas", "states"])
    parser.add_argument("--federations", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the simulation")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--rows", type=int, help="of a state; all if left out")
    parser.add_argument("--table", help="of the states")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if asked.what == "simulate":
        simulate(asked.federations, asked.seed)
        return
    if asked.what == "states":
        data = pff.load("acs", folder=asked.table)
        plan = pff.partition.by_column("STATE", rows=asked.rows)
    else:
        data = with_model(pff.load(asked.what), "additive")
        clients = None if asked.clients == 5 else asked.clients
        plan = (
            pff.partition.fixed_shares(clients=clients) if clients else pff.partition.fixed_shares()
        )
    real(lambda seed: data.federate(plan, seed), asked.seeds)


if __name__ == "__main__":
    main()
