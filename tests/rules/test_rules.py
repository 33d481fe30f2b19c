"""From scores and groups to decisions, against simple loops over rows."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

import pfedfair as pff
from pfedfair.data.task import outputs
from pfedfair.models import Cells
from pfedfair.rules import RULES, Likeliest, Lookup, Thresholds, from_dict
from pfedfair.rules.base import draw

LABELS, GROUPS = ("no", "yes"), ("f", "m")


def rows(n, groups, width=1, seed=0):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(2 * rng.normal(size=(n, width))), torch.from_numpy(
        rng.integers(groups, size=n)
    )


def thresholds(groups=2, seed=0):
    """Low below high, as logits; chance and below."""
    rng = np.random.default_rng(seed)
    low = rng.normal(size=groups)
    high = low + rng.exponential(1, groups) * rng.integers(2, size=groups)
    chance, below = rng.random((2, groups))
    return Thresholds(torch.from_numpy(np.stack([low, high, chance, below], axis=1)))


def lookup(classes=3, groups=3, aware=True, seed=0):
    cells = (classes, 30) if aware else (classes, 15, groups, 10)
    shape = (groups if aware else 1, Cells(*cells).number)
    chances = np.random.default_rng(seed).dirichlet(np.ones(classes), shape)
    return Lookup(torch.from_numpy(chances), cells)


MADE = {
    "likeliest": Likeliest(),
    "likeliest before a guess": Likeliest(outputs=3),
    "thresholds": thresholds(3),
    "lookup": lookup(),
    "lookup of guesses": lookup(2, 3, aware=False),
}


# --- each rule ---------------------------------------------------------------------------------


@given(st.integers(2, 5), st.integers(0, 999))
@settings(deadline=None, max_examples=40)
def test_likeliest_is_the_largest_score(classes, seed):
    logits, s = rows(30, 2, outputs(classes), seed)
    rule, rng = Likeliest(), np.random.default_rng(0)
    decided, chances = rule.decide(logits, s, rng), rule.chances(logits, s)
    assert torch.equal(decided, rule.decide(logits, 1 - s, rng))
    for k, scores in enumerate(logits.tolist()):
        odds = np.exp([0.0, *scores] if classes == 2 else scores)
        assert decided[k] == int(np.argmax(odds))
        np.testing.assert_allclose(chances[k], odds / odds.sum())
    assert decided.dtype == torch.int64


@pytest.mark.parametrize("classes", [2, 3])
def test_likeliest_does_not_look_at_a_heads_guess(classes):
    logits, s = rows(30, 2, outputs(classes) + 3)
    rule, baseline = Likeliest(outputs=outputs(classes)), Likeliest()
    own, rng = logits[:, : outputs(classes)], np.random.default_rng(0)
    assert torch.equal(rule.decide(logits, s, rng), baseline.decide(own, s, rng))
    assert torch.equal(rule.chances(logits, s), baseline.chances(own, s))


def test_likeliest_decides_a_tie_for_0():
    none = torch.zeros(1, dtype=torch.long)
    assert Likeliest().decide(torch.zeros(1, 1), none, np.random.default_rng(0)) == 0
    assert Likeliest().decide(torch.zeros(1, 3), none, np.random.default_rng(0)) == 0


@given(st.integers(2, 5), st.integers(0, 999))
@settings(deadline=None, max_examples=60)
def test_thresholds_by_hand(groups, seed):
    rule = thresholds(groups, seed)
    logits, s = rows(60, groups, seed=seed)
    logits[:groups, 0], s[:groups] = rule.numbers[:, 0], torch.arange(groups)  # at `low`
    logits[groups : 2 * groups, 0] = rule.numbers[:, 1]  # and at `high`
    s[groups : 2 * groups] = torch.arange(groups)
    chances = rule.chances(logits, s)
    for score, z, (no, yes) in zip(logits[:, 0], s.tolist(), chances, strict=True):
        low, high, chance, below = rule.numbers[z]
        expected = 1.0 if score >= high else below if score < low else chance
        assert yes == expected
        assert no == 1 - expected


@given(st.integers(2, 4), st.integers(2, 4), st.booleans(), st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_a_table_has_the_chances_of_the_cell_and_the_group(classes, groups, aware, seed):
    rule = lookup(classes, groups, aware, seed)
    width = outputs(classes) + (0 if aware else outputs(groups))
    logits, s = rows(40, groups, width, seed)
    chances, place = rule.chances(logits, s), rule.cells.locate(logits)
    for k in range(len(s)):
        assert torch.equal(chances[k], rule.numbers[s[k] if aware else 0, place[k]])
    torch.testing.assert_close(chances.sum(1), torch.ones(40).double())


# --- random draws ------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_decisions_are_drawn_with_these_chances(classes):
    """20,000 draws for each of four rows, and for rows with a certain decision."""
    chances = np.random.default_rng(classes).dirichlet(np.ones(classes), 4)
    certain = np.eye(classes)
    many = torch.from_numpy(np.concatenate([chances, certain]).repeat(20_000, axis=0))
    drawn = draw(many, np.random.default_rng(0)).reshape(4 + classes, -1)
    rates = np.stack([(drawn == c).double().mean(1) for c in range(classes)], axis=1)
    np.testing.assert_allclose(rates[:4], chances, atol=0.015)
    np.testing.assert_array_equal(rates[4:], certain)


@given(st.integers(1, 40), st.integers(0, 99))
@settings(deadline=None, max_examples=30)
def test_a_draw_is_one_number_for_each_row(n, seed):
    """The second of two classes is drawn where a uniform number is below its chance."""
    chance = torch.from_numpy(np.random.default_rng(seed).random(n))
    drawn = draw(torch.stack([1 - chance, chance], dim=1), np.random.default_rng(seed + 1))
    numbers = np.random.default_rng(seed + 1).random(n)
    np.testing.assert_array_equal(drawn, numbers < chance.numpy())


@pytest.mark.parametrize("name", MADE)
def test_decisions_are_draws_by_the_chances(name):
    rule = MADE[name]
    width = {"thresholds": 1, "lookup of guesses": 1 + 3}.get(name, 3)
    logits, s = rows(5000, 3, width)
    decided = rule.decide(logits, s, np.random.default_rng(2))
    assert decided.shape == (5000,)
    assert torch.equal(decided, rule.decide(logits, s, np.random.default_rng(2)))
    other = rule.decide(logits, s, np.random.default_rng(3))
    assert torch.equal(decided, other) == name.startswith("likeliest")
    if not name.startswith("likeliest"):
        expected = draw(rule.chances(logits, s), np.random.default_rng(2))
        assert torch.equal(decided, expected)


# --- in words, tables and files ----------------------------------------------------------------


@pytest.mark.parametrize("name", MADE)
def test_what_a_rule_says_of_itself_makes_it_again(name):
    rule = MADE[name]
    about = json.loads(json.dumps(rule.to_dict()))
    again = from_dict(about, rule.numbers.clone())
    assert type(again) is type(rule)
    assert (again.to_dict(), again.table()) == (about, rule.table())
    assert torch.equal(again.numbers, rule.numbers)
    labels = ("a", "b", "c")[: 2 if name == "lookup of guesses" else 3]
    assert again.words(labels, ("x", "y", "z")) == rule.words(labels, ("x", "y", "z"))
    width = {"thresholds": 1, "lookup of guesses": 1 + 3}.get(name, 3)
    logits, s = rows(200, 3, width)
    assert torch.equal(again.chances(logits, s), rule.chances(logits, s))


def test_every_kind_of_rule_was_made_again():
    assert {rule.to_dict()["kind"] for rule in MADE.values()} == set(RULES)
    with pytest.raises(pff.InputError, match="Unknown saved rule 'dice'"):
        from_dict({"kind": "dice"}, torch.zeros(0))


def test_words():
    assert Likeliest().words(LABELS, GROUPS) == ["Decide yes if the score is above 0.5."]
    assert Likeliest().words(("a", "b", "c"), GROUPS) == [
        "Decide for the label with the largest score."
    ]
    rule = Thresholds(torch.tensor([[0.0, 0.0, 0.0, 0.0], [-0.5, 0.5, 0.3, 0.0]]))
    first, *rest = rule.words(LABELS, GROUPS)
    assert first.startswith("Decide yes if the score is above the threshold of the row's group")
    assert rest == ["f: 0.500", "m: 0.378-0.622"]
    assert "It has no thresholds to show." in lookup().words(("a", "b", "c"), GROUPS)


FAR = 1e30


@pytest.mark.parametrize(
    ("numbers", "cell"),
    [
        ((FAR, FAR, 0.0, 0.0), "never"),
        ((FAR, FAR, 0.0, 0.25), "25 % at random"),
        ((-FAR, -FAR, 0.0, 0.0), "always"),
        ((-FAR, 0.0, 0.4, 0.0), "0.500, or 40 % at random"),
        ((0.0, 0.0, 0.0, 0.125), "0.500, or 12 % at random"),
        ((0.0, 0.5, 0.3, 0.1), "0.500-0.622, or 10 % at random"),
    ],
)
def test_a_groups_rule_in_a_few_characters(numbers, cell):
    assert Thresholds(torch.tensor([numbers, numbers])).cell(1) == cell


def test_a_table_has_scores_and_chances_of_every_group():
    rule = thresholds(3)
    found = rule.table()
    assert len(found) == 12
    for z in range(3):
        low, high, chance, below = rule.numbers[z].tolist()
        assert found[f"low_s{z}"] == pytest.approx(expit(low))
        assert found[f"high_s{z}"] == pytest.approx(expit(high))
        assert (found[f"chance_s{z}"], found[f"below_s{z}"]) == (chance, below)
    assert Likeliest().table() == lookup().table() == {}
