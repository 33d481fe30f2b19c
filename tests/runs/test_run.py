import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import pfedfair as pff
from pfedfair import metrics
from pfedfair.runs.predictor import count


@pytest.fixture(scope="module")
def run(compas):
    return pff.train(compas, pff.methods.PFedFair(rounds=5, prox_epochs=5, alpha=0.01), seed=1)


def test_table_has_a_row_per_client_and_intervals_around_the_estimates(run):
    table = run.table()
    assert list(table["client"]) == ["1", "2", "3", "4", "5"]
    assert (table["protocol"] == "pool").all()
    assert (table["n_test"] == 3172).all()
    for name in ("accuracy", "ddp"):
        assert (table[f"{name}_low"] <= table[name]).all()
        assert (table[name] <= table[f"{name}_high"]).all()


def test_protocols_differ_in_rows(run):
    own = run.table("own")
    assert (own["n_test"] == 120).all()
    rows = run.federation.partition.test[2]
    counts = count(run.predictors[2:3], run.federation.table, [rows])
    assert own["accuracy"][2] == pytest.approx(metrics.measure(counts)["accuracy"][0])
    with pytest.raises(pff.InputError, match="Unknown protocol 'exam'"):
        run.table("exam")


def test_pool_needs_clients_that_differ_in_s_only(federation):
    run = pff.train(federation, pff.methods.FedAvg(rounds=8, batch=30, alpha=0.02))
    assert (run.table()["protocol"] == "own").all()
    with pytest.raises(pff.InputError, match="use protocol 'own'"):
        run.table("pool")


def test_validation_protocol_reads_validation_rows_only():
    fed = pff.load("compas").federate(pff.partition.fixed_shares(validation=0.2))
    run = pff.train(fed, pff.methods.FedAvg(rounds=5, alpha=0.01))
    rows = np.concatenate(fed.partition.validation)
    counts = count(run.predictors, run.federation.table, [rows] * 5)
    expected = metrics.measure(counts, fed.partition.shares)["accuracy"]
    np.testing.assert_allclose(run.table("validation")["accuracy"], expected)


def test_clients_of_a_column_are_validated_on_their_own_rows(federation):
    run = pff.train(federation, pff.methods.FedAvg(rounds=8, batch=30, alpha=0.02))
    sizes = [len(rows) for rows in federation.partition.validation]
    assert list(run.table("validation")["n_test"]) == sizes


def test_personal_model_predicts_raw_rows_as_the_table_was_measured(run):
    part, data = run.federation.partition, run.federation.data
    rows = part.test[0]
    X, s = data.frame.iloc[rows], data.s[rows]
    model = run.personal_model(client=0)
    predicted = model.decide(X, sensitive_features=s)
    right = (predicted == data.y[rows]).mean()
    assert right == pytest.approx(run.table("own")["accuracy"][0])
    named = np.array(data.group_names)[s]
    np.testing.assert_array_equal(model.decide(X, sensitive_features=named), predicted)
    np.testing.assert_allclose(model.predict_proba(X, s).sum(1), 1, rtol=1e-6)


def test_personal_model_says_what_it_needs(run):
    model, X = run.personal_model("2"), run.federation.data.frame.head()
    with pytest.raises(pff.InputError, match="give sensitive_features"):
        model.decide(X.drop(columns="race"))
    np.testing.assert_array_equal(model.decide(X), model.decide(X, X["race"] == "Caucasian"))
    with pytest.raises(pff.InputError, match="must be Non-Caucasian or Caucasian"):
        model.decide(X, sensitive_features=["x"] * 5)
    with pytest.raises(pff.InputError, match="lack the column 'age'"):
        model.decide(X.drop(columns="age"), sensitive_features=[0] * 5)
    with pytest.raises(pff.InputError, match="There is no client '9'"):
        run.personal_model("9")


def test_saved_models_predict_the_same(run, tmp_path):
    run.save(tmp_path)
    names = ["model.safetensors", "predictions.parquet", "run.json"]
    assert sorted(p.name for p in tmp_path.iterdir()) == names
    X = run.federation.data.frame.head(50)
    s = run.federation.data.s[:50]
    for client in (0, "4"):
        again = pff.load_model(tmp_path, client).predict_proba(X, s)
        np.testing.assert_array_equal(again, run.personal_model(client).predict_proba(X, s))
    with pytest.raises(pff.InputError, match="There is no client 7"):
        pff.load_model(tmp_path, 7)
    about = json.loads((tmp_path / "run.json").read_text())
    assert about["algorithm"]["kind"] == "PFedFair"


def test_thresholds_by_group_are_saved_and_need_s(compas, tmp_path):
    run = pff.train(compas, pff.methods.LoGoFair(rounds=6, alpha=0.02, delta_local=0.02))
    run.save(tmp_path)
    X, s = compas.data.frame.head(60), compas.data.s[:60]
    again = pff.load_model(tmp_path, 0).predict_proba(X, s)
    np.testing.assert_array_equal(again, run.personal_model(0).predict_proba(X, s))
    blind = compas.data.federate(pff.partition.fixed_shares(), sensitive_as_input=False)
    with pytest.raises(pff.InputError, match="S must be an input"):
        pff.train(blind, pff.methods.LoGoFair(rounds=6))


def test_collapse_is_told(table):
    rare = pff.from_frame(
        table.frame.assign(hired=table.frame["a"] > 2.2), "hired", "sex", drop=["site"]
    )
    fed = rare.federate(pff.partition.by_column("site"))
    with pytest.warns(pff.CollapseWarning, match="client site 0, site 1, site 2 predicts one"):
        run = pff.train(fed, pff.methods.FedAvg(rounds=20, eta=0.9), network="mlp")
    assert run.collapsed.all()
    assert run.table()["collapsed"].all()


def test_collapse_on_held_out_rows_only_is_told(run):
    """All held-out rows have scores on one side; in training there are both."""
    data = run.federation.data
    model = run.personal_model(0)
    decided = model.decide(data.frame, sensitive_features=data.s)
    part = run.federation.partition
    test = [np.flatnonzero(decided == 1)[:40], *part.test[1:]]
    own = replace(run.federation, partition=replace(part, test=test))
    again = pff.train(own, run.algorithm, seed=1)
    assert not again.collapsed.any()
    table = again.table("own")
    assert table["one_decision"].tolist() == [True, False, False, False, False]
    assert not table["collapsed"].any()
    assert table["ddp"][0] == 0
    assert table["n_test_s0"][0] + table["n_test_s1"][0] == 40


def test_divergence_is_an_error_not_a_result(compas):
    with pytest.raises(pff.InputError, match="Training diverged"):
        pff.train(compas, pff.methods.FedAvg(rounds=3, alpha=1e30, optimiser="sgd"))


def test_any_module_trains(compas):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(12, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    network = pff.Module(module, groups=2)  # S is the twelfth input
    run = pff.train(compas, pff.methods.FedAvg(rounds=20, alpha=0.02), network=network)
    assert run.table()["accuracy"].mean() > 0.6


def test_sensitive_attribute_can_stay_out_of_the_inputs():
    data = pff.load("compas")
    blind = data.federate(pff.partition.fixed_shares(), sensitive_as_input=False)
    run = pff.train(blind, pff.methods.FedAvg(rounds=5, alpha=0.01))
    assert run.network.size == pff.MLP(11, blind.data.hidden).size
    assert pff.train(data.federate(pff.partition.fixed_shares()), run.algorithm).network.groups == 2
    assert len(run.personal_model(0).decide(data.frame.head())) == 5


def test_groups_named_like_codes_are_names(table):
    """With groups 1 and 2, a 1 is the first group, whatever else is in the batch."""
    frame = table.frame.assign(sex=table.s + 1)
    data = pff.from_frame(frame, "hired", "sex")
    model = pff.train(
        data.federate(pff.partition.by_column("site")),
        pff.methods.FedAvg(rounds=8, batch=30, alpha=0.02),
    ).personal_model(0)
    np.testing.assert_array_equal(model.codes([1, 1]), [0, 0])
    np.testing.assert_array_equal(model.codes([1, 2]), [0, 1])
    with pytest.raises(pff.InputError, match="must be 1 or 2; found '0'"):
        model.codes([0, 1])


def test_a_personal_model_is_a_copy(run):
    before = run.fitted.theta.clone()
    run.personal_model(0).predictor.theta.zero_()
    assert torch.equal(run.fitted.theta, before)


def test_your_module_is_not_changed(compas):
    module = torch.nn.Sequential(torch.nn.Linear(12, 1)).train()
    before = module[0].weight.clone()
    pff.train(compas, pff.methods.FedAvg(rounds=3, alpha=0.02), network=pff.Module(module, 2))
    assert torch.equal(module[0].weight, before)
    assert module.training


def test_a_network_must_have_the_outputs_of_the_labels(compas):
    with pytest.raises(pff.InputError, match=r"For 2 classes a network needs 1 outputs, .* has 3"):
        pff.train(compas, pff.methods.FedAvg(rounds=2), network=pff.linear(11, 3, groups=2))


def test_a_model_says_how_it_decides(run, compas):
    assert run.personal_model(0).words() == ["Decide charged again if the score is above 0.5."]
    fair = pff.train(compas, pff.methods.LoGoFair(rounds=6, alpha=0.02)).personal_model(0)
    assert [line.split(":")[0] for line in fair.words()[1:]] == ["Non-Caucasian", "Caucasian"]


def test_a_blind_federation_refuses_a_network_that_looks_at_s(table):
    plan = pff.partition.by_column("site")
    blind = table.federate(plan, 0, sensitive_as_input=False)
    network = pff.MLP(blind.encoder.width, (4,), 1, groups=2)
    with pytest.raises(pff.InputError, match="this network looks at S: mlp 4"):
        pff.train(blind, pff.methods.FedAvg(rounds=1), network=network)
