"""Hold out test rows, and scale the paper's clients to the available rows."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd

from pfedfair.data.dataset import PaperPlan
from pfedfair.data.images.faces.layout import count

Held = tuple[np.ndarray | None, tuple[str, ...]]
GROUPS = ("women", "men")


def by_split(table: pd.DataFrame) -> Held:
    """Hold out the rows that a column `split` calls "test"."""
    if "split" not in table:
        return None, ()
    if table["split"].isna().any():
        number = int(table["split"].isna().sum())
        return None, (f"The column 'split' is not used: it is empty in {count(number, 'row')}.",)
    return both_sides(table["split"].astype(str).str.lower().eq("test").to_numpy(), "split")


def both_sides(held: np.ndarray, what: str) -> Held:
    """Hold nothing out if this would leave training or test without rows."""
    if held.any() and not held.all():
        return held, ()
    side = "the test" if held.all() else "training"
    return None, (f"All rows are for {side} by '{what}', so test rows are drawn from them.",)


def by_identity(identity: pd.Series[Any]) -> np.ndarray:
    """Hold out a third of the persons, always the same ones.

    A person's side depends only on a hash of the identity number.
    """
    side = {i: sha256(str(i).encode()).digest()[0] % 3 == 0 for i in identity.unique()}
    return identity.map(side).to_numpy(bool)


def on_both_sides(identity: pd.Series[Any], held: np.ndarray) -> tuple[str, ...]:
    """Return a note on persons who are both in training and in the test."""
    both = set(identity[held].dropna()) & set(identity[~held].dropna())
    if not both:
        return ()
    persons = f"{len(both):,} {'person is' if len(both) == 1 else 'people are'}"
    return (f"{persons} both in training and in the test by their identity number.",)


def paper_plan(
    plan: PaperPlan, title: str, s: np.ndarray, held: np.ndarray | None
) -> tuple[PaperPlan | None, tuple[str, ...]]:
    """Scale the paper's clients down, all by one factor, to the available rows.

    With `held`, test rows are the held-out ones and training rows the others.
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
            rows = f"{int(have[short]):,} {GROUPS[short[1]]}{words[short[0]]}"
            needs = f"the paper's plan needs {int(need[short]):,}"
            message = f"its clients are scaled to {100 * part / step:g} %."
            return replace(small, scaled=f"{title} here has {rows}, {needs}: {message}"), ()
    return None, (f"{title} here has too few rows for the paper's clients.",)


def _scaled(plan: PaperPlan, part: int, of: int) -> PaperPlan:
    under, over = (tuple(n * part // of for n in kind) for kind in (plan.under, plan.over))
    return PaperPlan(
        (under[0], under[1]), (over[0], over[1]), plan.n_under, plan.n_over, plan.test_fraction
    )


def _rows_at_hand(s: np.ndarray, held: np.ndarray | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """Count the rows of S = 0 and 1: in total, or for training and for the test."""
    if held is None:
        return np.bincount(s, minlength=2)[None], ("",)
    sides = [np.bincount(s[side], minlength=2) for side in (~held, held)]
    return np.stack(sides), (" for training", " for the test")


def _needed(plan: PaperPlan, held: bool) -> np.ndarray:
    """Count the rows of S = 0 and 1 that the plan needs: in total, or for training and test."""
    counts = np.array([plan.under] * plan.n_under + [plan.over] * plan.n_over)
    tests = np.rint(counts * plan.test_fraction).astype(int)
    train, test = counts.sum(0), tests.sum(0)
    return np.stack([train, test]) if held else (train + test)[None]
