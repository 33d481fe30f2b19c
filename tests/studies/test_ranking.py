"""Ranks and answers of comparisons that were made by hand, where it is clear what they must be."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from scipy import stats

from made_up import PLAN
from pfedfair import report
from pfedfair.studies import comparison, ranking
from pfedfair.studies.arms import arms, chosen, sentence
from pfedfair.studies.rows import CONSTANT

CLIENTS = ("1", "2", "3")


def made(methods, seeds=5, noise=0.002, same=(), few=()):
    """Runs of three clients, the first of which is the worst.

    Per method a list of (accuracy, gap), one for each level; splits differ in difficulty by far
    more than the `noise` between methods. `same` are the (method, level, client) with one decision
    for all held-out rows, `few` the clients with few of them.
    """
    rng = np.random.default_rng(0)
    splits = rng.normal(0, 0.03, seeds)
    rows = [
        {"dataset": "d", "inputs": "", "method": method, "model": "mlp", "eta": 0.1 * k,
         "level": f"{0.1 * k:g}", "config": json.dumps({"m": method, "k": k}), "partition": PLAN,
         "protocol": "pool", "seed": seed, "client": client, "role": "overrepresented",
         "accuracy": accuracy + 0.05 * i + splits[seed] + own, "ddp": gap - 0.001 * i * (gap > 0),
         "npr_s0": 0.5, "npr_s1": 0.5, "collapsed": False, "ddp_people": 3 if client in few else 90,
         "one_decision": method == CONSTANT or (method, k, client) in same}
        for method, levels in methods.items()
        for k, (accuracy, gap) in enumerate(levels)
        for seed in range(seeds)
        for own in [rng.normal(0, noise)]
        for i, client in enumerate(CLIENTS)
    ]  # fmt: skip
    return pd.DataFrame(rows)


NONE = {CONSTANT: [(0.5, 0.0)]}
BETTER = NONE | {"a": [(0.75, 0.04)], "b": [(0.8, 0.04)], "c": [(0.75, 0.04)]}


def test_a_clear_winner():
    frame = made(BETTER)
    found = ranking.by_limit(frame)
    assert found.frame.set_index("method")["rank"].to_dict() == {"b": 1, "a": 2, "c": 2}
    assert found.answer.startswith("b is clearly the best by the worst client's accuracy at a DDP")
    assert "of at most 0.05: +4.9 [+" in found.answer
    assert "(95 % confidence, 5 seeds)" in found.answer
    assert comparison(frame).sentence == found.answer


def test_differences_are_paired_and_hold_for_all_pairs_together():
    frame = made(BETTER)
    rows = ranking.by_limit(frame).frame.set_index("method")
    worst = frame[frame["client"] == "1"].pivot(index="seed", columns="method", values="accuracy")
    less = worst["c"] - worst["b"]
    low, high = stats.t.interval(1 - 0.05 / 3, 4, less.mean(), stats.sem(less))
    assert rows.loc["c", ["less", "less_low", "less_high"]].to_list() == pytest.approx(
        [less.mean(), low, high]
    )


def test_overlap_has_no_winner_and_the_clearly_worse_are_named():
    found = ranking.by_limit(made(BETTER | {"d": [(0.8005, 0.05)]}))
    ranks = found.frame.set_index("method")["rank"].to_dict()
    assert ranks == {"b": 1, "d": 1, "a": 3, "c": 3}
    tied, worse = (list(found.frame["method"][k]) for k in (slice(2), slice(2, None)))
    assert found.answer.startswith(f"No clear winner among {tied[0]} and {tied[1]} by ")
    assert f"; clearly worse: {worse[0]} and {worse[1]}." in found.answer


def test_equal_numbers_are_a_tie():
    values = pd.DataFrame({"a": [0.8, 0.7, 0.9], "b": [0.8, 0.7, 0.9], "c": [0.7, 0.6, 0.8]})
    assert list(ranking.ranked(values)["rank"]) == [1, 1, 3]
    assert list(ranking.ranked(values, higher=False)["rank"]) == [1, 2, 2]


@pytest.mark.parametrize("m", [2, 5])
def test_equal_methods_are_rarely_told_apart(m):
    """However many there are; the best of them is found in the same data."""
    rng, wrong = np.random.default_rng(m), 0
    for _ in range(200):
        values = pd.DataFrame(rng.normal(size=(4, m)) + rng.normal(size=(4, 1)))
        wrong += ranking.ranked(values)["rank"].max() > 1
    assert wrong <= stats.binom.ppf(0.999, 200, 0.05)


@pytest.mark.parametrize(("seeds", "few"), [(1, "One seed"), (2, "Two seeds")])
def test_with_few_seeds_nothing_is_ranked(seeds, few):
    found = ranking.by_limit(made(BETTER, seeds=seeds))
    assert found.answer == f"{few} cannot tell methods apart: take seeds=5. No method is ranked."
    assert list(found.frame["method"]) == ["a", "b", "c"]  # in the order that they came in
    assert found.frame["rank"].isna().all()
    assert [row[0] for row in comparison(made(BETTER, seeds=seeds)).tables[0].cells()] == ["-"] * 3


def test_seeds_that_not_every_method_has_do_not_count():
    frame = made(BETTER, seeds=4)
    some = frame[(frame["method"] != "a") | (frame["seed"] > 1)]
    assert ranking.by_limit(some).seeds == 2
    none = pd.concat([
        frame[(frame["method"] == "a") & (frame["seed"] < 2)],
        frame[(frame["method"] != "a") & (frame["seed"] >= 2)],
    ])  # fmt: skip
    assert ranking.by_limit(none).answer.startswith("Methods without a common seed cannot")


def test_constant_models_are_set_apart_and_never_the_best():
    best = BETTER | {"e": [(0.9, 0.0), (0.7, 0.04)], "f": [(0.9, 0.0)], "g": [(0.49, 0.01)]}
    frame = made(best, same=[("e", 0, "2"), ("f", 0, "3")])
    found = ranking.by_limit(frame)
    assert found.frame["method"].to_list()[0] == "b"
    assert found.frame.set_index("method").loc["e", "level"] == "0.1"  # the other is constant
    assert not {CONSTANT, "f", "g"} & set(found.frame["method"])
    one, poor = found.apart
    assert one == "not ranked (one decision for all rows): constant; e at eta 0; f."
    assert poor == "not ranked (no more accurate than the constant): g."
    every = arms(frame)
    apart = {(arm.method, arm.level) for arm in every if arm.apart}
    assert apart == {(CONSTANT, ""), ("e", "eta 0"), ("f", ""), ("g", "")}
    assert not every[chosen(every, "ddp")].apart
    assert "e, eta 0:" not in sentence(every, "ddp")


def test_one_decision_for_a_few_rows_is_not_a_constant_model():
    frame = made(BETTER, same=[("b", 0, "2")], few=("2",))
    assert ranking.by_limit(frame).frame["method"].to_list()[0] == "b"


def test_methods_are_compared_at_the_same_gap():
    """An accurate level that is not fair does not count, and neither does a method without one."""
    levels = {"a": [(0.9, 0.2), (0.7, 0.04)], "b": [(0.8, 0.04)], "c": [(0.95, 0.3)]}
    found = ranking.by_limit(made(NONE | levels))
    assert found.frame["method"].to_list() == ["b", "a"]
    assert found.answer.endswith("; no such level: c.")
    assert "not ranked (DDP above 0.05): c (.300 or more)." in found.apart
    loose = ranking.by_limit(made(NONE | levels | {"d": [(0.6, 0.08)]}))
    assert loose.limit == 0.1
    assert set(loose.frame["method"]) == {"a", "b", "d"}


def test_nothing_to_rank():
    found = ranking.by_limit(made(NONE | {"a": [(0.9, 0.3)], "b": [(0.9, 0.3)]}))
    assert found.answer == (
        "No method can be ranked by the worst client's accuracy at a DDP of at most 0.05; no such "
        "level: a and b."
    )
    one = ranking.by_limit(made(NONE | {"a": [(0.9, 0.3)], "b": [(0.9, 0.03)]}))
    assert one.answer.startswith("Only b can be ranked by ")
    lonely = comparison(made(NONE | {"a": [(0.9, 0.3)]}))
    assert "a, eta 0" not in lonely.sentence  # its only level needs no name
    assert "at the worst client" in lonely.sentence
    poor = comparison(made(NONE | {"a": [(0.4, 0.3)]}))
    assert poor.sentence.startswith("No method can be ranked")
    assert "a" in poor.tables[0].lines[1]


def scored(methods, **more):
    """The same on validation rows and on held-out rows."""
    frame = made(methods, **more)
    return pd.concat([frame, frame.assign(protocol="validation")], ignore_index=True)


def test_scores_are_ranked_the_least_area_first():
    found = ranking.by_area(scored(BETTER))
    assert found.frame.set_index("method")["rank"].to_dict()["b"] == 1
    assert found.answer.startswith("b is clearly the best by the trade-off score: -")
    assert found.frame["less"].to_list()[1] > 0  # a larger area is worse
    tied = ranking.by_area(scored(NONE | {"a": [(0.8, 0.04)], "b": [(0.8, 0.04)]}))
    assert tied.answer.startswith("No clear winner among ")


def test_a_score_that_is_the_constants_is_not_ranked():
    frame = scored(BETTER | {"f": [(0.9, 0.0)], "g": [(0.4, 0.01)]}, same=[("f", 0, "1")])
    found = ranking.by_area(frame)
    assert set(found.frame["method"]) == {"a", "b", "c"}
    assert found.apart[0] == "not ranked (one decision for all rows): constant; f."
    assert "g" in found.apart[1]
    table = comparison(frame).tables[0]
    ranks = {row[1]: row[0] for row in table.cells()}
    assert ranks == {"b": "1", "a": "2", "c": "2", "f": "-", "g": "-", CONSTANT: "-"}


def test_the_answer_is_the_first_line_and_the_screen_is_short():
    four = [(0.8, 0.2), (0.79, 0.1), (0.78, 0.06), (0.77, 0.03)]
    view = comparison(made(NONE | dict.fromkeys("abcd", four)))
    console = Console(width=80, file=io.StringIO())
    report.terminal.show(view, console)
    lines = console.file.getvalue().strip().split("\n")
    assert lines[0].startswith("No clear winner among ")
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 80


def test_each_data_set_has_its_answer():
    both = pd.concat([made(BETTER), made(BETTER).assign(dataset="e")], ignore_index=True)
    view = comparison(both)
    assert view.sentence.startswith("d, 3 clients, fixed shares: b is clearly")
    assert view.more[0].startswith("e, 3 clients, fixed shares: b is clearly")


def test_axes_scale_to_the_methods():
    frame = made(BETTER | {"f": [(0.2, 0.0)]}, same=[("f", 0, "1")])
    (picture,) = comparison(frame).pictures
    (axes,) = report_axes(picture)
    assert axes.get_ylim()[1] < 40  # the constant's error is 50 %, that of f 80 %
    assert "constant classifier: DDP 0" in axes.texts[0].get_text()
    assert "1 levels decide like it" in axes.texts[0].get_text()


def report_axes(picture):
    from pfedfair.report import figures

    return figures.draw(picture).axes
