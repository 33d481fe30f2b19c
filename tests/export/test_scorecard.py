"""A scorecard, used as a clerk would: look up every column's points, add them up."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch

import pfedfair as pff
from pfedfair.export.scorecard import FACTOR, _ranges, bands, scorecard
from pfedfair.rules.thresholds import Thresholds

pytestmark = pytest.mark.filterwarnings("ignore::pfedfair.CollapseWarning")


@pytest.fixture(scope="module")
def run():
    data = pff.load("compas", model="additive")
    settings = {"rounds": 8, "max_randomised": 0.0}
    federation = data.federate(pff.partition.fixed_shares())
    return pff.train(federation, pff.make("transport", settings, data))


def points(card, row):
    """A row's points, line by line."""
    total = card.loc[card["part"] == "base", "points"].item()
    for _, lines in card[card["part"].isin(["number", "level", "group"])].groupby("column"):
        for _, line in lines.iterrows():
            cell = row[line["column"]]
            if line["part"] == "number":
                low = -np.inf if pd.isna(line["from"]) else line["from"]
                high = np.inf if pd.isna(line["to"]) else line["to"]
                found = low < cell <= high
            else:
                found = str(cell) in line["level"].split("; ")
            total += line["points"] if found else 0
    return total


def test_adding_up_points_decides_nearly_as_the_model_does(run):
    model = run.personal_model("1")
    card = scorecard(model, run.shapes())
    assert len(card) < 50  # a page
    rows = run.federation.data.frame.iloc[run.federation.partition.pool[:250]]
    group = rows["race"].where(rows["race"] == "Caucasian", "Non-Caucasian")
    of_group = rows.assign(race=group)
    total = np.array([points(card, row) for _, row in of_group.iterrows()])
    z = FACTOR * model.decision_function(rows)
    error = card.loc[card["part"] == "error", "points"].item()
    assert np.sqrt(((total - z) ** 2).mean()) < 2 * error
    assert np.corrcoef(total, z)[0, 1] > 0.98
    needed = card[card["part"] == "rule"].set_index("column")["points"]
    decided = total >= group.map(needed).to_numpy(np.float64)
    assert (decided == model.decide(rows)).mean() > 0.93


def test_every_cell_is_on_the_card_once(run):
    card, shapes = scorecard(run.personal_model("2"), run.shapes()), run.shapes()
    total = len(np.concatenate(run.federation.partition.train))
    lines = card[card["part"].isin(["number", "level", "group"])]
    assert (lines.groupby("column")["people"].sum() == total).all()
    assert set(lines["column"]) == set(shapes["column"])
    for _, own in lines[lines["part"] == "number"].groupby("column"):
        ends = own[["from", "to"]].to_numpy(float)
        np.testing.assert_array_equal(ends[1:, 0], ends[:-1, 1])  # no gap, no overlap
        assert np.isnan(ends[0, 0])
        assert np.isnan(ends[-1, 1])


def test_random_draws_are_on_the_card(run):
    chance = run.retarget(max_randomised=1.0, target_ddp=0.01).personal_model("1")
    card = scorecard(chance, run.shapes())
    drawn = card[card["part"] == "lot"]
    assert len(drawn) >= 1
    assert drawn["level"].str.contains("charged again by random draw").all()


def test_always_and_never_are_words(run):
    """A threshold that every score, or no score, exceeds is no number of points."""
    model, far = run.personal_model("1"), 1e30
    ends = torch.tensor([[-far, -far, 0.0, 0.0], [far, far, 0.0, 0.0]])
    predictor = replace(model.predictor, rule=Thresholds(ends))
    card = scorecard(replace(model, predictor=predictor), run.shapes())
    rule = card[card["part"] == "rule"]
    assert list(rule["level"]) == ["charged again always", "charged again never"]
    assert rule["points"].isna().all()
    assert card["points"].abs().max() < 1e4


def test_ranges_of_random_draws_have_ends_only_where_there_are_some():
    lines = list(_ranges("hired", -1.0, 1e30, 0.7, 0.2))
    assert [line["part"] for line in lines] == ["lot", "lot"]
    assert [line["from"] for line in lines] == [None, round(-FACTOR, 1)]
    assert [line["to"] for line in lines] == [round(-FACTOR, 1), None]


def test_bands_are_the_best_cuts():
    """Against all ways to cut in three."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        z, counts = np.sort(10 * rng.normal(size=9)), rng.integers(1, 9, size=9).astype(float)

        def cost(cuts, z=z, counts=counts):
            parts = [slice(a, b) for a, b in pairwise(cuts)]
            means = [np.average(z[p], weights=counts[p]) for p in parts]
            return sum((counts[p] * (z[p] - m) ** 2).sum()
                       for p, m in zip(parts, means, strict=True))  # fmt: skip

        best = min(cost([0, a, b, 9]) for a in range(1, 8) for b in range(a + 1, 9))
        assert cost(bands(z, counts, most=3, close=0.0)) == pytest.approx(best)


def test_what_has_no_points_is_said(compas):
    model = pff.train(compas, pff.methods.FedAvg(rounds=1)).personal_model(0)
    with pytest.raises(pff.InputError, match=r"this model does not .mlp 64-64.: take model='addi"):
        scorecard(model, None)
