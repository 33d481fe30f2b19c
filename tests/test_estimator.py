"""scikit-learn's contract, and that what comes out is what `train` gives."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import get_scorer, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import pfedfair as pff
from made_people import people
from pfedfair.estimator import NotFairWarning

INPUTS = ["a", "b", "c", "colour"]
# Nothing of the default is excepted. Scores of other methods are shown as they are, in single
# precision, whose last digit depends on the rows beside.
ROUNDING = {"check_methods_sample_order_invariance": "scores are in single precision"}


def expected(estimator):
    return ROUNDING if estimator.method == "fedavg" else {}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [pff.FairFederatedClassifier(), pff.FairFederatedClassifier("fedavg", rounds=20)],
    expected_failed_checks=expected,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def frame():
    return people((300, 160, 340))


@pytest.fixture(scope="module")
def fitted(frame):
    y = np.where(frame["hired"] == 1, "yes", "no")
    clf = pff.FairFederatedClassifier(target_ddp=0.02)
    return clf.fit(frame[INPUTS], y, sensitive_features=frame["sex"], clients=frame["site"])


def given(frame):
    return {"sensitive_features": frame["sex"], "clients": frame["site"]}


def test_persons_are_those_of_from_frame(frame):
    person = np.random.default_rng(0).integers(0, 200, len(frame))
    data = pff.from_frame(frame.assign(person=person), "hired", "sex", drop=["site"],
                          person="person")  # fmt: skip
    federation = data.federate(pff.partition.by_column("site", test=0.0))
    run = pff.train(federation, "transport", target_ddp=0.02)
    clf = pff.FairFederatedClassifier(target_ddp=0.02)
    every = {**given(frame), "persons": person}
    clf.fit(frame[INPUTS], frame["hired"], **every)
    theta = clf.run_.fitted.theta
    assert torch.equal(theta, run.fitted.theta)
    within = frame[INPUTS].assign(person=person)
    clf.fit(within, frame["hired"], **every | {"persons": "person"})
    assert torch.equal(clf.run_.fitted.theta, theta)
    assert "person" not in clf.run_.columns["numbers"]
    clf.fit(frame[INPUTS], frame["hired"], **given(frame))
    assert not torch.equal(clf.run_.fitted.theta, theta)
    with pytest.raises(pff.InputError, match="persons has 2 columns: one says whose a row is"):
        clf.fit(frame[INPUTS], frame["hired"], persons=frame[["a", "b"]])


def test_it_is_what_train_gives(frame, fitted):
    data = pff.from_frame(frame, "hired", "sex", drop=["site"])
    federation = data.federate(pff.partition.by_column("site", test=0.0))
    run = pff.train(federation, "transport", target_ddp=0.02)
    assert np.array_equal(fitted.run_.fitted.theta, run.fitted.theta)
    chances = fitted.predict_proba(frame[INPUTS], **given(frame))
    decided = fitted.predict(frame[INPUTS], **given(frame))
    scores = fitted.score_samples(frame[INPUTS], **given(frame))
    log_odds = fitted.decision_function(frame[INPUTS], **given(frame))
    for i, name in enumerate(fitted.clients_):
        rows = np.flatnonzero(frame["site"] == name)
        s = federation.table.s[rows]
        own = run.predictors[i]
        x = federation.table.x[rows]
        np.testing.assert_allclose(
            chances[rows], own.chances(x, s, federation.table.encoder), atol=1e-7
        )
        z = own.logits(x, s, federation.table.encoder)[:, 0].double().numpy()
        np.testing.assert_allclose(scores[rows], 1 / (1 + np.exp(-z)), atol=1e-12)
        np.testing.assert_array_equal(log_odds[rows], z)
    sure = chances.max(1) == 1
    assert sure.mean() > 0.9
    np.testing.assert_array_equal(decided[sure], np.array(["no", "yes"])[chances.argmax(1)][sure])


def test_labels_names_and_shapes_are_the_users(frame, fitted):
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert fitted.feature_names_in_.tolist() == INPUTS
    assert fitted.n_features_in_ == 4
    assert fitted.clients_ == ("site 0", "site 1", "site 2")
    assert fitted.groups_ == ("f", "m")
    y = np.where(frame["hired"] == 1, "yes", "no")
    decided = fitted.predict(frame[INPUTS], **given(frame))
    assert fitted.score(frame[INPUTS], y, **given(frame)) == np.mean(decided == y) > 0.7
    assert fitted.score_samples(frame[INPUTS], **given(frame)).shape == (800,)


def test_scores_rank_and_chances_are_those_of_decisions(frame, fitted):
    """scikit-learn's scorers: roc_auc ranks by score, and a decision is at least as likely."""
    X, y = frame[INPUTS], np.where(frame["hired"] == 1, "yes", "no")
    named = clone(fitted).fit(frame.drop(columns="hired"), y, "sex", "site")
    found = get_scorer("roc_auc")(named, frame.drop(columns="hired"), y)
    scores = fitted.score_samples(X, **given(frame))
    assert found == pytest.approx(roc_auc_score(y, scores))
    chances = fitted.predict_proba(X, **given(frame))
    assert found > roc_auc_score(y, chances[:, 1])
    decided = (fitted.predict(X, **given(frame)) == "yes").astype(int)
    assert (chances[np.arange(len(X)), decided] > 0).all()
    alike = chances.max(1) == 1
    np.testing.assert_array_equal(chances.argmax(1)[alike], decided[alike])
    for name, model in fitted.models_.items():
        own = frame[frame["site"] == name]
        for method in ("predict_proba", "decision_function", "score_samples"):
            np.testing.assert_array_equal(
                getattr(model, method)(own[INPUTS], own["sex"]),
                getattr(fitted, method)(own[INPUTS], **given(own)),
            )


def test_chances_of_a_randomised_rule_are_how_often_it_decides(frame, fitted):
    lottery = clone(fitted).set_params(
        target_ddp=0.01, confidence=0.8, settings={"max_randomised": 1.0}
    )
    lottery.fit(frame[INPUTS], frame["hired"], **given(frame))
    model, own = lottery.models_["site 0"], frame[frame["site"] == "site 0"]
    chances = model.predict_proba(own[INPUTS], own["sex"])[:, 1]
    decided = [model.predict(own[INPUTS], own["sex"], random_state=k) for k in range(400)]
    assert ((chances > 0) & (chances < 1)).any()
    np.testing.assert_allclose(np.mean(decided, axis=0), chances, atol=0.1)


def test_the_gap_is_closed_on_new_people():
    """DDP by fairlearn, against the same scores without a rule, on people nobody has seen."""
    from fairlearn.metrics import demographic_parity_difference

    train, test = people((2000, 1000), seed=1), people((4000, 4000), seed=2)
    plain = HistGradientBoostingClassifier(max_iter=30, random_state=0)
    plain.fit(train[["a", "b", "c"]], train["hired"])
    clf = pff.FairFederatedClassifier(target_ddp=0.0)
    clf.fit(train[INPUTS], train["hired"], **given(train))
    for site in ("site 0", "site 1"):
        here = test[test["site"] == site]
        about = {"y_true": here["hired"], "sensitive_features": here["sex"]}
        fair = clf.predict(here[INPUTS], **given(here))
        usual = plain.predict(here[["a", "b", "c"]])
        assert demographic_parity_difference(y_pred=fair, **about) < 0.07
        assert demographic_parity_difference(y_pred=usual, **about) > 0.3


def test_lots_are_the_same_in_any_order_and_company(frame, fitted):
    lottery = clone(fitted).set_params(
        target_ddp=0.01, confidence=0.8, settings={"max_randomised": 1.0}
    )
    lottery.fit(frame[INPUTS], frame["hired"], **given(frame))
    chances = lottery.predict_proba(frame[INPUTS], **given(frame))[:, 1]
    drawn = (chances > 0) & (chances < 1)
    assert drawn.sum() >= 5
    decided = lottery.predict(frame[INPUTS], **given(frame))
    mixed = frame.sample(frac=0.5, random_state=0)
    again = lottery.predict(mixed[INPUTS], **given(mixed))
    np.testing.assert_array_equal(again, decided[mixed.index])
    same = clone(lottery).fit(frame[INPUTS], frame["hired"], **given(frame))
    np.testing.assert_array_equal(same.predict(frame[INPUTS], **given(frame)), decided)


def test_groups_and_clients_may_be_columns_of_x(frame, fitted):
    y = np.where(frame["hired"] == 1, "yes", "no")
    X = frame.drop(columns="hired")
    named = pff.FairFederatedClassifier(target_ddp=0.02).fit(X, y, "sex", "site")
    alike = pff.FairFederatedClassifier(target_ddp=0.02).fit(X, y, X["sex"], X["site"])
    decided = fitted.predict(frame[INPUTS], **given(frame))
    for clf in (named, alike):
        assert clf.run_.federation.data.numeric == ("a", "b", "c")
        assert [*clf.run_.federation.data.categorical] == ["colour"]
        np.testing.assert_array_equal(clf.predict(X), decided)  # S and clients are in X
    with pytest.raises(pff.InputError, match="no column 'gender' of X for sensitive_features"):
        pff.FairFederatedClassifier().fit(X, y, "gender")


def test_frames_of_other_libraries(frame, fitted):
    table = pa.Table.from_pandas(frame[INPUTS])
    s, c = pa.array(frame["sex"]), pa.chunked_array([pa.array(frame["site"])])
    y = np.where(frame["hired"] == 1, "yes", "no")
    clf = clone(fitted).fit(table, pa.array(y), sensitive_features=s, clients=c)
    assert clf.feature_names_in_.tolist() == INPUTS
    np.testing.assert_array_equal(
        clf.predict(table, s, c), fitted.predict(frame[INPUTS], **given(frame))
    )


def test_several_attributes_and_arrays(frame):
    rng = np.random.default_rng(0)
    both = pd.DataFrame({"sex": frame["sex"], "old": rng.integers(0, 2, len(frame))})
    X = frame[["a", "b", "c"]].to_numpy()
    clf = pff.FairFederatedClassifier(target_ddp=0.1).fit(X, frame["hired"], both)
    assert clf.groups_ == ("f x 0", "f x 1", "m x 0", "m x 1")
    assert clf.clients_ == ("everybody",)
    assert clf.run_.federation.data.numeric == ("x0", "x1", "x2")
    assert set(clf.predict(X, both)) == {0, 1}
    assert not hasattr(clf, "feature_names_in_")


def test_cross_validation_by_names_and_by_routing(frame):
    X, y = frame.drop(columns="hired"), frame["hired"].to_numpy()
    cv = StratifiedKFold(3, shuffle=True, random_state=0)
    clf = pff.FairFederatedClassifier("fedavg-kde", eta=0.5, rounds=10)
    names = {"sensitive_features": "sex", "clients": "site"}
    by_name = cross_val_score(clf, X, y, cv=cv, params=names, scoring="accuracy")
    assert (by_name > 0.6).all()
    with sklearn.config_context(enable_metadata_routing=True):
        asked = {"sensitive_features": True, "clients": True}
        routed = clone(clf).set_fit_request(**asked).set_score_request(**asked)
        pipeline = make_pipeline(StandardScaler(), routed)
        found = cross_validate(pipeline, X[["a", "b", "c"]], y, cv=cv, params=given(frame))
    assert (found["test_score"] > 0.6).all()
    assert (found["fit_time"] > 0).all()


def test_what_is_missing_or_new_is_said(frame, fitted):
    X, s, c = frame[INPUTS], frame["sex"], frame["site"]
    for arguments, message in [
        ((X,), "S is an input of the model: give sensitive_features"),
        ((X, s), r"Every client has a model of its own \(site 0, site 1, site 2\): give clients"),
        ((X, s, c.replace("site 1", "moon")), "Client moon was not there in fit: .*personalise"),
        ((X, s[:5], c), "X has 800 rows, sensitive_features has 5"),
        ((X, s.replace("f", "x"), c), "sensitive_features must be f or m; found 'x'"),
    ]:
        with pytest.raises(pff.InputError, match=message):
            fitted.predict(*arguments)
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(X[INPUTS[::-1]], s, c)
    for change, message in [
        ({"y": np.zeros(800)}, "y has one class only"),
        ({"y": np.where(np.arange(800) < 3, np.nan, 1.0)}, "y has 3 missing values"),
        ({"sensitive_features": ["f"] * 800}, "must have 2 to"),
        ({"clients": frame[["site", "sex"]]}, "clients has 2 columns"),
        ({"clients": c.mask(np.arange(800) < 3)}, "missing values"),
    ]:
        with pytest.raises(ValueError, match=message):
            clone(fitted).fit(**{"X": X, "y": frame["hired"], **given(frame)} | change)
    with pytest.raises(pff.InputError, match="'eta' means nothing to fedavg"):
        pff.FairFederatedClassifier("fedavg", eta=0.5).fit(X, frame["hired"], s)


def test_one_model_for_all_is_for_new_clients_too(frame):
    X = frame[INPUTS]
    clf = pff.FairFederatedClassifier("fedavg", rounds=5).fit(X, frame["hired"], **given(frame))
    decided = clf.predict(X, frame["sex"])
    np.testing.assert_array_equal(clf.predict(X, frame["sex"], ["moon"] * len(X)), decided)


def test_a_blind_model_need_not_be_told(frame):
    clf = pff.FairFederatedClassifier("fedavg-kde", rounds=5, sensitive_as_input=False)
    clf.fit(frame[INPUTS], frame["hired"], **given(frame))
    assert len(clf.predict(frame[INPUTS])) == len(frame)


def test_nothing_is_dropped_or_unfair_in_silence(frame):
    X, y = frame[INPUTS], frame["hired"]
    with pytest.warns(NotFairWarning, match="everybody is in one group: nothing is made fair"):
        pff.FairFederatedClassifier(rounds=8).fit(X, y)
    copies = X.assign(id=np.arange(len(X)), hired_too=np.where(y == 1, "ja", "nein"))
    with pytest.warns(UserWarning, match="Left out: 'id' has another value.*'hired_too' is a copy"):
        pff.FairFederatedClassifier("fedavg", rounds=1).fit(copies, y)
    small = frame["site"].mask(np.arange(len(frame)) < 7, "tiny")
    with pytest.warns(UserWarning, match=r"fewer than 20 rows to learn from: tiny \(7\)"):
        pff.FairFederatedClassifier("fedavg", rounds=1).fit(X, y, frame["sex"], small)
    pff.FairFederatedClassifier("fedavg", rounds=1).fit(X, y)  # not fair, and not asked to be


@pytest.mark.filterwarnings("ignore::pfedfair.CollapseWarning")
def test_random_states(frame):
    X, y = frame[INPUTS], frame["hired"]

    def weights(state):
        clf = pff.FairFederatedClassifier("fedavg", model="mlp", rounds=1, random_state=state)
        return clf.fit(X, y).run_.fitted.w.numpy()

    np.testing.assert_array_equal(weights(np.int64(3)), weights(3))
    drawn = [weights(np.random.RandomState(0)) for _ in range(2)]
    np.testing.assert_array_equal(*drawn)
    assert not np.array_equal(weights(3), weights(4))
    assert not np.array_equal(weights(None), weights(None))


def test_a_pickle_has_no_rows(frame, fitted):
    kept = pickle.dumps(fitted)
    other = people((3000, 1600, 3400))
    larger = clone(fitted).fit(other[INPUTS], other["hired"], **given(other))
    assert len(pickle.dumps(larger)) < 2 * len(kept)
    again = pickle.loads(kept)
    assert not hasattr(again, "run_")
    np.testing.assert_array_equal(
        again.predict(frame[INPUTS], **given(frame)), fitted.predict(frame[INPUTS], **given(frame))
    )


def test_without_scikit_learn_it_is_said_and_the_rest_works():
    program = """
import sys
sys.modules["sklearn"] = None
import pfedfair as pff
assert "FairFederatedClassifier" not in dir(pff)
try:
    pff.FairFederatedClassifier
except pff.InputError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "pip install 'pfedfair[sklearn]'" in done.stdout
    assert "FairFederatedClassifier" in dir(pff)
    with pytest.raises(AttributeError, match="attribute nothing"):
        pff.nothing  # noqa: B018
