"""The numbers of an audit: one row per client, group and measure, each with its interval.

Counts ``(clients, S, Y, Yhat)`` are all that most need. An empty client is everybody, an empty
group all groups together.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from pfedfair import metrics
from pfedfair.auditing import ends
from pfedfair.auditing.rows import Rows
from pfedfair.metrics import intervals

Z = intervals.quantile(0.95)
BINS = 10  # of scores, for calibration
COLUMNS = ["client", "group", "prediction", "measure", "value", "low", "high", "people"]


class Found(NamedTuple):
    """A measure of every client: the value, its ends, and how many people are behind it."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    people: np.ndarray


def clients_of(rows: Rows) -> list[np.ndarray]:
    """Which rows are everybody's, and each client's if there are clients."""
    everybody = np.arange(len(rows.y))
    if rows.clients == ("",):
        return [everybody]
    by_client = np.argsort(rows.client, kind="stable")
    cuts = np.cumsum(np.bincount(rows.client, minlength=len(rows.clients)))[:-1]
    return [everybody, *np.split(by_client, cuts)]


def names_of(rows: Rows) -> list[str]:
    return [""] if rows.clients == ("",) else ["", *rows.clients]


def count(rows: Rows, decided: np.ndarray) -> np.ndarray:
    """Count everybody, and every client, ``(1 + clients, S, Y, Yhat)``; two groups at the least."""
    groups, classes = max(2, len(rows.groups)), len(rows.labels)
    cell = ((rows.client * groups + rows.s) * classes + rows.y) * classes + decided
    shape = (len(rows.clients), groups, classes, classes)
    each = np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape)
    return each if rows.clients == ("",) else np.concatenate([each.sum(0)[None], each])


def of_groups(counts: np.ndarray) -> dict[str, Found]:
    """Measures of all groups together: rates, and gaps between groups."""
    value, sure = metrics.measure(counts), metrics.certainty(counts)
    people = counts.sum((1, 2, 3))
    found = {}
    found["selection_rate"] = _rate(counts[..., -1].sum((1, 2)), people)
    found["accuracy"] = _rate(np.trace(counts, axis1=2, axis2=3).sum(1), people)
    found["balanced_accuracy"] = balanced(counts.sum(1))
    found["ddp"] = _gap("ddp", value, sure)
    found["ratio"] = smallest_ratio(counts)
    found["eo"], found["eopp"] = (_gap(name, value, sure) for name in ("eo", "eopp"))
    return found


def of_one(counts: np.ndarray) -> dict[str, Found]:
    """Measures of one group, from its counts ``(clients, Y, Yhat)``."""
    people, chosen = counts.sum((1, 2)), counts[..., -1]
    found = {
        "label_rate": _rate(counts[:, -1].sum(-1), people),
        "selection_rate": _rate(chosen.sum(-1), people),
        "accuracy": _rate(np.trace(counts, axis1=1, axis2=2), people),
        "true_positive_rate": _rate(chosen[:, -1], counts[:, -1].sum(-1)),
    }
    others = counts[:, :-1].sum((1, 2))
    found["false_positive_rate"] = _rate(chosen[:, :-1].sum(-1), others)
    return found


def _rate(hits: np.ndarray, people: np.ndarray) -> Found:
    with np.errstate(invalid="ignore"):
        return Found(hits / people, *intervals.rate(hits, people, Z), people)


def _gap(name: str, value: dict[str, np.ndarray], sure: dict[str, np.ndarray]) -> Found:
    return Found(value[name], *(sure[f"{name}_{end}"] for end in ("low", "high", "people")))


def balanced(counts: np.ndarray) -> Found:
    """The mean of the labels' rates of right predictions, of counts ``(clients, Y, Yhat)``.

    Labels that nobody has do not count.
    """
    right, people = np.diagonal(counts, axis1=1, axis2=2), counts.sum(-1)
    there = people > 0
    weights = there / np.maximum(there.sum(-1, keepdims=True), 1)
    with np.errstate(invalid="ignore"):
        value = np.where(there, weights * right / people, 0).sum(-1)
    fewest = np.where(there, people, people.max(-1, keepdims=True)).min(-1)
    low, high = intervals.weighted(right, people, weights, Z)
    return Found(value, low, high, fewest)


def smallest_ratio(counts: np.ndarray) -> Found:
    """The smallest rate of positive decisions over the largest, as in the 80 % rule.

    Of several pairs of groups the upper end is the smallest of theirs, each of which may fail less
    often, and the lower end the smallest as they are; see `metrics.certainty`.
    """
    chosen, people = counts[..., -1].sum(-1), counts.sum((2, 3))
    one, other = np.array(np.triu_indices(people.shape[1], 1))
    pairs = (chosen[:, one], people[:, one], chosen[:, other], people[:, other])
    with np.errstate(invalid="ignore", divide="ignore"):
        rates = chosen / people
        each = rates[:, one] / rates[:, other]
        each = np.minimum(each, 1 / each)
    number = (~np.isnan(rates[:, one] + rates[:, other])).sum(-1, keepdims=True)
    low, _ = ends.folded_ratio(*ends.ratio(*pairs, Z))
    _, high = ends.folded_ratio(*ends.ratio(*pairs, metrics.stricter(0.95, number)))
    known = ~np.isnan(each)
    value = -metrics.largest(-each)
    smaller = np.minimum(pairs[1], pairs[3])
    top = known & (each <= value[:, None] + 1e-12)
    top |= (high < 1) & (high <= np.nanmin(high, axis=-1, keepdims=True, initial=1.0))
    behind = np.where(top, smaller, 0).max(-1)
    nobody = ~known.any(-1)
    low, high = (np.where(nobody, np.nan, -metrics.largest(-end)) for end in (low, high))
    return Found(value, low, high, behind)


def of_scores(rows: Rows) -> Iterator[tuple[str, dict[str, Found]]]:
    """AUC and calibration of all groups together, and of each."""
    assert rows.score is not None
    positive = rows.y == len(rows.labels) - 1
    chances = bool(np.nanmin(rows.score) >= 0 and np.nanmax(rows.score) <= 1)
    scored = ~np.isnan(rows.score)
    each = [part[scored[part]] for part in clients_of(rows)]
    for z, group in enumerate(("", *rows.groups)):
        here = each if z == 0 else [part[rows.s[part] == z - 1] for part in each]
        hits = np.array([positive[part].sum() for part in here])
        people = np.array([len(part) for part in here])
        auc = np.array([area(rows.score[part], positive[part]) for part in here])
        fewer = np.minimum(hits, people - hits)
        found = {"auc": Found(auc, *ends.area(auc, hits, people - hits, Z), fewer)}
        if chances:
            mean = np.array([rows.score[part].mean() if len(part) else np.nan for part in here])
            rate = _rate(hits, people)
            found["calibration"] = Found(
                mean - rate.value, mean - rate.high, mean - rate.low, people
            )
        yield group, found


def area(score: np.ndarray, positive: np.ndarray) -> float:
    """The share of pairs of people, one positive and one not, whom the score puts in order."""
    from scipy.stats import rankdata

    hits = int(positive.sum())
    others = len(positive) - hits
    if not hits or not others:
        return float("nan")
    above = rankdata(score)[positive].sum() - hits * (hits + 1) / 2
    return float(above / (hits * others))


def calibration(rows: Rows) -> pd.DataFrame:
    """Per group and tenth of the scores: the mean score, and the rate of the positive label."""
    assert rows.score is not None
    known = ~np.isnan(rows.score)
    edges = np.unique(np.quantile(rows.score[known], np.linspace(0, 1, BINS + 1)))
    place = np.clip(np.searchsorted(edges, rows.score, side="right") - 1, 0, max(len(edges) - 2, 0))
    frame = pd.DataFrame({"group": rows.s, "bin": place, "score": rows.score})
    frame["hits"] = rows.y == len(rows.labels) - 1
    each = frame[known].groupby(["group", "bin"]).agg(
        people=("hits", "size"), score=("score", "mean"), hits=("hits", "sum")
    )  # fmt: skip
    each = each.reset_index()
    hits, people = each.pop("hits").to_numpy(), each["people"].to_numpy()
    low, high = intervals.rate(hits, people, Z)
    each["group"] = np.array(rows.groups, dtype=object)[each["group"]]
    found: pd.DataFrame = each.assign(label_rate=hits / people, low=low, high=high)
    return found


def tidy(rows: Rows, prediction: str, decided: np.ndarray) -> pd.DataFrame:
    """All measures of one column of decisions, a row for each client, group and measure."""
    counts = count(rows, decided)
    parts = [_frame(rows, prediction, "", of_groups(counts))]
    for z, group in enumerate(rows.groups):
        parts.append(_frame(rows, prediction, group, of_one(counts[:, z])))
    return pd.concat(parts, ignore_index=True)


def tidy_scores(rows: Rows, score: str) -> pd.DataFrame:
    """AUC and calibration, in the same form."""
    parts = [_frame(rows, score, group, found) for group, found in of_scores(rows)]
    return pd.concat(parts, ignore_index=True)


def _frame(rows: Rows, prediction: str, group: str, found: dict[str, Found]) -> pd.DataFrame:
    about = {"client": names_of(rows), "group": group, "prediction": prediction}
    parts = [
        pd.DataFrame({**about, "measure": measure, **each._asdict()})
        for measure, each in found.items()
    ]
    return pd.concat(parts, ignore_index=True)[COLUMNS]
