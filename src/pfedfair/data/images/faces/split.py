"""Rows for the test only, and the paper's clients scaled to the rows at hand."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd

from pfedfair.data.dataset import PaperPlan
from pfedfair.data.images.faces.layout import count

Held = tuple[np.ndarray | None, tuple[str, ...]]
PEOPLE = ("women", "men")


def by_split(table: pd.DataFrame) -> Held:
    """Hold out the rows that a column `split` calls "test"."""
    if "split" not in table:
        return None, ()
    if table["split"].isna().any():
        number = int(table["split"].isna().sum())
        return None, (f"The column 'split' is not used: it is empty in {count(number, 'row')}.",)
    return both_sides(table["split"].astype(str).str.lower().eq("test").to_numpy(), "split")


def both_sides(held: np.ndarray, what: str) -> Held:
    """Hold nothing out if that would leave nothing for one of the sides."""
    if held.any() and not held.all():
        return held, ()
    side = "the test" if held.all() else "training"
    return None, (f"All rows are for {side} by '{what}', so test rows are drawn from them.",)


def by_identity(identity: pd.Series[Any]) -> np.ndarray:
    """Hold out a third of the people, always the same ones.

    A person's side hangs on a hash of the identity's number, not on who else is there.
    """
    side = {i: sha256(str(i).encode()).digest()[0] % 3 == 0 for i in identity.unique()}
    return identity.map(side).to_numpy(bool)


def on_both_sides(identity: pd.Series[Any], held: np.ndarray) -> tuple[str, ...]:
    """Say how many people are both in training and in the test."""
    both = set(identity[held].dropna()) & set(identity[~held].dropna())
    if not both:
        return ()
    who = f"{len(both):,} {'person is' if len(both) == 1 else 'people are'}"
    return (f"{who} both in training and in the test by their identity number.",)


def paper_plan(
    plan: PaperPlan, title: str, s: np.ndarray, held: np.ndarray | None
) -> tuple[PaperPlan | None, tuple[str, ...]]:
    """Scale the paper's clients down, all by one factor, to the rows that there are.

    Training rows come from those that are not held, test rows from those that are, if any are.
    """
    have, words = _rows_at_hand(s, held)
    need = _needed(plan, held is not None)
    short = np.unravel_index(np.argmin(have / need), need.shape)
    factor = float((have / need)[short])
    if factor >= 1:
        return plan, ()
    step = 100 if factor >= 0.1 else 1000  # whole per cents, or tenths of one
    for part in range(int(factor * step), 0, -1):
        small = _scaled(plan, part, step)
        if min(*small.under, *small.over) < 1:
            break
        if (_needed(small, held is not None) <= have).all():
            who = f"{int(have[short]):,} {PEOPLE[short[1]]}{words[short[0]]}"
            needs = f"the paper's plan needs {int(need[short]):,}"
            message = f"its clients are scaled to {100 * part / step:g} %."
            return replace(small, scaled=f"{title} here has {who}, {needs}: {message}"), ()
    return None, (f"{title} here has too few rows for the paper's clients.",)


def _scaled(plan: PaperPlan, part: int, of: int) -> PaperPlan:
    under, over = (tuple(n * part // of for n in kind) for kind in (plan.under, plan.over))
    return PaperPlan(
        (under[0], under[1]), (over[0], over[1]), plan.n_under, plan.n_over, plan.test_fraction
    )


def _rows_at_hand(s: np.ndarray, held: np.ndarray | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """Rows of S = 0 and 1: in all, or for training and for the test."""
    if held is None:
        return np.bincount(s, minlength=2)[None], ("",)
    sides = [np.bincount(s[side], minlength=2) for side in (~held, held)]
    return np.stack(sides), (" for training", " for the test")


def _needed(plan: PaperPlan, held: bool) -> np.ndarray:
    """Rows of S = 0 and 1 that the plan deals: in all, or for training and for the test."""
    counts = np.array([plan.under] * plan.n_under + [plan.over] * plan.n_over)
    tests = np.rint(counts * plan.test_fraction).astype(int)
    train, test = counts.sum(0), tests.sum(0)
    return np.stack([train, test]) if held else (train + test)[None]
