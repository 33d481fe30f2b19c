"""Personal models on raw rows, and the files that keep them."""

import numpy as np
import pytest
import torch

import pfedfair as pff
from pfedfair.data.table import Encoder
from pfedfair.model import PersonalModel, load_model, read_model, write_model
from pfedfair.networks import MLP, Bias, Cells, Lookup, Module, Thresholds, linear

GROUPS, LABELS = ("f", "m"), ("no", "yes")


@pytest.fixture(scope="module")
def encoder(federation):
    return federation.encoder


@pytest.fixture(scope="module")
def rows(federation):
    return federation.data.frame


def model(encoder, network, theta, groups=GROUPS):
    return PersonalModel(network, encoder, theta, groups, LABELS)


def by_lot(encoder, rule):
    """A model whose score is 1/2 for everybody, and a rule on it."""
    network = Thresholds(linear(encoder.width))
    theta = torch.zeros(network.size)
    theta[-network.rule_size :] = torch.tensor(rule)
    return model(encoder, network, theta)


def about(clients=("a", "b")):
    return {"clients": clients, "group_names": GROUPS, "label_names": LABELS}


@pytest.mark.parametrize(
    ("names", "given", "codes"),
    [
        (("f", "m"), ["m", "f", "m"], [1, 0, 1]),
        (("f", "m"), [1, 0, 1], [1, 0, 1]),
        (("f", "m"), [True, False], [1, 0]),
        (("0", "1"), [0, 1], [0, 1]),
        (("1", "2"), [1, 2, 1], [0, 1, 0]),
        (("1", "2"), [1, 1], [0, 0]),
        (("1.0", "2.0", "3.0"), [1, 2], [0, 1]),
        (("1.0", "2.0"), [1, 1], [0, 0]),
        (("False", "True"), [True, False], [1, 0]),
        (("f", "m"), [], []),
    ],
)
def test_codes_of_groups(encoder, names, given, codes):
    network = linear(encoder.width)
    found = model(encoder, network, torch.zeros(network.size), names).codes(given)
    assert found.tolist() == codes
    assert found.dtype == np.int64


@pytest.mark.parametrize(
    ("names", "given", "odd"),
    [(("f", "m"), ["f", "x"], "x"), (("1", "2"), [0, 1], "0"), (("f", "m"), ["f", 1], "1")],
)
def test_unknown_groups_are_named(encoder, names, given, odd):
    network = linear(encoder.width)
    with pytest.raises(pff.InputError, match=f"must be {' or '.join(names)}; found '{odd}'"):
        model(encoder, network, torch.zeros(network.size), names).codes(given)


def test_a_plain_model_decides_at_one_half_whatever_the_random_state(encoder, rows):
    network = MLP(encoder.width, (4,))
    one = model(encoder, network, 3 * network.init(np.random.default_rng(0)))
    score = one.predict_proba(rows, rows["sex"])
    np.testing.assert_allclose(score.sum(1), 1, rtol=1e-6)
    for state in (0, 1):
        positive = one.predict(rows, rows["sex"], random_state=state)
        np.testing.assert_array_equal(positive, score[:, 1] > 0.5)
    assert 0 < positive.mean() < 1
    assert positive.dtype == np.int64


def test_lots_are_drawn_from_random_state(encoder, rows):
    one = by_lot(encoder, [-1.0, 1.0, 0.3, 0.0, 1.0, 1.0, 0.0, 0.0])
    drawn = [one.predict(rows, rows["sex"], random_state=k) for k in range(40)]
    f, m = ((rows["sex"] == sex).to_numpy() for sex in GROUPS)
    rates = np.array([positive[f].mean() for positive in drawn])
    assert not any(positive[m].any() for positive in drawn)
    assert rates.mean() == pytest.approx(0.3, abs=0.02)
    assert rates.std() > 0
    again = one.predict(rows, rows["sex"], random_state=7)
    np.testing.assert_array_equal(again, drawn[7])


def test_the_ends_of_a_rule(encoder, rows):
    """A score at `high` is in, one at `low` is drawn, and a threshold is a rule without lots."""
    for rule, rate in (([-1.0, 0.0, 0.5], 1.0), ([0.0, 1.0, 0.0], 0.0), ([0.0, 1.0, 1.0], 1.0)):
        positive = by_lot(encoder, [*rule, 0.0, *rule, 0.0]).predict(rows, rows["sex"])
        assert positive.mean() == rate
    one = by_lot(encoder, [0.4, 0.4, 0.0, 0.0, -0.2, -0.2, 0.0, 0.0])
    positive = one.predict(rows, rows["sex"])
    np.testing.assert_array_equal(positive, rows["sex"] == "m")
    np.testing.assert_array_equal(one.predict_proba(rows, rows["sex"])[:, 1] > 0.5, positive)


@pytest.mark.parametrize("kind", ["linear", "mlp", "constant", "thresholds", "lookup"])
def test_what_is_written_is_read(encoder, rows, tmp_path, kind):
    network = {
        "linear": linear(encoder.width),
        "mlp": MLP(encoder.width, (4, 3)),
        "constant": Bias(),
        "thresholds": Thresholds(MLP(encoder.width, (4,))),
        "lookup": Lookup(MLP(encoder.width, (4,)), linear(encoder.width), Cells(2, 5, 2, 4), 1),
    }[kind]
    rng = np.random.default_rng(0)
    theta = torch.stack([network.init(rng), network.init(rng)])
    if kind == "thresholds":
        theta[:, -6:] = torch.tensor([[-0.1, 0.3, 0.5, 0.0, 0.0, 0.0], [0.2] * 6])
    if kind == "lookup":
        theta[:, -40:] = torch.rand(2, 20, 2).softmax(-1).flatten(1)
    more = {"server.counts": torch.rand(2, 9, dtype=torch.float64)}
    write_model(tmp_path, network, encoder, {"theta": theta, **more}, about())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.safetensors", "run.json"]
    same, coder, tensors, told = read_model(tmp_path)
    assert type(same) is type(network)
    assert same.size == network.size
    assert coder == encoder
    assert isinstance(coder, Encoder)
    assert torch.equal(tensors["theta"], theta)
    assert torch.equal(tensors["server.counts"], more["server.counts"])
    assert told["clients"] == ["a", "b"]
    assert told["outputs"] == (1 if kind == "constant" else None)
    rules = {"thresholds": {"groups": 2}}
    rules["lookup"] = {"tables": 1, "cells": [2, 5, 2, 4], "head": [encoder.width, 1]}
    assert told["rule"] == rules.get(kind)
    for number, name in enumerate("ab"):
        one = model(encoder, network, theta[number])
        for client in (number, name):
            again = load_model(tmp_path, client)
            assert again.group_names == GROUPS
            assert again.label_names == LABELS
            for state in (0, 3):
                np.testing.assert_array_equal(
                    again.predict(rows, rows["sex"], state), one.predict(rows, rows["sex"], state)
                )
            np.testing.assert_array_equal(
                again.predict_proba(rows, rows["sex"]), one.predict_proba(rows, rows["sex"])
            )


@pytest.mark.parametrize("wrap", [lambda network: network, Thresholds])
def test_modules_of_your_own_cannot_be_written(encoder, tmp_path, wrap):
    network = wrap(Module(torch.nn.Linear(encoder.width, 1)))
    theta = torch.zeros(2, network.size)
    with pytest.raises(pff.InputError, match="Only linear, mlp and constant models can be saved"):
        write_model(tmp_path / "x", network, encoder, {"theta": theta}, about())
    assert not (tmp_path / "x").exists()


def test_what_is_not_there_is_said(encoder, tmp_path):
    with pytest.raises(pff.InputError, match=r"has no run\.json: it is not a folder that train"):
        load_model(tmp_path, 0)
    network = linear(encoder.width)
    tensors = {"theta": torch.zeros(2, network.size)}
    write_model(tmp_path, network, encoder, tensors, about(["north", "south"]))
    for client in ("east", 2, -1):
        with pytest.raises(pff.InputError, match=f"There is no client {client!r}.*north, south"):
            load_model(tmp_path, client)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(pff.InputError, match="cannot be read"):
        load_model(tmp_path, 0)
