"""The settings of a run."""

import json
import tomllib
from importlib.resources import files

import pytest

import pfedfair as pff
from pfedfair.engines.site.schema import agree, describe
from pfedfair.engines.site.settings import Settings, make_algorithm
from pfedfair.methods.target import targeted


def defaults() -> dict:
    text = (files("pfedfair") / "engines" / "flower" / "app" / "pyproject.toml").read_text()
    return tomllib.loads(text)["tool"]["flwr"]["app"]["config"]


SECURE = {"secure-sum": True, "sites": 5}
WHOLE = [
    pff.methods.PFedFair(eta=0.3, lam=0.1, penalty_options=(("bandwidth", 0.2),)),
    targeted(pff.methods.FedAvg(eta=0.5), target_ddp=0.1),
    pff.methods.Transport(kappa=float("inf")),
]


@pytest.mark.parametrize("algorithm", WHOLE, ids=lambda one: type(one).__name__)
def test_a_complete_algorithm_comes_back_with_all_its_settings(algorithm):
    config = defaults() | {"algorithm": json.dumps(algorithm.to_dict())}
    assert make_algorithm(config) == algorithm


def test_options_are_settings_of_the_method():
    options = {"penalty_options": [["bandwidth", 0.2]], "K": 3}
    made = make_algorithm(defaults() | {"options": json.dumps(options), "eta": 0.4, "rounds": 7})
    assert isinstance(made, pff.methods.PFedFair)
    assert (made.K, made.eta, made.rounds) == (3, 0.4, 7)
    assert made.penalty_options == (("bandwidth", 0.2),)


def test_two_methods_with_the_same_target_have_different_keys(federation):
    """A resumed run must not take the one for the other."""
    rows, names = federation.partition.train, federation.partition.names
    found = [
        describe(federation.data, own, name, 0, "site")
        for own, name in zip(rows, names, strict=True)
    ]
    schema = agree(found)[0]
    same = {"alpha": 0.01, "rounds": 3, "target_ddp": 0.1}
    keys = {
        Settings.read(defaults() | {"method": method, "options": json.dumps(same)}).key(schema)
        for method in ("fedavg-kde", "kde-local")
    }
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"method": "none"}, "Unknown method"),
        ({"options": "K=5"}, "options must be a JSON object"),
        ({"options": '{"beta": 1}', "method": "fedavg"}, "'beta' means nothing to fedavg"),
        ({"eta": "high"}, "eta must be a number"),
        ({"confidence": 0.9, "method": "fedavg-kde"}, "confidence needs target"),
        ({"algorithm": "[]", "options": '{"K": 3}'}, "leave out K"),
        ({"algorithm": '{"rounds": 3}'}, "Unknown saved algorithm 'None'"),
        ({"algorithm": '{"kind": "Targeted"}'}, "algorithm is not complete"),
        ({"sites": 0}, "sites must be at least 1"),
        ({"sites": 2, "min-sites": 3}, "min-sites must be between 1 and sites"),
        ({"aggregate": "median"}, "Unknown aggregate"),
        ({"local-rounds": 0}, "local-rounds must be at least 1"),
        ({**SECURE, "sites": 2}, "secure-sum needs at least 3 sites, also as min-sites, got 2"),
        ({**SECURE, "min-sites": 2}, "secure-sum needs at least 3 sites, also as min-sites, got 2"),
        ({**SECURE, "aggregate": "krum"}, "aggregate = krum looks at each .*: leave out one of"),
        ({**SECURE, "method": "fairfed"}, "FairFed needs each .*: leave out secure-sum, or take"),
        (
            {**SECURE, "method": "newton", "options": '{"weighting": "uniform"}'},
            "Newton needs each",
        ),
        ({**SECURE, "secure-threshold": 2}, "at least 4 of 5 sites and at most all, got 2"),
        ({**SECURE, "secure-threshold": 6}, "at least 4 of 5 sites and at most all, got 6"),
    ],
)
def test_bad_settings_are_refused(more, words):
    with pytest.raises(pff.InputError, match=words):
        Settings.read(defaults() | more)


def test_secure_sums_have_a_key_of_their_own_and_other_runs_keep_theirs(federation):
    rows, names = federation.partition.train, federation.partition.names
    found = [
        describe(federation.data, own, name, 0, "site")
        for own, name in zip(rows, names, strict=True)
    ]
    schema = agree(found)[0]
    plain, secure, other = (
        Settings.read(defaults() | {"sites": 5} | more).key(schema)
        for more in ({}, {"secure-sum": True}, {"secure-threshold": 4})
    )
    assert plain == other != secure
