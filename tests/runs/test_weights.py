"""Weighted rows: in training, and in what is measured."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from fairlearn.metrics import (
    demographic_parity_difference,
    equal_opportunity_difference,
    equalized_odds_difference,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score

import pfedfair as pff
from pfedfair.federation import encoded
from pfedfair.metrics import tally

RNG = np.random.default_rng(0)


def made(n):
    frame = pd.DataFrame({"x": RNG.normal(size=n), "z": RNG.normal(size=n)})
    frame["sex"] = RNG.choice(["f", "m"], n)
    frame["site"] = RNG.choice(["north", "south"], n, p=[0.7, 0.3])
    odds = frame["x"] + (frame["sex"] == "m") - 0.5
    frame["hired"] = (RNG.random(n) < 1 / (1 + np.exp(-odds))).astype(int)
    frame["people"] = 1 + RNG.integers(0, 4, n) * frame["hired"]
    return frame


TRAIN, TEST = made(160), made(90)
PLAN = pff.partition.by_column("site")


def weighted(**options):
    options = {"encoding": "standard", "test": TEST, "weight": "people"} | options
    return pff.from_frame(TRAIN, "hired", "sex", **options)


def repeated(federation):
    """Each row as often as it counts; as inputs they are the same."""
    more = TRAIN.loc[TRAIN.index.repeat(TRAIN["people"])]
    data = pff.from_frame(more, "hired", "sex", drop=["people"], encoding="standard", test=TEST)
    return encoded(data, PLAN.split(data, 0), federation.encoder, aware=True)


def test_the_column_is_no_input_and_its_mean_does_not_matter():
    data = weighted()
    assert data.numeric == ("x", "z")
    assert data.weight.mean() == pytest.approx(1)
    weight = data.frame["people"].to_numpy()
    np.testing.assert_allclose(data.weight * weight.mean(), weight)


METHODS = {
    "fedavg": {}, "fedavg-kde": {"eta": 0.5}, "pfedfair": {"eta": 0.5, "prox_epochs": 3},
    "fedprox-kde": {"eta": 0.5, "penalty": "hgr"}, "pfedme-kde": {"eta": 0.3, "prox_epochs": 3},
    "ditto-kde": {"eta": 0.5, "penalty": "mi", "prox_epochs": 2},
    "perfedavg-kde": {"eta": 0.5, "penalty": "ermi"},
    "kde-local": {"eta": 0.5, "penalty": "pearson"}, "constant": {},
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("weighting", ["uniform", "size"])
def test_a_row_that_counts_three_times_is_three_rows(name, weighting):
    own = {"rounds": 3, "batch": 10_000, "alpha": 0.1, "weighting": weighting}
    own |= {"optimiser": "sgd"}
    own = {} if name == "constant" else own
    algorithm = pff.make(name, METHODS[name] | own)
    federation = weighted().federate(PLAN)
    network = "linear"
    some = pff.train(federation, algorithm, network=network)
    many = pff.train(repeated(federation), algorithm, network=network)
    torch.testing.assert_close(some.fitted.theta, many.fitted.theta, atol=2e-5, rtol=1e-4)
    unweighted = pff.from_frame(
        TRAIN, "hired", "sex", drop=["people"], encoding="standard", test=TEST
    ).federate(PLAN)
    other = pff.train(unweighted, algorithm, network=network)
    assert not torch.allclose(some.fitted.theta, other.fitted.theta, atol=1e-3)


@pytest.mark.parametrize("ridge", [0.01, 0.2])
def test_newton_is_scikit_learns_with_sample_weight(ridge):
    federation = weighted().federate(pff.partition.together())
    run = pff.train(federation, pff.methods.Newton(ridge=ridge, rounds=20), network="linear")
    rows, weight = slice(len(TRAIN)), federation.data.weight[: len(TRAIN)]
    x, s = federation.table.inputs(rows), federation.table.s[rows]
    design = run.network.design(x[None], s[None])[0, :, :-1]  # all but the intercept
    design = design.double().numpy()
    theirs = LogisticRegression(C=1 / (weight.sum() * ridge), tol=1e-8, solver="newton-cholesky")
    theirs.fit(design, TRAIN["hired"], sample_weight=weight)
    ours = run.personal_model(0).predict_proba(TRAIN, TRAIN["sex"])[:, 1]
    np.testing.assert_allclose(ours, theirs.predict_proba(design)[:, 1], atol=2e-5)
    assert not np.allclose(ours, theirs.fit(design, TRAIN["hired"]).predict_proba(design)[:, 1],
                           atol=0.01)  # fmt: skip


def test_newton_chooses_the_ridge_as_for_repeated_rows():
    """Its folds are of rows, not of weights, so only the sums at a given ridge are the same."""
    federation = weighted().federate(PLAN)
    some, many = (
        pff.train(one, pff.methods.Newton(ridge=0.05, rounds=12), network="linear")
        for one in (federation, repeated(federation))
    )
    np.testing.assert_allclose(some.fitted.theta, many.fitted.theta, atol=1e-4)
    chosen = pff.train(federation, pff.methods.Newton(rounds=10), network="linear")
    assert torch.isfinite(chosen.fitted.theta).all()
    assert float(chosen.fitted.server["ridges"]) > 0


def test_what_is_measured_is_fairlearns_with_sample_weight():
    run = pff.train(
        weighted().federate(PLAN), pff.methods.FedAvg(rounds=20, alpha=0.1), network="linear"
    )
    table = run.table().set_index("client")
    for site, held in TEST.groupby("site"):
        decided = run.personal_model(site).predict(held, held["sex"])
        given = {"sensitive_features": held["sex"], "sample_weight": held["people"]}
        right = accuracy_score(held["hired"], decided, sample_weight=held["people"])
        assert table.loc[site, "accuracy"] == pytest.approx(right)
        for name, theirs in [("ddp", demographic_parity_difference),
                             ("eo", equalized_odds_difference),
                             ("eopp", equal_opportunity_difference)]:  # fmt: skip
            assert table.loc[site, name] == pytest.approx(theirs(held["hired"], decided, **given))
        assert table.loc[site, "accuracy_low"] < right < table.loc[site, "accuracy_high"]
    own = run.rules()
    np.testing.assert_allclose(own["accuracy"], table["accuracy"])
    np.testing.assert_allclose(own["cost"], 0, atol=1e-12)


def test_shares_are_those_of_people():
    part = weighted().federate(PLAN).partition
    for site, rows in TRAIN.groupby("site"):
        share = np.average(rows["sex"] == "m", weights=rows["people"])
        assert part.share_s1[part.names.index(site)] == pytest.approx(share)


def test_equal_weights_are_none():
    unweighted = weighted(weight=None, drop=["people"]).federate(PLAN)
    equal = pff.from_frame(
        TRAIN.assign(people=7), "hired", "sex", weight="people", encoding="standard",
        test=TEST.assign(people=7),
    ).federate(PLAN)  # fmt: skip
    algorithm = pff.methods.FedAvg(rounds=5, alpha=0.1)
    runs = [pff.train(one, algorithm, network="linear") for one in (unweighted, equal)]
    torch.testing.assert_close(runs[0].fitted.theta, runs[1].fitted.theta)
    pd.testing.assert_frame_equal(*(run.table() for run in runs))


def test_moments_of_rows_by_group_label_and_decision():
    weight = np.array([1.0, 1, 1, 1, 10, 1, 1])
    s = np.array([0, 0, 0, 0, 1, 1, 1])
    y = decided = np.array([0, 1, 1, 1, 1, 0, 0])
    found = tally(s, y, decided, 2, 2, weight)
    assert found[:, 0].tolist() == [[[1, 0], [0, 3]]] * 3
    assert found[:, 1, 1, 1].tolist() == [1, 10, 100]
    assert found[:, 1].sum((1, 2)).tolist() == [3, 12, 102]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"people": 0}, "'people' must be numbers above 0, 160 are not"),
        ({"people": [np.nan, *[1] * 159]}, "above 0, 1 are not"),
        ({"people": ["many", *[1] * 159]}, "above 0, 1 are not"),
        ({"people": [-1.0, *[1] * 159]}, "above 0, 1 are not"),
    ],
)
def test_bad_weights_are_refused(change, message):
    with pytest.raises(pff.InputError, match=message):
        pff.from_frame(TRAIN.assign(**change), "hired", "sex", weight="people")


def test_refusals():
    with pytest.raises(pff.InputError, match=r"cannot be both the .* and the weights"):
        weighted(weight="sex")
    with pytest.raises(pff.InputError, match=r"no column 'peple' for the weights: did you mean"):
        weighted(weight="peple")
    with pytest.raises(pff.InputError, match="no column 'people' in the table for the test"):
        weighted(test=TEST.drop(columns="people"))
    federation = weighted().federate(PLAN)
    for name in ("transport", "fairfed", "reweigh", "fa", "threshold-local", "logofair"):
        with pytest.raises(pff.InputError, match="counts rows, and cannot weigh them"):
            pff.train(federation, pff.make(name))
    with pytest.raises(pff.InputError, match="cannot weigh them"):
        pff.train(federation, pff.methods.Newton(intercepts="personal"), network="linear")


def test_on_the_command_line(pfedfair, tmp_path):
    TRAIN.to_csv(tmp_path / "train.csv", index=False)
    TEST.to_csv(tmp_path / "test.csv", index=False)
    own = ("train.csv", "--label", "hired", "--sensitive", "sex", "--client", "site", "--test",
           "test.csv", "--weight", "people")  # fmt: skip
    code, _, err = pfedfair("train", *own, "--method", "fedavg", "--rounds", 3, "--out", "run")
    assert code == 0, err
    results = pd.read_parquet(tmp_path / "run" / "results.parquet")
    north = TEST[TEST["site"] == "north"]
    decided = pff.load_model(tmp_path / "run", "north").predict(north, north["sex"])
    right = accuracy_score(north["hired"], decided, sample_weight=north["people"])
    assert results.set_index("client").loc["north", "accuracy"] == pytest.approx(right)
    code, _, err = pfedfair("train", *own, "--method", "transport", "--out", "none")
    assert code == 2
    assert "leave out --weight, or take a method such as pfedfair" in err
    assert not (tmp_path / "none").exists()
    code, _, err = pfedfair("theory", *own)
    assert (code, "leave out --weight" in err) == (2, True)
    grid = ("--methods", "fedavg,pfedfair", "--etas", "0.5", "--rounds", 2, "--seeds", 1)
    code, _, err = pfedfair("compare", *own, *grid, "--jobs", 1, "--out", "grid")
    assert code == 0, err
    source = json.loads((tmp_path / "grid" / "experiment.json").read_text())["runs"][0]["source"]
    assert source["weight"] == "people"
