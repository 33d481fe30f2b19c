"""A site's policy: its file, and what it refuses."""

import json
from dataclasses import replace

import pytest

import pfedfair as pff
from pfedfair.data.tables.piecewise import Numbers, Piecewise
from pfedfair.engines.site.policy import MAX_SCHEMA, OPEN, Policy, PolicyError
from pfedfair.engines.site.schema import Schema
from pfedfair.engines.site.settings import Order
from pfedfair.methods import METHODS
from pfedfair.methods.target import targeted

SENDS_MODELS = {
    "constant", "erm-local", "kde-local", "fedavg", "fedavg-kde", "fedprox", "fedprox-kde",
    "perfedavg", "perfedavg-kde", "pfedme", "pfedme-kde", "ditto", "ditto-kde", "pfedfair",
    "threshold-local", "irm", "fair-dummies", "reweigh", "dro", "gaussian-swap",
}  # fmt: skip
SENDS_COUNTS = {
    "fa", "mmpf", "fcfl", "fairfed", "logofair", "transport", "newton", "fedfact", "fedfact-in",
    "duan",
}  # fmt: skip


def test_the_default_allows_methods_that_send_models_only():
    """Others send counts, means or sums over rows as well, or instead."""
    for name in SENDS_MODELS:
        Policy().check_method(pff.make(name))
    for name in SENDS_COUNTS:
        with pytest.raises(PolicyError, match="exact-counts = false; the run asks for a meth"):
            Policy().check_method(pff.make(name))
    for name in METHODS:
        OPEN.check_method(pff.make(name))
    Policy().check_method(
        pff.methods.Transport(epsilon=1.0)
    )  # counts with noise are no exact counts


@pytest.mark.parametrize(
    ("algorithm", "words"),
    [
        (pff.methods.FedAvg(epochs=10**9), "epochs = 50; the run asks for epochs = 1000000000"),
        (pff.methods.PFedFair(prox_epochs=51), "epochs = 50; the run asks for prox_epochs = 51"),
        (pff.methods.FedAvg(rounds=201), "rounds = 200; the run asks for rounds = 201"),
        (
            pff.methods.Transport(bins=10**9, epsilon=1.0),
            "largest-setting = 1000; .* bins = 1000000000",
        ),
        (pff.methods.PFedFair(K=1001), "largest-setting = 1000; the run asks for K = 1001"),
        (pff.methods.FedAvg(batch=1), "least-batch = 20; the run asks for batch = 1"),
        (pff.methods.Transport(base=pff.methods.FedAvg(epochs=51), epsilon=1.0), "epochs = 50"),
        (targeted(pff.methods.FedAvg(eta=0.5, epochs=51), target_ddp=0.1), "epochs = 50"),
    ],
    ids=["epochs", "inner", "rounds", "bins", "K", "batch", "base", "target"],
)
def test_a_run_that_asks_for_more_is_refused_with_the_line(algorithm, words):
    with pytest.raises(PolicyError, match=rf"This site's policy has {words}"):
        Policy().check_method(algorithm)


def test_only_named_methods_are_allowed_if_some_are_named():
    policy = Policy(methods=("pfedfair", "fedavg"))
    policy.check_method(pff.methods.PFedFair())
    policy.check_method(targeted(pff.methods.FedAvg(eta=0.5), target_ddp=0.1))
    with pytest.raises(PolicyError, match=r"methods = \['pfedfair', 'fedavg'\]; .* for fedprox"):
        policy.check_method(pff.methods.FedProx())
    with pytest.raises(PolicyError, match="for transport"):
        policy.check_method(pff.methods.Transport(epsilon=1.0))


@pytest.mark.parametrize(
    ("hidden", "columns", "words"),
    [
        ((16384,), 1, "hidden = 128; the run asks for 16384"),
        ((8,) * 4, 1, "layers = 3; the run asks for 4"),
        ((), 200, "inputs = 5000; the run asks for 6400"),
    ],
)
def test_a_network_that_is_too_large_is_refused(hidden, columns, words):
    ramps = Numbers(tuple(map(float, range(33))), (0.5,) * 32, 0.0)
    encoder = Piecewise({f"x{i}": ramps for i in range(columns)}, {})
    schema = Schema(encoder, ("0", "1"), ("f", "m"), ("y", "s"), hidden, True)
    with pytest.raises(PolicyError, match=words):
        Policy().check_schema(schema)
    OPEN.check_schema(schema)


def test_an_order_that_cannot_be_meant_is_refused():
    order = Order(0, "train", "ab", "model", 0, 1, 10.0, "{}")
    Policy().check_order(order)
    for change in ({"round": 10**9}, {"local_rounds": 10**9}, {"schema": "x" * (MAX_SCHEMA + 1)}):
        with pytest.raises(PolicyError):
            Policy().check_order(replace(order, **change))


def test_a_site_without_a_policy_has_the_default_and_a_trial_an_open_one(tmp_path):
    assert Policy.of({}) == Policy()
    assert Policy.of({"partition-id": 0}) == OPEN
    path = tmp_path / "policy.toml"
    path.write_text('hidden = 64\nmethods = ["fedavg"]\nexact-counts = true\nepsilon = 2\n')
    read = Policy.of({"policy": str(path), "partition-id": 0})
    assert read == Policy(hidden=64, methods=("fedavg",), exact_counts=True, epsilon=2.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hiden = 64", "Unknown line of a policy 'hiden': did you mean 'hidden'"),
        ("hidden = true", "hidden in .* must be a whole number, got True"),
        ("hidden = 1.5", "hidden in .* must be a whole number, got 1.5"),
        ("exact-counts = 1", "exact-counts in .* must be true or false, got 1"),
        ("max-change = 'far'", "max-change in .* must be a number"),
        ("methods = 'fedavg'", "methods in .* must be a list"),
        ("methods = ['fedavgg']", "Unknown method in the policy 'fedavgg'"),
        ("hidden = -1", "hidden in the policy must be 0 or more"),
        ("delta = 0", "delta in the policy must be between 0 and 1"),
        ("hidden", "cannot be read"),
    ],
    ids=["name", "bool", "float", "int", "number", "list", "method", "negative", "delta", "toml"],
)
def test_a_policy_that_cannot_be_understood_is_refused(tmp_path, text, words):
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(pff.InputError, match=words):
        Policy.of({"policy": str(path)})
    with pytest.raises(pff.InputError, match=r"cannot be read .*: nothing is answered"):
        Policy.of({"policy": str(tmp_path / "none.toml")})


def test_a_refusal_has_nothing_of_the_site_but_its_policy():
    with pytest.raises(PolicyError) as error:
        Policy().check_method(pff.methods.FedAvg(rounds=1000))
    assert json.dumps(str(error.value)).isascii()
    assert "/" not in str(error.value)


def test_a_policy_may_ask_for_secure_sums():
    Policy().check_run({"secure-sum": False})
    Policy(secure_sum=True).check_run({"secure-sum": True})
    with pytest.raises(PolicyError, match="policy has secure-sum = true; the run asks for this"):
        Policy(secure_sum=True).check_run({})
