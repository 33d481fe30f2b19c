"""The graph decides as the model does, on every held-out row, in onnxruntime."""

import json

import numpy as np
import onnxruntime
import pandas as pd
import pytest

import pfedfair as pff
from pfedfair.data.tables.cells import canonical
from pfedfair.export.onnx import build, rule_of, write_onnx
from pfedfair.models import MLP

onnxruntime.set_default_logger_severity(3)
pytestmark = [
    pytest.mark.filterwarnings("ignore::pfedfair.CollapseWarning"),
    pytest.mark.filterwarnings("ignore::pfedfair.UnseenWarning"),
]


def feed(model, frame):
    """A graph's inputs: what a user of it would write."""
    numbers, categories = model.encoder.names
    found = {name: frame[name].to_numpy(np.float64)[:, None] for name in numbers}
    texts = [*categories, *([model.sensitive_column] if model.task.aware else [])]
    for name in texts:
        found[name] = frame[name].map(lambda v: canonical(v) or "").to_numpy(object)[:, None]
    return found


def outcome(model, frame):
    """What onnxruntime computes, by the names of outputs."""
    made, _ = build(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(made.SerializeToString(), options)
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, feed(model, frame)), strict=True))


def held(federation):
    return federation.data.frame.iloc[federation.partition.pool]


CASES = {
    "adult, additive, likeliest": ("adult", "additive", "fedavg-kde", {"rounds": 3}),
    "adult, mlp, thresholds": ("adult", "mlp", "transport", {"rounds": 8, "base": "fedavg"}),
    "compas, additive, thresholds": ("compas", "additive", "transport", {"rounds": 8}),
    "compas, linear, local": ("compas", "linear", "kde-local", {"rounds": 20}),
    "compas, mlp, logofair": ("compas", "mlp", "logofair", {"rounds": 6}),
    "compas, constant": ("compas", "linear", "constant", {}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_decision_on_every_held_out_row(case):
    name, network, method, settings = CASES[case]
    data = pff.load(name, model=network)
    federation = data.federate(pff.partition.fixed_shares())
    if method == "transport":
        settings = settings | {"max_randomised": 0.0}
    run = pff.train(federation, pff.make(method, settings, data))
    rows = held(federation)
    for client in ("1",) if network == "mlp" else ("1", "3"):
        model = run.personal_model(client)
        found = outcome(model, rows)
        np.testing.assert_allclose(found["score"], model.score_samples(rows), atol=2e-6)
        assert not model.predictor.rule.draws
        decided = model.decide(rows)
        np.testing.assert_array_equal(found["label"], model.classes_[decided])
        np.testing.assert_array_equal(found["chance"] > 0.5, decided == 1)


def test_a_randomised_rule_is_written_next_to_the_graph_with_its_chance(compas, tmp_path):
    run = pff.train(compas, pff.make(
        "transport", {"rounds": 8, "base": "fedavg", "target_ddp": 0.01, "max_randomised": 1.0},
        compas.data,
    ))  # fmt: skip
    model, rows = run.personal_model("1"), held(compas)
    assert model.predictor.rule.draws
    found = outcome(model, rows)
    assert sorted(found) == ["chance", "score"]
    np.testing.assert_allclose(found["chance"], model.predict_proba(rows)[:, 1], atol=1e-6)
    written = write_onnx(model, tmp_path / "one.onnx")
    assert [path.name for path in written] == ["one.onnx", "one.rule.json"]
    rule = json.loads(written[1].read_text())
    assert rule == rule_of(model)
    score, s = found["score"], (rows["race"] == "Caucasian").to_numpy()
    chance = np.zeros(len(rows))
    for z, group in enumerate(rule["groups"]):  # the rule by hand
        own = rule["thresholds"][group]
        by = np.where(score >= own["high"], 1.0, np.where(score < own["low"], own["below"],
                                                          own["chance"]))  # fmt: skip
        chance[s == z] = by[s == z]
    np.testing.assert_allclose(chance, found["chance"], atol=1e-6)


def messy(n=400, groups=2, classes=2, seed=0):
    """Missing values, codes, dates in parts, more than two groups and labels."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.integers(3, size=n).astype(float)})
    frame["a"] = frame["a"].where(rng.random(n) > 0.1)
    frame["c"] = rng.choice(["x", "y", "rare é", None], size=n, p=[0.5, 0.3, 0.1, 0.1])
    frame["d"] = rng.random(n) < 0.5
    frame["s"] = [f"g{z}" for z in rng.integers(groups, size=n)]
    frame["y"] = [f"y{c}" for c in rng.integers(classes, size=n)]
    return frame.assign(site=rng.integers(2, size=n).astype(str), one=1.0)


@pytest.mark.parametrize("encoding", ["standard", "piecewise"])
@pytest.mark.parametrize(
    ("groups", "classes", "aware"), [(2, 2, True), (3, 3, True), (3, 2, False)]
)
def test_messy_cells_and_all_kinds(encoding, groups, classes, aware):
    frame = messy(groups=groups, classes=classes)
    data = pff.from_frame(frame, "y", "s", categorical=["b"], encoding=encoding, drop=["site"])
    federation = data.federate(pff.partition.by_column("site"), 0, aware)
    outputs, aware_groups = (1 if classes == 2 else classes), (groups if aware else 0)
    network = MLP(federation.encoder.width, (5,), outputs, groups=aware_groups)
    run = pff.train(federation, pff.methods.FedAvg(rounds=4, batch=50, alpha=0.02), network=network)
    model, rows = run.personal_model(0), messy(200, groups, classes, seed=1)
    rows.loc[:4, "c"] = "new"
    rows.loc[5, "a"] = np.inf
    found = outcome(model, rows)
    np.testing.assert_array_equal(found["label"], model.predict(rows))
    np.testing.assert_allclose(found["score"], model.score_samples(rows), atol=2e-6)


def test_an_unknown_group_has_no_decision(compas):
    run = pff.train(compas, pff.methods.FedAvg(rounds=2))
    model, rows = run.personal_model(0), held(compas).head(4).assign(race=["", "x", "Asian", "?"])
    found = outcome(model, rows)
    assert [label == "" for label in found["label"]] == [True, True, False, True]
    assert np.isnan(found["score"]).tolist() == [True, True, False, True]


def test_a_model_that_guesses_s_has_a_rule_beside_it():
    data = pff.from_frame(messy(), "y", "s", drop=["site"])
    federation = data.federate(pff.partition.by_column("site"), 0, False)
    options = {
        "rounds": 4,
        "agree": 1,
        "bins": 60,
        "batch": 60,
        "base": pff.methods.FedAvg(alpha=0.02),
    }
    model = pff.train(federation, pff.methods.Transport(**options)).personal_model("1")
    rows = messy(seed=2)
    found = outcome(model, rows)
    assert sorted(found) == ["score"]
    np.testing.assert_allclose(found["score"], model.score_samples(rows), atol=2e-6)
    rule = rule_of(model)
    assert rule["kind"] == "lookup"
    assert np.array(rule["numbers"]).shape == tuple(model.predictor.rule.numbers.shape)


def test_what_cannot_be_exported_is_said(compas, federation):
    trees = pff.train(federation, pff.methods.Pooled(trees=3)).personal_model(0)
    with pytest.raises(pff.InputError, match=r"cannot be exported .up to 3 trees"):
        build(trees)


def test_a_graph_is_the_same_twice(compas, tmp_path):
    run = pff.train(compas, pff.methods.FedAvg(rounds=1))
    for name in ("a.onnx", "b.onnx"):
        write_onnx(run.personal_model(0), tmp_path / name)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
