"""What a client got: accuracy, DDP, negative prediction rates, and how sure we are.

Everything is computed from counts ``(clients, S, Y, Yhat)``: how many held-out rows of each group
and label got which prediction. Resampling rows within the groups is the same as drawing these
counts from a multinomial, so a bootstrap costs next to nothing.

DDP is the single difference ``|P(Yhat=1 | S=0) - P(Yhat=1 | S=1)|``. (The paper's formula sums over
the labels, which doubles it; its tables do not.) With more groups or classes it is the largest such
difference, over all pairs of groups and all predictions. `eo` (equalised odds) is the largest among
people of equal label, `eopp` (equal opportunity) that of the last label's being predicted among
those who have it. Groups without rows to measure are left out; with fewer than two, it is NaN.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pfedfair import seeds
from pfedfair.federation import Table
from pfedfair.networks import Lookup, Network, Thresholds

PROTOCOLS = ("pool", "paper", "validation")
GAPS = {"dp": "ddp", "eo": "eo", "eopp": "eopp"}  # the measure that goes with a criterion
ROWS_AT_ONCE = 4096


def count(
    network: Network, theta: Tensor, table: Table, rows: Sequence[np.ndarray], seed: int = 0
) -> np.ndarray:
    """Count predictions of client i's model on its `rows[i]`, ``(clients, S, Y, Yhat)``.

    A model that leaves some decisions to chance draws them from `seed`.
    """
    groups, classes = table.kinds.groups, table.kinds.classes
    counts = np.zeros((len(theta), groups, classes, classes), dtype=np.int64)
    for i in range(len(theta)):
        if i > 0 and rows[i] is rows[0] and torch.equal(theta[i], theta[0]):
            counts[i] = counts[0]  # one model for all, on everybody's rows
            continue
        own = torch.from_numpy(rows[i])
        rng = seeds.generator(seed, seeds.TIES, i)
        for part in torch.split(own, ROWS_AT_ONCE):
            decision = decide(network, theta[i], table.x[part], rng)
            cell = (classes * table.s[part] + table.y[part].long()) * classes + decision
            found = torch.bincount(cell, minlength=counts[i].size)
            counts[i] += found.view(counts[i].shape).numpy()
    return counts


def decide(network: Network, theta: Tensor, x: Tensor, rng: np.random.Generator) -> Tensor:
    """Return one model's decisions on some people, ``(n,)``, by lot where it says so."""
    if isinstance(network, Thresholds | Lookup):
        chances = network.chances(theta[None], x[None])[0].double()
        least = chances.flip(-1).cumsum(-1).flip(-1)  # of this class or a later one
        lot = torch.from_numpy(rng.random(len(x)))[:, None]
        return (lot < least[:, 1:]).sum(1)
    logits = network.logits(theta[None], x[None])[0]
    return logits.argmax(1) if logits.shape[1] > 1 else (logits[:, 0] > 0).long()


def measure(counts: np.ndarray, shares: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Accuracy, gaps and rates of the first prediction, of counts ``(..., S, Y, Yhat)``.

    Parameters
    ----------
    shares
        The groups' shares ``(..., S)`` to weight them by; without it, those among the counts.

    Examples
    --------
    >>> counts = np.array([[[3, 1], [0, 0]], [[1, 1], [0, 2]]])
    >>> float(measure(counts)["ddp"]), float(measure(counts)["accuracy"])
    (0.5, 0.75)
    """
    group = counts.sum((-1, -2))
    with np.errstate(invalid="ignore"):
        right = np.trace(counts, axis1=-2, axis2=-1) / group
        negative = counts[..., 0].sum(-1) / group
    share = group / group.sum(-1, keepdims=True) if shares is None else shares
    # A group that a client does not have counts for nothing, also when it was not measured.
    accuracy = np.where(share > 0, share * right, 0.0).sum(-1)
    found = {name: largest(np.abs(each)) for name, each in gaps(counts).items()}
    rates = {f"npr_s{z}": negative[..., z] for z in range(counts.shape[-3])}
    return {"accuracy": accuracy, **found, **rates}


def gaps(counts: np.ndarray) -> dict[str, np.ndarray]:
    """Every signed difference between two groups that a measure is the largest of, ``(..., k)``."""
    with np.errstate(invalid="ignore"):
        overall = counts.sum(-2) / counts.sum((-1, -2))[..., None]  # (..., S, Yhat)
        by_label = counts / counts.sum(-1, keepdims=True)  # (..., S, Y, Yhat)
    classes = range(1 if counts.shape[-1] == 2 else counts.shape[-1])  # one of two tells all
    last = -1 if counts.shape[-1] > 2 else 0
    rates = {
        "ddp": [overall[..., c] for c in classes],
        "eo": [by_label[..., y, c] for y in range(counts.shape[-1]) for c in classes],
        "eopp": [by_label[..., -1, last]],
    }
    pairs = list(combinations(range(counts.shape[-3]), 2))
    return {
        name: np.stack([r[..., a] - r[..., b] for r in each for a, b in pairs], axis=-1)
        for name, each in rates.items()
    }


def largest(values: np.ndarray) -> np.ndarray:
    """The largest over the last axis that is a number; NaN if none is."""
    unknown = np.isnan(values)
    return np.where(unknown.all(-1), np.nan, np.where(unknown, -np.inf, values).max(-1))


def bootstrap(
    counts: np.ndarray,
    shares: np.ndarray | None,
    rng: np.random.Generator,
    draws: int = 1000,
    level: float = 0.95,
) -> dict[str, np.ndarray]:
    """Intervals from resampling the held-out rows of each group.

    The interval of DDP is the interval of the signed gap, folded at 0: resampled absolute values
    would never reach 0 and hide that a gap may be none. Where it is the largest of several gaps,
    its ends are the largest of theirs.
    """
    group = counts.sum((-1, -2))
    cells = counts.reshape(*group.shape, counts.shape[-1] ** 2)
    drawn = np.zeros((draws, *cells.shape), dtype=np.int64)
    for place in np.ndindex(*group.shape):
        n = group[place]
        if n > 0:
            drawn[(slice(None), *place)] = rng.multinomial(n, cells[place] / n, size=draws)
    drawn = drawn.reshape(draws, *counts.shape)
    tails = [(1 - level) / 2, (1 + level) / 2]
    found = {}
    for name, values in measure(drawn, shares).items():
        if name not in GAPS.values():
            found[f"{name}_low"], found[f"{name}_high"] = np.quantile(values, tails, axis=0)
    for name, signed in gaps(drawn).items():
        with warnings.catch_warnings():  # of draws without people of some label, the others count
            warnings.simplefilter("ignore", RuntimeWarning)
            low, high = np.nanquantile(signed, tails, axis=0)
        nearest = np.where(low * high > 0, np.minimum(np.abs(low), np.abs(high)), 0.0)
        found[f"{name}_low"] = largest(np.where(np.isnan(low), np.nan, nearest))
        found[f"{name}_high"] = largest(np.maximum(np.abs(low), np.abs(high)))
    return found


def client_table(counts: np.ndarray, shares: np.ndarray | None, seed: int) -> pd.DataFrame:
    """One row per client: measures and their intervals."""
    intervals = bootstrap(counts, shares, seeds.generator(seed, seeds.BOOTSTRAP))
    return pd.DataFrame(measure(counts, shares) | intervals)


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
