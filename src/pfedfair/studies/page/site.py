"""One site of a run: rates by group before and after its rule, changed decisions, scores."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from pfedfair.rules.thresholds import PARTS
from pfedfair.runs import Run
from pfedfair.studies import headline, words
from pfedfair.studies.decisions import Decided, decided
from pfedfair.studies.page.document import column

BINS = 20  # of the score
MOST = 400  # sites with details: those with the largest lower ends of their gaps
NO_LOCAL = (
    "To see what this site gains over local training, compare the method with one that trains "
    "locally, such as erm-local."
)


def worst(results: pd.DataFrame, gap: str, most: int = MOST) -> list[int]:
    """Return the sites to show in detail: all, or those with the largest lower ends of gaps."""
    if len(results) <= most:
        return [*range(len(results))]
    low = results[f"{gap}_low"].fillna(-1).to_numpy()
    return sorted(np.argsort(-low, kind="stable")[:most].tolist())


def details(
    run: Run, results: pd.DataFrame, rules: pd.DataFrame, gap: str
) -> list[dict[str, Any] | None]:
    """Return the details of each site, None of those without."""
    shown = worst(results, gap)
    found: list[dict[str, Any] | None] = [None] * len(results)
    decisions = decided(run, str(results["protocol"].iloc[0]), shown)
    drawn = words.column(results, "randomised")
    for i, one in zip(shown, decisions, strict=True):
        found[i] = _site(run, i, one, rules.iloc[[i]], float(drawn[i]))
    return found


def _site(run: Run, i: int, one: Decided, rules: pd.DataFrame, drawn: float) -> dict[str, Any]:
    row = rules.iloc[0]
    data, rule = run.federation.data, run.fitted.rules[i]
    groups, labels = data.group_names, data.label_names
    ruled = bool(rule.numbers.numel())
    facts = [["training rows of each group", _counts(run, i)]]
    if drawn == drawn:
        facts.append(["decisions that are random draws", words.share(drawn)])
    if words.column(rules, "too_small")[0] > 0:
        ways = headline.remedies(rules) or "its strictest rule decides"
        facts.append(["too small for the target at this confidence level", ways])
    if (certified := words.column(rules, "certified")[0]) == certified:
        facts.append(["certificate", "yes" if certified else "no"])
    if "known_to" in row:
        facts.append(["half-width of the gap's interval", f"±{row['known_to']:.3f}"])
        facts.append(
            ["accuracy change by confidence", f"{100 * row['certainty_cost']:+.1f} points"]
        )
    return {
        "rates": _rates(run, i, one, ruled),
        "changed": _changed(one, groups, len(labels)) if ruled else None,
        "scores": _scores(one, len(groups)),
        "thresholds": thresholds(row, groups),
        "rule": rule.words(labels, groups),
        "cost": float(row["cost"]) if ruled else None,
        "local": None,
        "facts": facts,
    }


def _counts(run: Run, i: int) -> str:
    data = run.federation.data
    rows = np.bincount(data.s[run.federation.partition.train[i]], minlength=len(data.group_names))
    return ", ".join(f"{name} {n:,}" for name, n in zip(data.group_names, rows, strict=True))


def _rates(run: Run, i: int, one: Decided, ruled: bool) -> list[dict[str, Any]]:
    data = run.federation.data
    groups, classes = len(data.group_names), len(data.label_names)
    train = np.bincount(data.s[run.federation.partition.train[i]], minlength=groups)
    rows = np.bincount(one.s, minlength=groups)
    after, before = (one.rates(groups, classes, first) for first in (False, True))
    found = []
    for z, name in enumerate(data.group_names):
        row = {"group": name, "train": train[z], "rows": rows[z]}
        row |= dict(zip(("rate", "low", "high"), (end[z] for end in after), strict=True))
        names = ("before", "before_low", "before_high")
        ends = [end[z] for end in before] if ruled else [None] * 3
        found.append(row | dict(zip(names, ends, strict=True)))
    return found


def _changed(one: Decided, groups: Sequence[str], classes: int) -> list[dict[str, Any]]:
    was, became = (what == classes - 1 for what in (one.before, one.after))
    return [
        {
            "group": name,
            "to_positive": int((~was & became & (one.s == z)).sum()),
            "to_negative": int((was & ~became & (one.s == z)).sum()),
            "rows": int((one.s == z).sum()),
        }
        for z, name in enumerate(groups)
    ]


def _scores(one: Decided, groups: int) -> dict[str, Any] | None:
    """Return the share of each group's rows in each bin of the score."""
    if one.score is None:
        return None
    edges = np.linspace(0, 1, BINS + 1)
    shares = []
    for z in range(groups):
        in_group = one.s == z
        weight = None if one.weight is None else one.weight[in_group]
        number, _ = np.histogram(one.score[in_group], edges, weights=weight)
        shares.append(column(number / max(number.sum(), 1e-12)))
    return {"edges": column(edges), "shares": shares}


def thresholds(row: pd.Series, groups: Sequence[str]) -> list[dict[str, Any]] | None:
    """Return the thresholds of a row of rules, if the rule is thresholds."""
    if f"low_s{len(groups) - 1}" not in row:
        return None
    return [
        {"group": name, **{part: float(row[f"{part}_s{z}"]) for part in PARTS}}
        for z, name in enumerate(groups)
    ]
