"""Scores of trade-off curves, against curves whose score is known."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfedfair._util.errors import InputError
from pfedfair.studies.tradeoff import Choice, choose, scores

share = st.floats(0, 1)


@given(st.lists(st.tuples(share, share), min_size=1, max_size=6), share)
def test_the_choice_is_the_best_of_a_fine_grid_over_the_curve(points, limit):
    error, ddp = np.array([*points, (1.0, 0.0)]).T
    choice = choose(error, ddp, limit)
    assert choice is not None
    assert choice.at(ddp) <= limit + 1e-12
    a = np.linspace(0, 1, 201)
    for j in range(len(ddp) - 1):
        gaps = (1 - a) * ddp[j] + a * ddp[j + 1]
        errors = (1 - a) * error[j] + a * error[j + 1]
        within = gaps <= limit
        if within.any():
            assert choice.at(error) <= errors[within].min() + 1e-12


def test_nothing_within_the_limit():
    assert choose(np.array([0.1]), np.array([0.5]), 0.2) is None


def results(curves, seeds=1):
    """Runs of one client: per method a list of (accuracy, DDP) on validation and held-out rows."""
    rows = [
        {"dataset": "d", "partition": "p", "method": method, "seed": seed, "protocol": protocol,
         "config": json.dumps({"level": level}), "eta": 0.0, "client": "1",
         "model": "mlp", "level": str(level),
         "role": "overrepresented", "accuracy": accuracy + 0.01 * seed, "ddp": ddp,
         "npr_s0": 0.5, "npr_s1": 0.5}
        for seed in range(seeds)
        for method, levels in curves.items()
        for level, measured in enumerate(levels)
        for protocol, (accuracy, ddp) in zip(("pool", "validation"), measured, strict=True)
    ]  # fmt: skip
    return pd.DataFrame(rows)


CONSTANT = [((0.6, 0.0), (0.5, 0.0))]


def test_chosen_on_validation_rows_and_measured_on_the_others():
    # The validation rows say: half-way between the two levels is at a DDP of 0.1.
    levels = [((0.9, 0.3), (0.8, 0.15)), ((0.8, 0.1), (0.7, 0.05))]
    found = scores(results({"constant": CONSTANT, "m": levels}, seeds=2)).set_index("method")
    first = found[found["seed"] == 0].loc["m"]
    assert first["accuracy_0.1"] == pytest.approx(0.85)
    assert first["ddp_0.1"] == pytest.approx(0.2)  # above the limit, and said so
    assert first["accuracy_0.05"] == pytest.approx(0.8)
    assert first["ddp_0.05"] == pytest.approx(0.1)
    # 0.02 of 0.05 of the way from the constant classifier to the fairest level.
    assert first["accuracy_0.02"] == pytest.approx(0.6 + 0.4 * 0.2)
    assert (found[found["seed"] == 1].loc["m"]["accuracy_0.1"]) == pytest.approx(0.86)


def test_the_area_of_the_constant_classifier_is_its_error():
    found = scores(results({"constant": CONSTANT})).iloc[0]
    assert found["area"] == pytest.approx(0.4)
    assert found["ddp_0.02"] == 0


def test_area_by_hand():
    # Error falls from 0.4 at DDP 0 to 0.1 at DDP 0.1 and stays there: mean over [0, 0.2].
    levels = [((0.9, 0.1), (0.9, 0.1))]
    found = scores(results({"constant": [((0.6, 0.0), (0.6, 0.0))], "m": levels}))
    area = found.set_index("method").loc["m", "area"]
    assert area == pytest.approx((0.25 + 0.1) / 2, abs=1e-2)


def test_a_curve_measured_once_is_refused():
    only = results({"constant": CONSTANT})
    with pytest.raises(ValueError, match="both protocols"):
        scores(only[only["protocol"] == "pool"])


def test_without_the_constant_classifier_there_is_no_score():
    with pytest.raises(InputError, match="need the constant classifier"):
        scores(results({"a": CONSTANT}))


def test_the_gap_is_that_of_the_criterion():
    frame = results({"a": [((0.9, 0.3), (0.9, 0.3))], "constant": CONSTANT})
    frame["eo"] = 2 * frame["ddp"]
    frame["config"] = json.dumps({"criterion": "eo"})
    row = scores(frame).set_index("method").loc["a"]
    assert row["eo_0.1"] == pytest.approx(0.1)
    assert "ddp_0.1" not in row
    assert row["accuracy_0.1"] == pytest.approx(0.6 + 0.3 / 6)


def test_a_choice_at_the_end_of_the_curve():
    assert Choice(1, 0.0).at(np.array([0.1, 0.4])) == pytest.approx(0.4)
