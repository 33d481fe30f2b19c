"""What `Run.table` measures, against scikit-learn on the run's own scores and decisions."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import (
    balanced_accuracy_score,
    precision_score,
    recall_score,
    roc_auc_score,
)

import pfedfair as pff
from pfedfair.experiments import results
from pfedfair.metrics.performance import no_better

RNG = np.random.default_rng(0)


def made(n, groups=2):
    frame = pd.DataFrame({"x": RNG.normal(size=n), "z": RNG.normal(size=n)})
    frame["sex"] = RNG.choice(list("abcd")[:groups], n)
    frame["site"] = RNG.choice(["north", "south"], n)
    frame["hired"] = (RNG.random(n) < 1 / (1 + np.exp(-2 * frame["x"]))).astype(int)
    frame["weight"] = np.exp(0.5 * RNG.normal(size=n) + frame["hired"])
    return frame


TRAIN, TEST = made(400), made(300)
SITES = pff.partition.by_column("site")


def trained(test=TEST, frame=TRAIN, **options):
    data = pff.from_frame(frame, "hired", "sex", test=test, encoding="standard", **options)
    return pff.train(data.federate(SITES), pff.make("fedavg", {"rounds": 10}), network="linear")


@pytest.mark.parametrize("weight", [None, "weight"])
def test_a_clients_measures_are_scikit_learns(weight):
    run = trained(weight=weight, drop=[] if weight else ["weight"])
    table = run.table().set_index("client")
    for site, held in TEST.groupby("site"):
        model, y = run.personal_model(site), held["hired"]
        decided = model.predict(held, held["sex"])
        given = {"sample_weight": None if weight is None else held[weight]}
        score = model.decision_function(held, held["sex"])
        row = table.loc[site]
        assert row["auc"] == pytest.approx(roc_auc_score(y, score, **given), abs=1e-12)
        assert row["recall"] == pytest.approx(recall_score(y, decided, **given))
        assert row["precision"] == pytest.approx(precision_score(y, decided, **given))
        balanced = balanced_accuracy_score(y, decided, **given)
        assert row["balanced_accuracy"] == pytest.approx(balanced)
        seen = TRAIN[TRAIN["site"] == site]
        positive = np.average(seen["hired"], weights=None if weight is None else seen[weight])
        label = int(positive > 0.5)
        constant = np.average(y == label, weights=given["sample_weight"])
        assert row["constant"] == pytest.approx(constant)
        assert row["gain"] == pytest.approx(row["accuracy"] - constant)
        assert row["gain_low"] < row["gain"] < row["gain_high"]
    np.testing.assert_allclose(run.rules()["constant"], table["constant"])
    np.testing.assert_array_equal(no_better(table), table["gain"] <= 1e-12)


def test_in_the_pool_groups_are_weighted_to_the_clients_shares(compas):
    """And a model for each client has its own AUC."""
    run = pff.train(compas, pff.make("erm-local", {"rounds": 2}), network="linear")
    table, part = run.table("pool"), compas.partition
    data, at = compas.data, part.pool
    y, s = data.y[at], data.s[at]
    for i, name in enumerate(part.names):
        own = (part.shares[i] / np.bincount(s))[s]
        model = run.personal_model(name)
        score = model.decision_function(data.frame.iloc[at], data.frame.iloc[at]["race"])
        expected = roc_auc_score(y, score, sample_weight=own)
        assert table["auc"][i] == pytest.approx(expected, abs=1e-6)


def test_a_constant_model_is_no_better_than_the_constant():
    data = pff.from_frame(TRAIN, "hired", "sex", test=TEST, drop=["weight"])
    run = pff.train(data.federate(SITES), "constant")
    table = run.table()
    assert no_better(table).all()
    assert (table["gain"] == 0).all()
    assert (table["balanced_accuracy"] == 0.5).all()
    assert (table["auc"] == 0.5).all()


def test_four_groups_have_a_noise_floor_in_table_card_and_results(tmp_path):
    run = trained(frame=made(500, 4), test=made(400, 4), drop=["weight"])
    table = run.table()
    assert table["ddp_floor"].between(0.02, 0.3).all()
    assert (table["eo_floor"] > table["ddp_floor"]).all()
    assert run.card["metrics"][0]["ddp_floor"] == pytest.approx(table["ddp_floor"][0])
    assert run.card["metrics"][0]["auc"] == pytest.approx(table["auc"][0])
    run.save(tmp_path / "run")
    pd.testing.assert_frame_equal(pff.load_run(tmp_path / "run").table(), table)
    assert "ddp_floor" not in trained(drop=["weight"]).table()


def test_results_of_earlier_versions_are_read_without_the_new_columns(tmp_path):
    run = trained(drop=["weight"])
    columns = [c for c in results.COLUMNS if c not in results.LATER]
    old = run.table().reindex(columns=columns)
    results.check_numbers(old, tmp_path)
    wrong = old.assign(auc=1.5)
    with pytest.raises(pff.InputError, match="'auc' must be between 0 and 1"):
        results.check_numbers(wrong, tmp_path)
