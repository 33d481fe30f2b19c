"""The paper's clients, scaled to the rows at hand, can be dealt; and no more could be."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pfedfair.data.dataset import PaperPlan
from pfedfair.data.images.faces.split import both_sides, by_split, paper_plan

PLAN = PaperPlan((1000, 200), (200, 1000), n_under=2, n_over=8, test_fraction=1 / 2)


def needs(plan):
    """Rows of (women, men), to train and to test, client by client as `deal` does."""
    clients = [plan.under] * plan.n_under + [plan.over] * plan.n_over
    train = np.sum(clients, axis=0)
    test = np.sum([[round(n / 2) for n in client] for client in clients], axis=0)
    return train, test


@given(st.integers(0, 14_000), st.integers(0, 14_000), st.booleans(), st.integers(0, 99))
def test_the_largest_factor_that_fits(women, men, hold, seed):
    s = np.repeat([0, 1], [women, men])
    held = np.random.default_rng(seed).random(len(s)) < 0.4 if hold else None
    plan, notes = paper_plan(PLAN, "CelebA", s, held)
    if held is None:
        have = [(np.bincount(s, minlength=2), sum(needs(plan)) if plan else None, sum(needs(PLAN)))]
    else:
        sides = [np.bincount(s[side], minlength=2) for side in (~held, held)]
        mine = needs(plan) if plan else (None, None)
        have = list(zip(sides, mine, needs(PLAN), strict=True))
    factor = min((h / full).min() for h, _, full in have)
    if plan is None:
        assert factor < 0.006  # 1 of 200 at every client needs 0.5 %
        assert notes == ("CelebA here has too few rows for the paper's clients.",)
        return
    assert all((need <= h).all() for h, need, _ in have)
    assert plan.under[0] == plan.over[1]
    step = 0.01 if factor >= 0.1 else 0.001
    assert plan.under[0] / 1000 > min(factor, 1) - 2 * step - 0.001
    assert bool(plan.scaled) == (factor < 1)
    assert notes == ()


def test_notes():
    s = np.repeat([0, 1], [5400, 6300])
    assert paper_plan(PLAN, "CelebA", s, None) == (
        PaperPlan(
            (500, 100), (100, 500), 2, 8, 1 / 2,
            scaled="CelebA here has 6,300 men, the paper's plan needs 12,600: its clients are "
            "scaled to 50 %.",
        ),
        (),
    )  # fmt: skip
    held = np.zeros(len(s), bool)
    held[:450] = held[-3000:] = True
    plan, notes = paper_plan(PLAN, "CelebA", s, held)
    assert plan.under == (250, 50)
    assert plan.scaled.startswith("CelebA here has 450 women for the test, the paper's plan needs")
    assert notes == ()


def test_a_column_that_holds_nothing_or_everything_out():
    import pandas as pd

    assert by_split(pd.DataFrame({"file": ["a"]})) == (None, ())
    held, notes = by_split(pd.DataFrame({"split": ["Test", "train", "validation"]}))
    assert held.tolist() == [True, False, False]
    assert notes == ()
    held, notes = by_split(pd.DataFrame({"split": ["test", None]}))
    assert held is None
    assert notes == ("The column 'split' is not used: it is empty in 1 row.",)
    assert both_sides(np.ones(2, bool), "split")[0] is None
    assert "for training by 'x'" in both_sides(np.zeros(2, bool), "x")[1][0]
