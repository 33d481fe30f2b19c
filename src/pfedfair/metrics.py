"""What a client got: accuracy, DDP, negative prediction rates, and how sure we are.

Everything is computed from counts ``(clients, S, Y, Yhat)``: how many held-out rows of each group
and label got which prediction. Resampling rows within the groups is the same as drawing these
counts from a multinomial, so a bootstrap costs next to nothing.

DDP is the single difference ``|P(Yhat=1 | S=0) - P(Yhat=1 | S=1)|``. (The paper's formula sums over
the labels, which doubles it; its tables do not.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pfedfair import seeds
from pfedfair.federation import Table
from pfedfair.networks import Network, Thresholds

PROTOCOLS = ("pool", "paper", "validation")
MEASURES = ("accuracy", "ddp", "npr_s0", "npr_s1")
RUN = ["dataset", "method", "eta", "config", "partition", "protocol"]  # all but the seed
ROWS_AT_ONCE = 4096


def count(
    network: Network, theta: Tensor, table: Table, rows: Sequence[np.ndarray], seed: int = 0
) -> np.ndarray:
    """Count predictions of client i's model on its `rows[i]`, ``(clients, 2, 2, 2)``.

    A model that leaves some decisions to chance draws them from `seed`.
    """
    counts = np.zeros((len(theta), 2, 2, 2), dtype=np.int64)
    for i in range(len(theta)):
        if i > 0 and rows[i] is rows[0] and torch.equal(theta[i], theta[0]):
            counts[i] = counts[0]  # one model for all, on everybody's rows
            continue
        own = torch.from_numpy(rows[i])
        rng = seeds.generator(seed, seeds.TIES, i)
        for part in torch.split(own, ROWS_AT_ONCE):
            positive = decide(network, theta[i], table.x[part], rng)
            cell = 4 * table.s[part] + 2 * table.y[part].long() + positive.long()
            counts[i] += torch.bincount(cell, minlength=8).view(2, 2, 2).numpy()
    return counts


def decide(network: Network, theta: Tensor, x: Tensor, rng: np.random.Generator) -> Tensor:
    """Return one model's decisions on some people, ``(n,)``, by lot where it says so."""
    if isinstance(network, Thresholds):
        chance = network.chance(theta[None], x[None])[0]
        return torch.from_numpy(rng.random(len(x))) < chance
    return network.logits(theta[None], x[None])[0, :, 0] > 0


def measure(counts: np.ndarray, share_s1: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Accuracy, signed gap, DDP and negative prediction rates of counts ``(..., S, Y, Yhat)``.

    Parameters
    ----------
    share_s1
        The share of S = 1 to weight the groups by; without it, the share among the counts.

    Examples
    --------
    >>> counts = np.array([[[3, 1], [0, 0]], [[1, 1], [0, 2]]])
    >>> float(measure(counts)["ddp"]), float(measure(counts)["accuracy"])
    (0.5, 0.75)
    """
    group = counts.sum((-1, -2))
    with np.errstate(invalid="ignore"):
        right = (counts[..., 0, 0] + counts[..., 1, 1]) / group
        negative = counts[..., 0].sum(-1) / group
    share = group / group.sum(-1, keepdims=True)
    if share_s1 is not None:
        share = np.stack([1 - share_s1, share_s1], axis=-1)
    # A group that a client does not have counts for nothing, also when it was not measured.
    accuracy = np.where(share > 0, share * right, 0.0).sum(-1)
    gap = negative[..., 0] - negative[..., 1]
    return {
        "accuracy": accuracy,
        "gap": gap,
        "ddp": np.abs(gap),
        "npr_s0": negative[..., 0],
        "npr_s1": negative[..., 1],
    }


def bootstrap(
    counts: np.ndarray,
    share_s1: np.ndarray | None,
    rng: np.random.Generator,
    draws: int = 1000,
    level: float = 0.95,
) -> dict[str, np.ndarray]:
    """Intervals from resampling the held-out rows of each group.

    The interval of DDP is the interval of the signed gap, folded at 0: resampled absolute values
    would never reach 0 and hide that a gap may be none.
    """
    group = counts.sum((-1, -2))
    cells = counts.reshape(*group.shape, 4)
    drawn = np.zeros((draws, *cells.shape), dtype=np.int64)
    for place in np.ndindex(*group.shape):
        n = group[place]
        if n > 0:
            drawn[(slice(None), *place)] = rng.multinomial(n, cells[place] / n, size=draws)
    sample = measure(drawn.reshape(draws, *counts.shape), share_s1)
    tails = [(1 - level) / 2, (1 + level) / 2]
    accuracy = np.quantile(sample["accuracy"], tails, axis=0)
    low, high = np.quantile(sample["gap"], tails, axis=0)
    nearest = np.where(low * high > 0, np.minimum(np.abs(low), np.abs(high)), 0.0)
    negative = {f"npr_s{z}": np.quantile(sample[f"npr_s{z}"], tails, axis=0) for z in (0, 1)}
    return {
        "accuracy_low": accuracy[0],
        "accuracy_high": accuracy[1],
        **{f"{name}_low": ends[0] for name, ends in negative.items()},
        **{f"{name}_high": ends[1] for name, ends in negative.items()},
        "ddp_low": np.where(np.isnan(low), np.nan, nearest),
        "ddp_high": np.maximum(np.abs(low), np.abs(high)),
    }


def client_table(counts: np.ndarray, share_s1: np.ndarray | None, seed: int) -> pd.DataFrame:
    """One row per client: measures and their intervals."""
    found = measure(counts, share_s1)
    table = {name: found[name] for name in MEASURES}
    table |= bootstrap(counts, share_s1, seeds.generator(seed, seeds.BOOTSTRAP))
    return pd.DataFrame(table)


def mean_interval(values: Sequence[float] | np.ndarray, level: float = 0.95) -> tuple[float, ...]:
    """Mean over seeds and its Student-t interval; with one value the interval is unknown (NaN).

    >>> [round(v, 2) for v in mean_interval([1.0, 2.0, 3.0])]
    [2.0, -0.48, 4.48]
    """
    from scipy.stats import t

    values = np.asarray(values, dtype=float)
    n = len(values)
    mean = float(values.mean())
    if n < 2:
        return mean, float("nan"), float("nan")
    half = float(t.ppf((1 + level) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n))
    return mean, mean - half, mean + half


def over_clients(results: pd.DataFrame) -> pd.DataFrame:
    """Summarise each run over its clients.

    Worst accuracy and worst DDP may be those of different clients, as in the paper;
    the joint worst client is the one with the largest sum of error and DDP.
    """
    keys = [*RUN, "seed"]
    rows = []
    for key, run in results.groupby(keys, sort=False, dropna=False):
        if run["client"].duplicated().any():
            raise ValueError(f"two results for one client in the run {key}")
        joint = run.iloc[int(np.argmax(run["ddp"].fillna(0) - run["accuracy"]))]
        row = dict(zip(keys, key, strict=True))
        row |= {"worst_accuracy": run["accuracy"].min(), "worst_ddp": run["ddp"].max()}
        row |= {"mean_accuracy": run["accuracy"].mean(), "mean_ddp": run["ddp"].mean()}
        row |= {
            "joint_worst_client": joint["client"],
            "joint_worst_accuracy": joint["accuracy"],
            "joint_worst_ddp": joint["ddp"],
        }
        for role in ("underrepresented", "overrepresented"):
            part = run[run["role"] == role]
            row |= {f"{role}_{name}": part[name].mean() for name in MEASURES}
        rows.append(row)
    return pd.DataFrame(rows)
