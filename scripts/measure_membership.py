"""Who was trained on? What a model tells of that by its losses, and nothing else.

    python scripts/measure_membership.py  # two minutes

The attack of Yeom et al. (2018): a person whose loss is at most a limit is called one of the
training rows. The advantage is the part of training rows called so less the part of others called
so: 0 by guessing, 1 if all are told apart. The limit is the best one on half of the people, and the
advantage is measured on the other half. Others are held-out rows with the client's own shares of
the groups: were they of other people, the attack would find that out, and not who was trained on.
"""

import warnings
from collections.abc import Iterator

import numpy as np
import torch

import pfedfair as pff
from pfedfair.federation import stack
from pfedfair.penalties.objective import losses

METHODS = {"fedavg": 0.0, "pfedfair": 0.9, "kde-local": 0.9, "transport": 0.0}


def advantage(members: np.ndarray, others: np.ndarray, rng: np.random.Generator) -> float:
    """Of the attack on losses, see above.

    >>> rng = np.random.default_rng(0)
    >>> advantage(np.zeros(100), np.ones(100), rng)
    1.0
    """
    (a, a_test), (b, b_test) = (np.array_split(rng.permutation(x), 2) for x in (members, others))
    limits = np.quantile(np.concatenate([a, b]), np.linspace(0, 1, 201))
    gains = [(a <= limit).mean() - (b <= limit).mean() for limit in limits]
    best = limits[int(np.argmax(gains))]
    return float((a_test <= best).mean() - (b_test <= best).mean())


def alike(held: np.ndarray, rows: np.ndarray, s: np.ndarray) -> np.ndarray:
    """As many of the held-out rows as there are with the groups' shares among `rows`."""
    there, shares = (np.bincount(s[some], minlength=2) for some in (held, rows))
    part = min(there[shares > 0] / shares[shares > 0])
    chosen = [held[s[held] == z][: int(part * n)] for z, n in enumerate(shares)]
    return np.concatenate(chosen)


def losses_of(run: pff.Run, client: int, rows: np.ndarray) -> np.ndarray:
    """Every person's loss by a client's own model."""
    batch = stack(run.federation.table, [rows])
    logits = run.network.logits(run.fitted.theta[client][None], batch.x, batch.s)
    return losses(logits, batch)[0].double().numpy()


def measure(method: str, seeds: int = 2, data: str = "adult", **more: object) -> Iterator[float]:
    """The advantage at each client, its own model attacked; others are the held-out rows."""
    for seed in range(seeds):
        federation = pff.load(data).federate(pff.partition.fixed_shares(), seed)
        settings = {"eta": METHODS[method]} if METHODS[method] else {}
        run = pff.train(federation, pff.make(method, settings | more, data), seed)
        held = np.unique(np.concatenate(federation.partition.test))
        rng, s = np.random.default_rng(seed), federation.table.s.numpy()
        for client, rows in enumerate(federation.partition.train):
            others = alike(rng.permutation(held), rows, s)
            yield advantage(losses_of(run, client, rows), losses_of(run, client, others), rng)


def main() -> None:
    for method in METHODS:
        found = np.array(list(measure(method)))
        print(f"{method}: advantage {found.mean():+.3f} on average, {found.max():+.3f} at the most "
              f"exposed of {len(found)} clients")  # fmt: skip


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", pff.CollapseWarning)
    main()
