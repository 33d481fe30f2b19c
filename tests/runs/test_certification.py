"""A certified run: whose rows decide what, what it reports, and what it refuses."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

import pfedfair as pff
from made_people import people
from pfedfair.runs import certification

SITES = (2400, 2000, 300, 2200)
SETTINGS = {"base": pff.methods.Newton(ridge=0.01), "target_ddp": 0.1}


def federated(frame, seed=0):
    data = pff.from_frame(frame, "hired", "sex", drop=["site"])
    return data.federate(pff.partition.by_column("site"), seed)


def trained(frame, **settings):
    method = pff.methods.Transport(**SETTINGS | settings)
    return pff.train(federated(frame), method, network="additive", certify=True)


@pytest.fixture(scope="module")
def frame():
    return people(SITES, seed=1)


@pytest.fixture(scope="module")
def run(frame):
    return trained(frame)


def test_large_sites_are_certified_and_small_ones_learn_what_it_takes(run):
    rules = run.rules()
    assert rules["certified"].tolist() == [1, 1, 0, 1]
    assert rules["certificate_level"].to_numpy() == pytest.approx(1 - 0.05 / 4)
    assert (rules["certificate_rows"] > 0).tolist() == [False, False, True, False]
    assert rules["certificate_rows"][2] > 100
    assert run.certificate["confidence"] == pytest.approx(0.95)
    names = run.federation.partition.names
    assert run.certificate["certified"] == [names[i] for i in (0, 1, 3)]
    assert not any(run.fitted.rules[i].draws for i in (0, 1, 3))


def test_certified_gaps_are_within_the_target_on_many_new_rows(run):
    new = people((40_000,), seed=3)
    group, _ = pd.factorize(new["sex"])
    for client in run.certificate["certified"]:
        decided = run.personal_model(client).decide(new)
        rates = [decided[group == z].mean() for z in (0, 1)]
        assert abs(rates[1] - rates[0]) <= 0.1


def test_a_sentence_names_who_is_certified_and_what_the_others_lack(run):
    text = run.report().document["sentence"]
    assert text.startswith("3 of 4 sites (site ")
    assert "at all of them jointly with 95 % confidence (finite-sample, distribution-free)" in text
    assert "the other would need about " in text


def test_own_rows_make_neither_scorer_nor_path(frame, run):
    """Others' rows, the encoder's rows and the groups' sizes fixed, own rows only choose a rule."""
    federation = certification.fit_encoder(federated(frame), run.algorithm)
    _, own = certification._split(federation, 0)
    changed = frame.copy()
    for column in changed.columns.difference(["sex", "site"]):
        values = changed[column].to_numpy(copy=True)
        values[own] = np.random.default_rng(5).permutation(values[own])
        changed[column] = values
    other = trained(changed)
    assert torch.equal(other.fitted.theta[0], run.fitted.theta[0])
    assert not torch.equal(other.fitted.theta[1], run.fitted.theta[1])
    assert not torch.equal(other.fitted.w, run.fitted.w)


def test_a_certified_run_is_saved_and_loaded(run, tmp_path):
    run.save(tmp_path)
    card = json.loads((tmp_path / "run.json").read_text())
    assert card["certificate"]["certified"] == list(run.certificate["certified"])
    loaded = pff.load_run(tmp_path)
    assert loaded.certificate == run.certificate
    np.testing.assert_allclose(loaded.table()["ddp"], run.table()["ddp"])
    with pytest.raises(pff.InputError, match="one target"):
        loaded.retarget(target_ddp=0.02)


def test_a_run_without_certificates_has_none(frame):
    run = pff.train(federated(frame), pff.methods.Transport(**SETTINGS), network="additive")
    assert run.certificate is None


@pytest.mark.parametrize(
    ("method", "options", "match"),
    [
        (pff.methods.FedAvg(), {}, "no rules to certify"),
        (pff.methods.Transport(prefer="up"), {}, "take transport, without prefer='up'"),
        (pff.methods.Transport(criterion="eo"), {}, "demographic parity"),
        (pff.methods.Transport(), {"aware": False}, "S as an input"),
        (pff.methods.Transport(), {"sites": (900,)}, "other clients"),
        (pff.methods.Transport(), {"person": "id"}, "independent"),
    ],
)
def test_what_has_no_proof_is_refused(method, options, match):
    frame = people(options.get("sites", (300, 300)), seed=2)
    frame["id"] = np.arange(len(frame)) // 2
    data = pff.from_frame(frame, "hired", "sex", drop=["site"], person=options.get("person"))
    plan = pff.partition.by_column("site")
    federation = data.federate(plan, 0, options.get("aware", True))
    with pytest.raises(pff.InputError, match=match):
        pff.train(federation, method, certify=True)


def test_new_rows_certify_a_rule_of_a_saved_run(frame, tmp_path):
    run = pff.train(federated(frame), pff.methods.Transport(**SETTINGS), network="additive")
    run.save(tmp_path)
    new, many = people((3000,), seed=4), people((40_000,), seed=5)
    model = pff.personalise(tmp_path, new.drop(columns="hired"), certify=True)
    facts = model.predictor.rule.facts
    assert facts["certified"] == 1
    assert facts["certificate_level"] == 0.95
    group, _ = pd.factorize(many["sex"])
    decided = model.decide(many)
    assert abs(decided[group == 0].mean() - decided[group == 1].mean()) <= 0.1
    with pytest.raises(pff.InputError, match=r"do not certify the target: about .* more"):
        pff.personalise(tmp_path, new[:200], certify=True)
    one_group = new[new["sex"] == "m"]
    with pytest.raises(pff.InputError, match="of one group only"):
        pff.personalise(tmp_path, one_group, certify=True)
