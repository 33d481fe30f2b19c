"""The measures of an audit: one row per client, group and measure, each with its interval.

Most are computed from counts ``(clients, S, Y, Yhat)``. An empty client is all rows, an empty group
all groups.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from pfedfair import metrics
from pfedfair.auditing import ends
from pfedfair.auditing.rows import Rows
from pfedfair.metrics import intervals
from pfedfair.metrics.criteria import MEASURES
from pfedfair.metrics.noise_floor import noise_floors
from pfedfair.metrics.performance import area
from pfedfair.metrics.weights import moments_of

Z = intervals.quantile(0.95)
BINS = 10  # of scores, for calibration


class Estimate(NamedTuple):
    """A measure of every client: the value, its interval, and the number of rows."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    rows: np.ndarray


def clients_of(rows: Rows) -> list[np.ndarray]:
    """Return the numbers of all rows, and of each client's if there are clients."""
    all_rows = np.arange(len(rows.y))
    if not rows.has_clients:
        return [all_rows]
    by_client = np.argsort(rows.client, kind="stable")
    cuts = np.cumsum(np.bincount(rows.client, minlength=len(rows.clients)))[:-1]
    return [all_rows, *np.split(by_client, cuts)]


def count(rows: Rows, decided: np.ndarray) -> np.ndarray:
    """Count all rows, and every client's, ``(1 + clients, S, Y, Yhat)``; at least two groups."""
    groups, classes = max(2, len(rows.groups)), len(rows.labels)
    cell = ((rows.client * groups + rows.s) * classes + rows.y) * classes + decided
    shape = (len(rows.clients), groups, classes, classes)
    each = np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape)
    return np.concatenate([each.sum(0)[None], each]) if rows.has_clients else each


def of_groups(counts: np.ndarray) -> dict[str, Estimate]:
    """Return the measures over all groups: rates, and gaps between groups."""
    value, ends_of = metrics.measure(counts), metrics.confidence_intervals(counts)
    number = counts.sum((1, 2, 3))
    gaps = {
        name: Estimate(
            value[name], *(ends_of[f"{name}_{end}"] for end in ("low", "high", "people"))
        )
        for name in MEASURES
    }
    return {
        "selection_rate": _rate(counts[..., -1].sum((1, 2)), number),
        "accuracy": _rate(np.trace(counts, axis1=2, axis2=3).sum(1), number),
        "balanced_accuracy": balanced_accuracy(counts.sum(1)),
        "ddp": gaps.pop("ddp"),
        "ratio": smallest_ratio(counts),
        **gaps,
        **floors(counts),
    }


def floors(counts: np.ndarray) -> dict[str, Estimate]:
    """Return the noise floors of the largest gaps, which have no interval; {} for two groups."""
    if counts.shape[1] < 3:
        return {}
    unknown, number = np.full(len(counts), np.nan), counts.sum((1, 2, 3))
    found = noise_floors(moments_of(counts))
    return {name: Estimate(value, unknown, unknown, number) for name, value in found.items()}


def of_one_group(counts: np.ndarray) -> dict[str, Estimate]:
    """Return the measures of one group, from its counts ``(clients, Y, Yhat)``."""
    number, positive = counts.sum((1, 2)), counts[..., -1]
    return {
        "label_rate": _rate(counts[:, -1].sum(-1), number),
        "selection_rate": _rate(positive.sum(-1), number),
        "accuracy": _rate(np.trace(counts, axis1=1, axis2=2), number),
        "true_positive_rate": _rate(positive[:, -1], counts[:, -1].sum(-1)),
        "false_positive_rate": _rate(positive[:, :-1].sum(-1), counts[:, :-1].sum((1, 2))),
    }


def _rate(hits: np.ndarray, number: np.ndarray) -> Estimate:
    with np.errstate(invalid="ignore"):
        return Estimate(hits / number, *intervals.rate(hits, number, Z), number)


def balanced_accuracy(counts: np.ndarray) -> Estimate:
    """Return the mean of the labels' rates of right predictions, of counts ``(clients, Y, Yhat)``.

    Labels without rows do not count.
    """
    right, number = np.diagonal(counts, axis1=1, axis2=2), counts.sum(-1)
    exists = number > 0
    weights = exists / np.maximum(exists.sum(-1, keepdims=True), 1)
    with np.errstate(invalid="ignore"):
        value = np.where(exists, weights * right / number, 0).sum(-1)
    fewest = np.where(exists, number, number.max(-1, keepdims=True)).min(-1)
    low, high = intervals.weighted_sum(right, number, weights, Z)
    return Estimate(value, low, high, fewest)


def smallest_ratio(counts: np.ndarray) -> Estimate:
    """Return the smallest selection rate over the largest, as in the 80 % rule.

    Of several pairs of groups the upper end is the smallest of theirs, each of which may fail less
    often, and the lower end the smallest as they are, as `metrics` does for gaps.
    """
    positive, number = counts[..., -1].sum(-1), counts.sum((2, 3))
    one, other = np.array(np.triu_indices(number.shape[1], 1))
    pairs = (positive[:, one], number[:, one], positive[:, other], number[:, other])
    with np.errstate(invalid="ignore", divide="ignore"):
        rates = positive / number
        each = rates[:, one] / rates[:, other]
        each = np.minimum(each, 1 / each)
    compared = (~np.isnan(rates[:, one] + rates[:, other])).sum(-1, keepdims=True)
    low, _ = ends.folded_ratio(*ends.ratio(*pairs, Z))
    _, high = ends.folded_ratio(*ends.ratio(*pairs, metrics.stricter_quantile(0.95, compared)))
    known = ~np.isnan(each)
    value = -metrics.largest(-each)
    smaller = np.minimum(pairs[1], pairs[3])
    top = known & (each <= value[:, None] + 1e-12)
    top |= (high < 1) & (high <= np.nanmin(high, axis=-1, keepdims=True, initial=1.0))
    behind = np.where(top, smaller, 0).max(-1)
    unknown = ~known.any(-1)
    low, high = (np.where(unknown, np.nan, -metrics.largest(-end)) for end in (low, high))
    return Estimate(value, low, high, behind)


def of_scores(rows: Rows) -> Iterator[tuple[str, dict[str, Estimate]]]:
    """Yield AUC and calibration of all groups, and of each."""
    assert rows.score is not None
    positive = rows.y == len(rows.labels) - 1
    are_probabilities = bool(np.nanmin(rows.score) >= 0 and np.nanmax(rows.score) <= 1)
    scored = ~np.isnan(rows.score)
    by_client = [part[scored[part]] for part in clients_of(rows)]
    for z, group in enumerate(("", *rows.groups)):
        here = by_client if z == 0 else [part[rows.s[part] == z - 1] for part in by_client]
        hits = np.array([positive[part].sum() for part in here])
        others = np.array([len(part) for part in here]) - hits
        auc = np.array([area(rows.score[part], positive[part]) for part in here])
        of_group = {
            "auc": Estimate(auc, *ends.area(auc, hits, others, Z), np.minimum(hits, others))
        }
        if are_probabilities:
            mean = np.array([rows.score[part].mean() if len(part) else np.nan for part in here])
            rate, low, high, number = _rate(hits, hits + others)
            of_group["calibration"] = Estimate(mean - rate, mean - high, mean - low, number)
        yield group, of_group


def calibration(rows: Rows) -> pd.DataFrame:
    """Return mean score and rate of the positive label per group and tenth of the scores."""
    assert rows.score is not None
    known = ~np.isnan(rows.score)
    edges = np.unique(np.quantile(rows.score[known], np.linspace(0, 1, BINS + 1)))
    bins = np.clip(np.searchsorted(edges, rows.score, side="right") - 1, 0, max(len(edges) - 2, 0))
    frame = pd.DataFrame({"group": rows.s, "bin": bins, "score": rows.score})
    frame["hits"] = rows.y == len(rows.labels) - 1
    table = frame[known].groupby(["group", "bin"]).agg(
        people=("hits", "size"), score=("score", "mean"), hits=("hits", "sum")
    )  # fmt: skip
    table = table.reset_index()
    hits, number = table.pop("hits").to_numpy(), table["people"].to_numpy()
    rate, low, high, _ = _rate(hits, number)
    table["group"] = np.array(rows.groups, dtype=object)[table["group"]]
    calibrated: pd.DataFrame = table.assign(label_rate=rate, low=low, high=high)
    return calibrated


def of_decisions(rows: Rows, prediction: str, decided: np.ndarray) -> pd.DataFrame:
    """Return all measures of one column of decisions, a row for each client, group and measure."""
    counts = count(rows, decided)
    by_group = [(group, of_one_group(counts[:, z])) for z, group in enumerate(rows.groups)]
    return tidy(rows, prediction, [("", of_groups(counts)), *by_group])


def tidy(
    rows: Rows, prediction: str, by_group: Iterable[tuple[str, Mapping[str, Estimate]]]
) -> pd.DataFrame:
    """Return the measures of groups as a row for each client, group and measure."""
    clients = ["", *rows.clients] if rows.has_clients else [""]
    frames = [
        pd.DataFrame({"client": clients, "group": group, "prediction": prediction,
                      "measure": measure, "value": estimate.value, "low": estimate.low,
                      "high": estimate.high, "people": estimate.rows})
        for group, estimates in by_group
        for measure, estimate in estimates.items()
    ]  # fmt: skip
    return pd.concat(frames, ignore_index=True)
