"""Personal models on raw rows, and the files that keep them."""

import json

import numpy as np
import pytest
import torch

import pfedfair as pff
from pfedfair.data import Encoder
from pfedfair.data.task import Task
from pfedfair.models import MLP, Bias, Both, linear
from pfedfair.rules import Likeliest, Lookup, Thresholds
from pfedfair.runs.model import PersonalModel, load_model, read_model, write_model
from pfedfair.runs.predictor import Predictor

GROUPS, LABELS = ("f", "m"), ("no", "yes")


@pytest.fixture(scope="module")
def encoder(federation):
    return federation.encoder


@pytest.fixture(scope="module")
def rows(federation):
    return federation.data.frame


def model(encoder, network, theta, rule=None, groups=GROUPS):
    predictor = Predictor(network, theta, rule or Likeliest())
    return PersonalModel(predictor, encoder, Task(), groups, LABELS)


def decide_by(encoder, rule):
    """A model whose score is 1/2 for all rows, and a rule on it."""
    network = linear(encoder.width, groups=2)
    return model(encoder, network, torch.zeros(network.size), Thresholds(torch.tensor(rule)))


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
    found = model(encoder, network, torch.zeros(network.size), groups=names).codes(given)
    assert found.tolist() == codes
    assert found.dtype == np.int64
    assert found.flags.writeable  # PyTorch warns of memory that cannot be written to


@pytest.mark.parametrize(
    ("names", "given", "odd"),
    [(("f", "m"), ["f", "x"], "x"), (("1", "2"), [0, 1], "0"), (("f", "m"), ["f", 1], "1")],
)
def test_unknown_groups_are_named(encoder, names, given, odd):
    network = linear(encoder.width)
    with pytest.raises(pff.InputError, match=f"must be {' or '.join(names)}; found '{odd}'"):
        model(encoder, network, torch.zeros(network.size), groups=names).codes(given)


def test_a_model_without_rule_decides_at_one_half_whatever_the_random_state(encoder, rows):
    network = MLP(encoder.width, (4,), groups=2)
    one = model(encoder, network, 3 * network.init(np.random.default_rng(0)))
    score = one.predict_proba(rows, rows["sex"])
    np.testing.assert_allclose(score.sum(1), 1, rtol=1e-6)
    for state in (0, 1):
        positive = one.decide(rows, rows["sex"], random_state=state)
        np.testing.assert_array_equal(positive, score[:, 1] > 0.5)
    assert 0 < positive.mean() < 1
    assert positive.dtype == np.int64


def test_lots_are_drawn_from_random_state(encoder, rows):
    one = decide_by(encoder, [[-1.0, 1.0, 0.3, 0.0], [1.0, 1.0, 0.0, 0.0]])
    drawn = [one.decide(rows, rows["sex"], random_state=k) for k in range(40)]
    f, m = ((rows["sex"] == sex).to_numpy() for sex in GROUPS)
    rates = np.array([positive[f].mean() for positive in drawn])
    assert not any(positive[m].any() for positive in drawn)
    assert rates.mean() == pytest.approx(0.3, abs=0.02)
    assert rates.std() > 0
    again = one.decide(rows, rows["sex"], random_state=7)
    np.testing.assert_array_equal(again, drawn[7])


def test_the_ends_of_a_rule(encoder, rows):
    """A score at `high` is in, one at `low` is drawn; a threshold is a rule without draws."""
    for rule, rate in (([-1.0, 0.0, 0.5], 1.0), ([0.0, 1.0, 0.0], 0.0), ([0.0, 1.0, 1.0], 1.0)):
        positive = decide_by(encoder, [[*rule, 0.0]] * 2).decide(rows, rows["sex"])
        assert positive.mean() == rate
    one = decide_by(encoder, [[0.4, 0.4, 0.0, 0.0], [-0.2, -0.2, 0.0, 0.0]])
    positive = one.decide(rows, rows["sex"])
    np.testing.assert_array_equal(positive, rows["sex"] == "m")
    np.testing.assert_array_equal(one.predict_proba(rows, rows["sex"])[:, 1] > 0.5, positive)


def random_table():
    return Lookup(torch.rand(20, 2).softmax(-1), (2, 5, 2, 4))


CASES = {
    "linear": (lambda n: linear(n, groups=2), Likeliest),
    "mlp": (lambda n: MLP(n, (4, 3), groups=2), Likeliest),
    "constant": (lambda n: Bias(), Likeliest),
    "thresholds": (lambda n: MLP(n, (4,), groups=2), lambda: Thresholds(torch.rand(2, 4))),
    "lookup": (lambda n: Both(MLP(n, (4,)), linear(n)), random_table),
}


@pytest.mark.parametrize("kind", CASES)
def test_what_is_written_is_read(encoder, rows, tmp_path, kind):
    network, a_rule = CASES[kind][0](encoder.width), CASES[kind][1]
    rng = np.random.default_rng(0)
    theta, rules = torch.stack([network.init(rng), network.init(rng)]), [a_rule(), a_rule()]
    more = {"server.counts": torch.rand(2, 9, dtype=torch.float64)}
    write_model(tmp_path, network, encoder, Task(), rules, {"theta": theta, **more}, about())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.safetensors", "run.json"]
    saved = read_model(tmp_path)
    assert type(saved.network) is type(network)
    assert saved.network.to_dict() == network.to_dict()
    assert saved.encoder == encoder
    assert isinstance(saved.encoder, Encoder)
    assert saved.task == Task()
    assert torch.equal(saved.tensors["theta"], theta)
    assert torch.equal(saved.tensors["server.counts"], more["server.counts"])
    card = json.loads((tmp_path / "run.json").read_text())
    assert card["clients"] == ["a", "b"]
    assert card["network"] == network.to_dict()
    assert card["rule"] == rules[0].to_dict()
    for number, name in enumerate("ab"):
        one = model(encoder, network, theta[number], rules[number])
        for client in (number, name):
            again = load_model(tmp_path, client)
            assert again.group_names == GROUPS
            assert again.label_names == LABELS
            assert again.words() == one.words()
            for state in (0, 3):
                np.testing.assert_array_equal(
                    again.predict(rows, rows["sex"], state), one.predict(rows, rows["sex"], state)
                )
            np.testing.assert_array_equal(
                again.predict_proba(rows, rows["sex"]), one.predict_proba(rows, rows["sex"])
            )


def test_a_model_for_all_needs_no_clients(encoder, tmp_path):
    """What a server keeps: the global model, and no rule."""
    network = linear(encoder.width, groups=2)
    w = network.init(np.random.default_rng(0))
    write_model(tmp_path, network, encoder, Task(aware=False), [], {"w": w}, about([]))
    saved = read_model(tmp_path)
    assert saved.about["rule"] is None
    assert not saved.task.aware
    assert torch.equal(saved.tensors["w"], w)


def test_what_is_not_there_is_said(encoder, tmp_path):
    with pytest.raises(pff.InputError, match=r"has no run\.json: no run was saved there"):
        load_model(tmp_path, 0)
    network = linear(encoder.width)
    tensors, rules = {"theta": torch.zeros(2, network.size)}, [Likeliest()] * 2
    two = about(["north", "south"])
    write_model(tmp_path, network, encoder, Task(), rules, tensors, two)
    for client in ("east", 2, -1):
        with pytest.raises(pff.InputError, match=f"There is no client {client!r}.*north, south"):
            load_model(tmp_path, client)
    card = json.loads((tmp_path / "run.json").read_text())
    for old in ({"format": 1}, {}):
        (tmp_path / "run.json").write_text(json.dumps(card | {"format": None} | old))
        with pytest.raises(pff.InputError, match="by another version of pfedfair: train again"):
            load_model(tmp_path, 0)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(pff.InputError, match="cannot be read"):
        load_model(tmp_path, 0)
