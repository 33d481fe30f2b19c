"""What to beware of in a run's results: few people, one decision for all, columns left out.

Each caution is a kind, for those who sort them, and a sentence.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from pfedfair._util.notebook import some
from pfedfair.metrics.intervals import FEWEST
from pfedfair.studies import words

Caution = tuple[str, str]  # one of `KINDS`, and a sentence
COLLAPSED, FEW, LEFT_OUT, UNLUCKY, NOTE = KINDS = (
    "collapsed", "few", "left out", "unlucky", "note",
)  # fmt: skip
ENOUGH = 10  # people of a group to train on


def cautions(results: pd.DataFrame, groups: Sequence[str]) -> tuple[Caution, ...]:
    """All that a run's results tell by themselves."""
    found = [(FEW, text) for text in (*too_few(results, groups), *held_out(results, groups))]
    return (*found, *((COLLAPSED, text) for text in one_decision(results)))


def too_few(results: pd.DataFrame, groups: Sequence[str]) -> tuple[str, ...]:
    """Say which clients have too few rows of a group for its rates to mean anything."""
    shares = results[[f"share_s{z}" for z in range(1, len(groups))]].to_numpy()
    shares = np.column_stack([1 - shares.sum(1), shares])
    people = np.rint(shares * results[["n_train"]].to_numpy()).astype(int)
    each = _people(results, people, groups, ENOUGH)
    return (f"few people of a group to train on: client {each}.",) if each else ()


def held_out(results: pd.DataFrame, groups: Sequence[str]) -> tuple[str, ...]:
    """Say which clients have too few people of a group to measure anything on."""
    columns = [f"n_test_s{z}" for z in range(len(groups))]
    if not set(columns) <= set(results):
        return ()
    each = _people(results, results[columns].fillna(0).to_numpy(int), groups, FEWEST)
    return (f"{words.TOO_FEW} on held-out rows: client {each}.",) if each else ()


def _people(results: pd.DataFrame, people: np.ndarray, groups: Sequence[str], enough: int) -> str:
    """Clients with somebody of a group, but not enough; the first three of them."""
    few = [
        f"{results['client'].iloc[i]} ({people[i, z]} of {groups[z]})"
        for i, z in np.argwhere((people > 0) & (people < enough))
    ]
    return some(few, 3)


def one_decision(results: pd.DataFrame) -> tuple[str, ...]:
    """Say at which clients everybody who is held out gets the same decision."""
    if not results.get("one_decision", pd.Series(False)).any():
        return ()
    alike = list(results.loc[results["one_decision"], "client"].astype(str))
    who = f"client {some(alike)}" if len(alike) < len(results) else "every client"
    return (f"on held-out rows everybody gets the same decision at {who}: a gap of 0 is no merit.",)


def left_out(columns: Mapping[str, str]) -> tuple[Caution, ...]:
    """Say which columns of the table are no inputs, and why."""
    each = some([f"{name} ({why})" for name, why in columns.items()])
    return ((LEFT_OUT, f"columns that the model does not look at: {each}."),) if each else ()
