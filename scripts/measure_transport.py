"""Print the figures on transport that docs/methods/transport.md and docs/decisions name.

Six questions, each in a minute or two, `differ` in ten, the last in a quarter of an hour:

- rows: how far off is a gap that was set on held rows only, or on training rows?
- agree: what do the rounds in which clients agree on kappa bring, on Adult's validation rows?
- confidence: how often do simulated clients keep a target, by how alike they are?
- differ: how often do clients whose people differ keep a target, by how many they are, and rows?
- noise: how far off is a gap if counts are private?
- pool: how far above its target is the worst client, by seeds 0 to 4 and by twenty seeds, and how
  far would it be if it were known that clients' people are alike?

Run: python scripts/measure_transport.py rows agree confidence differ noise pool
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import torch

import pfedfair as pff
from pfedfair.data import from_frame
from pfedfair.data.task import Task
from pfedfair.methods import Clients
from pfedfair.methods.defaults import as_many_steps, make
from pfedfair.methods.transport import Transport
from pfedfair.methods.transport.counts import likeness
from pfedfair.models import MLP
from pfedfair.runs.predictor import Predictor, count
from pfedfair.studies.study import ROWS
from pfedfair.theory import shrinkage

SEEDS = (100, 101, 102, 103)
CLIENTS = (5, 20, 50)
BINS = 500
TARGET = 0.05


def trained(seeds: Iterable[int] = SEEDS, validation: float = 0.2) -> Iterator[tuple[int, pff.Run]]:
    """Transport on Adult without the validation rows, with the paper's settings."""
    for clients in CLIENTS:
        for seed in seeds:
            number = None if clients == 5 else clients
            plan = pff.partition.fixed_shares(number, validation=validation)
            small = as_many_steps("adult", "transport", ROWS // clients) if number else {}
            yield (
                clients,
                pff.train(
                    pff.load("adult").federate(plan, seed),
                    make("transport", {"confidence": 0.0} | small, "adult"),
                    seed,
                ),
            )


def rows() -> None:
    """Fit thresholds for a gap of 0 on everybody's held or training rows; look at validation."""
    found: dict[str, list[float]] = {"held": [], "trained": []}
    for _, run in trained():
        server, own = run.fitted.server, run.fitted.own
        counts = {"held": own["held"].sum((0, 1, 3)), "trained": own["trained"].sum(0)}
        for name, people in counts.items():
            algorithm = run.algorithm.change(target_ddp=0.0, kappa=float("inf"))  # type: ignore[attr-defined]
            share = run.federation.partition.shares[0]
            rng = np.random.default_rng(0)
            pool = server | {"counts": people}
            table = run.federation.table
            rule = algorithm.solve(pool, np.zeros_like(people.numpy()), share, rng, table.task)
            predictor = Predictor(run.network, run.fitted.theta[0], rule)
            validation = np.concatenate(run.federation.partition.validation)
            seen = count([predictor], table, [validation], run.seed)
            found[name].append(float(pff.metrics.measure(seen)["ddp"][0]))
    for name, gaps in found.items():
        print(f"gap set to 0 on {name} rows, on validation rows: {_rms(gaps):.3f} (rms of 12 runs)")


def agree() -> None:
    """Worst and mean DDP less the target on validation rows, without and with agreement."""
    over: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for clients, run in trained():
        agreed = run.fitted.server
        flat = agreed | {"prior": torch.from_numpy(shrinkage.FLAT)}
        del flat["population"]
        servers = {
            "without agreement": flat,
            "after five rounds": agreed,
            "after twenty rounds": further(run, 15),
            "known to be alike": agreed,
        }
        for name, server in servers.items():
            changed = replace(run, fitted=run.fitted._replace(server=server))
            kappa = float("inf") if name == "known to be alike" else None
            for target in (0.02, 0.05, 0.1):
                ddp = changed.retarget(target_ddp=target, kappa=kappa).table("validation")["ddp"]
                over.setdefault((clients, name), []).append(
                    (ddp.max() - target, ddp.mean() - target)
                )
    for (clients, name), values in over.items():
        worst, mean = np.mean(values, axis=0)
        print(f"{clients} clients, {name}: worst DDP {worst:+.3f}, mean {mean:+.3f}")


def further(run: pff.Run, rounds: int) -> dict[str, torch.Tensor]:
    """The server's state after more rounds in which clients agree."""
    part, server = run.federation.partition, run.fitted.server
    clients = Clients(
        run.network, run.federation.table, part.train, [*range(len(part.train))], run.seed
    )
    for _ in range(rounds):
        found = run.algorithm.beliefs(server, run.fitted.own, clients)  # type: ignore[attr-defined]
        server = run.algorithm.server_round(server, likeness(found, silent=False), torch.empty(0))
    return server


def pool() -> None:
    """Worst and mean DDP less the target on the held-out pool, over few and many seeds."""
    over: dict[tuple[int, str, float], list[tuple[float, float]]] = {}
    for clients, run in trained(range(20), validation=0.0):
        for name, kappa in (("kappa learnt", None), ("known to be alike", float("inf"))):
            for target in (0.02, 0.05, 0.1):
                ddp = run.retarget(target_ddp=target, kappa=kappa).table("pool")["ddp"]
                over.setdefault((clients, name, target), []).append(
                    (ddp.max() - target, ddp.mean() - target)
                )
    for (clients, name, target), values in over.items():
        parts = []
        for seeds in (5, 20):
            worst, low, high = pff.metrics.mean_interval(np.array(values)[:seeds, 0])
            mean = np.mean(values[:seeds], axis=0)[1]
            parts.append(
                f"{seeds} seeds: worst {worst:+.3f} [{low:+.3f}, {high:+.3f}], mean {mean:+.3f}"
            )
        print(f"{clients} clients, {name}, target {target:g}: {'; '.join(parts)}")


def confidence() -> None:
    """Simulate clients of 200 rows around a common pool; count those that keep the target."""
    for kappa in (50.0, 150.0, 1e3, 1e6):
        for learnt in (False, True):
            parts = []
            for sure in (0.0, 0.95):
                gaps = simulated(kappa, sure, learnt)
                parts.append(f"confidence {sure}: {100 * np.mean(gaps <= TARGET):.0f} %")
            prior = "learnt" if learnt else "flat"
            print(f"kappa {kappa:g}, {prior} prior, target kept: {', '.join(parts)}")


def simulated(kappa: float, sure: float, learnt: bool, clients: int = 200) -> np.ndarray:
    """The true gaps of clients whose groups' shapes are Dirichlet draws around a pool's."""
    rng = np.random.default_rng(0)
    at = (np.arange(BINS) + 0.5) / BINS
    pool = np.stack([at ** (a - 1) * (1 - at) ** (b - 1) for a, b in ((1, 4), (2, 3))])
    pool /= pool.sum(1, keepdims=True)
    true = np.stack([rng.gamma(kappa * pool + 1e-12) for _ in range(clients)])
    true /= true.sum(2, keepdims=True)
    counts = np.array([[rng.multinomial(100, shape) for shape in one] for one in true], dtype=float)
    everybody = 1000 * pool
    prior = shrinkage.FLAT
    for _ in range(Transport().agree if learnt else 0):
        votes = [shrinkage.kappa_posterior(n, q, prior) for one in counts
                 for n, q in zip(one, pool, strict=True)]  # fmt: skip
        prior = (shrinkage.FLAT + np.sum(votes, axis=0)) / (1 + len(votes))
    server = {
        "w": torch.zeros(1, dtype=torch.float64),
        "eta": torch.from_numpy(np.stack([np.stack([1 - at, at])] * 2)),
        "counts": torch.from_numpy(everybody),
        "prior": torch.from_numpy(prior),
    }
    algorithm = Transport(target_ddp=TARGET, confidence=sure, bins=BINS)
    gaps = []
    for shape, n in zip(true, counts, strict=True):
        rule = algorithm.solve(server, n, np.array([0.5, 0.5]), rng, Task()).numbers.numpy()
        low, high = (BINS / (1 + np.exp(-np.clip(rule[:, k], -50, 50))) for k in (0, 1))
        place = np.arange(BINS) + 0.5
        chance = np.where(place > high[:, None], 1.0,
                          np.where(place < low[:, None], 0.0, rule[:, 2:3]))  # fmt: skip
        rate = (shape * chance).sum(1)
        gaps.append(abs(rate[1] - rate[0]))
    return np.array(gaps)


def differ(people: int = 20_000) -> None:
    """Train on clients whose groups' scores lie elsewhere; count those that keep the target.

    A number that the label depends on is moved by a draw for each client, .3 wide, and by one for
    each of its groups, .2 wide. True gaps are measured on many people, who are not told of.
    """
    for clients, seeds in ((3, 40), (5, 24), (10, 12), (40, 3)):
        for rows in (60, 250, 1000):
            gaps, right = [], []
            for seed in range(seeds):
                table = trained_on_differing(clients, rows, people, seed)
                gaps.append(table["ddp"])
                right.append(table["accuracy"])
            found = np.concatenate(gaps)
            print(f"{clients} clients of {rows} rows that differ, confidence 0.95: "
                  f"{100 * np.mean(found <= TARGET):.0f} % of {len(found)} are within {TARGET}, "
                  f"the largest gap is {found.max():.3f}; "
                  f"accuracy {100 * np.mean(np.concatenate(right)):.1f} %", flush=True)  # fmt: skip


def trained_on_differing(clients: int, rows: int, people: int, seed: int) -> pd.DataFrame:
    """What clients get whose people differ, see `differ`."""
    rng = np.random.default_rng(seed)
    share = rng.uniform(0.3, 0.7, clients)
    moved = 0.3 * rng.normal(size=(clients, 1)) + 0.2 * rng.normal(size=(clients, 2))
    site = np.repeat(np.arange(clients), rows + people)
    group = (rng.random(len(site)) < share[site]).astype(int)
    x = rng.normal(size=(len(site), 2))
    x[:, 0] += 0.5 * group + moved[site, group]
    label = rng.random(len(site)) < 1 / (1 + np.exp(0.5 - x @ [1.2, 0.6]))
    frame = pd.DataFrame({"x": x[:, 0], "z": x[:, 1], "s": group, "y": label.astype(int)})
    data = from_frame(frame.assign(site=[f"{i:02d}" for i in site]), "y", "s")
    plan = pff.partition.by_column("site", rows=rows)
    asked = {"target_ddp": TARGET, "confidence": 0.95}
    return pff.train(data.federate(plan, seed), make("transport", asked, data), seed).table()


def noise() -> None:
    """How far a client's gap is from 0 when counts are made private with epsilon 1."""
    for bins in (500, 20):
        gaps = []
        for seed in range(5):
            rng = np.random.default_rng(seed)
            n = 40_000
            s = rng.integers(0, 2, n)
            x = rng.normal(0.7 * s, 1.0)
            y = rng.random(n) < 1 / (1 + np.exp(-1.5 * x))
            columns = {"x": x, "s": s, "y": y.astype(int), "site": np.arange(n) % 5}
            data = from_frame(pd.DataFrame(columns), "y", "s")
            plan = pff.partition.by_column("site", test=0.7)
            federation = data.federate(plan, seed)
            algorithm = Transport(rounds=12, alpha=0.05, target_ddp=0.0, bins=bins, epsilon=1.0,
                                  confidence=0.0)  # fmt: skip
            network = MLP(federation.encoder.width, (), groups=2)
            run = pff.train(federation, algorithm, seed, network)
            gaps += list(run.table()["ddp"])
        print(f"epsilon 1, {bins} bins, 5 clients of 2,400 rows: gap {_rms(gaps):.3f} (rms)")


def _rms(values: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


if __name__ == "__main__":
    warnings.simplefilter("ignore", pff.CollapseWarning)
    torch.set_num_threads(1)
    parts = {"rows": rows, "agree": agree, "confidence": confidence, "differ": differ,
             "noise": noise, "pool": pool}  # fmt: skip
    for name in sys.argv[1:] or parts:
        parts[name]()
