"""Warnings on a run's results: random draws, few rows, one decision for all rows.

Each is a kind, by which they can be sorted, and a sentence.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from pfedfair._util.errors import option
from pfedfair._util.notebook import abbreviate
from pfedfair.data.tables.groups import FEWEST as MERGED
from pfedfair.metrics.intervals import FEWEST
from pfedfair.studies import headline, words
from pfedfair.studies.judgement import Judgement

Caution = tuple[str, str]  # one of `KINDS`, and a sentence
COLLAPSED, RANDOM, SMALL, DOWN, FEW, LEFT_OUT, NOTE = KINDS = (
    "collapsed", "random draws", "too small", "levelling down", "few", "left out", "note",
)  # fmt: skip
ENOUGH = 10  # rows of a group to train on
DRAWN = 0.01  # part of a site's decisions that may be random draws without a warning
NAMED = 8  # sites in a warning


def cautions(judged: Judgement, groups: Sequence[str]) -> tuple[Caution, ...]:
    """Return the warnings that follow from a run's results and rules."""
    results, rules = judged.results, judged.rules
    held = held_out(results, groups)
    texts = (*too_few(results, groups), *held, *(small_groups(groups) if held else ()))
    return (
        *((COLLAPSED, text) for text in (*one_decision(results), *no_better(results, rules))),
        *((RANDOM, text) for text in random_draws(results)),
        *((SMALL, text) for text in too_small(results, rules)),
        *((DOWN, text) for text in levelling_down(judged)),
        *((FEW, text) for text in texts),
    )


def random_draws(results: pd.DataFrame) -> tuple[str, ...]:
    """Name the clients where more than a few decisions are random draws."""
    drawn = words.column(results, "randomised")
    names = [f"{results['client'].iloc[i]} ({words.share(drawn[i])})"
             for i in np.flatnonzero(drawn > DRAWN)]  # fmt: skip
    if not names:
        return ()
    return (
        f"more than {100 * DRAWN:g} % of the decisions are random draws, so that equal rows may "
        f"get different ones: client {abbreviate(names, NAMED)}.",
    )


def too_small(results: pd.DataFrame, rules: pd.DataFrame) -> tuple[str, ...]:
    """Name the clients that are too small for their target, and what would do for each."""
    each = []
    for i in np.flatnonzero(words.column(rules, "too_small") > 0).tolist():
        ways = headline.remedies(rules.iloc[[i]])
        each.append(f"{results['client'].iloc[i]}{f' ({ways})' if ways else ''}")
    if not each:
        return ()
    return (
        "too small for the target at this confidence level, so that their strictest rule decides: "
        f"client {abbreviate(each, NAMED)}.",
    )


def levelling_down(judged: Judgement) -> tuple[str, ...]:
    """Name the clients whose gaps close mainly by taking positive decisions."""
    if judged.changes is None or not judged.changes.levels_down.any():
        return ()
    names = list(judged.results.loc[judged.changes.levels_down, "client"].astype(str))
    where = f"client {abbreviate(names, NAMED)}" if len(names) < len(judged.results) else (
        "every client")  # fmt: skip
    return (f"the gap closes mainly by taking decisions from the better-off group at {where}.",)


def no_better(results: pd.DataFrame, rules: pd.DataFrame) -> tuple[str, ...]:
    """Name the clients whose models make several decisions and are no better than one."""
    same = words.column(results, "one_decision") > 0
    low = results.loc[headline.is_useless(results, rules) & ~same, "client"].astype(str)
    if not len(low):
        return ()
    return (f"no more accurate than one decision for all rows: client {abbreviate(list(low))}.",)


def too_few(results: pd.DataFrame, groups: Sequence[str]) -> tuple[str, ...]:
    """Name the clients with too few training rows of a group."""
    shares = results[[f"share_s{z}" for z in range(1, len(groups))]].to_numpy()
    shares = np.column_stack([1 - shares.sum(1), shares])
    counts = np.rint(shares * results[["n_train"]].to_numpy()).astype(int)
    clients = _with_few_rows(results, counts, groups, ENOUGH)
    return (f"few rows of a group to train on: client {clients}.",) if clients else ()


def held_out(results: pd.DataFrame, groups: Sequence[str]) -> tuple[str, ...]:
    """Name the clients with too few held-out rows of a group."""
    columns = [f"n_test_s{z}" for z in range(len(groups))]
    if not set(columns) <= set(results):
        return ()
    counts = results[columns].fillna(0).to_numpy(int)
    clients = _with_few_rows(results, counts, groups, FEWEST)
    return (f"too few held-out rows of a group: client {clients}.",) if clients else ()


def small_groups(groups: Sequence[str]) -> tuple[str, ...]:
    """Suggest what to do with small groups, where there are more than two."""
    if len(groups) < 3:
        return ()
    return (
        f"{option('unknown')} says that a value is a missing S, {option('merge_groups')} makes one "
        f"group of those with fewer than {MERGED} rows in all.",
    )


def _with_few_rows(
    results: pd.DataFrame, counts: np.ndarray, groups: Sequence[str], enough: int
) -> str:
    """Return the first three clients that have rows of a group, but not enough."""
    few = [
        f"{results['client'].iloc[i]} ({counts[i, z]} of {groups[z]})"
        for i, z in np.argwhere((counts > 0) & (counts < enough))
    ]
    return abbreviate(few, 3)


def one_decision(results: pd.DataFrame) -> tuple[str, ...]:
    """Name the clients where all held-out rows get the same decision."""
    if not results.get("one_decision", pd.Series(False)).any():
        return ()
    names = list(results.loc[results["one_decision"], "client"].astype(str))
    clients = f"client {abbreviate(names)}" if len(names) < len(results) else "every client"
    return (f"all held-out rows get the same decision at {clients}: a gap of 0 is no merit.",)


def left_out(columns: Mapping[str, str]) -> tuple[Caution, ...]:
    """Name the columns of the table that are no inputs, and why."""
    named = abbreviate([f"{name} ({why})" for name, why in columns.items()])
    return ((LEFT_OUT, f"columns that are not inputs of the model: {named}."),) if named else ()
