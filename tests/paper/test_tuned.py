import tomllib
from importlib.resources import files

import pytest

import pfedfair as pff
from pfedfair.algorithms import Targeted
from pfedfair.experiment import FRONTIER
from pfedfair.paper import (
    BASE,
    WITH_TARGET,
    as_many_steps,
    curves,
    many_clients,
    scores,
    settings,
    table1,
    tune,
    tuned,
)
from pfedfair.paper.levels import LIMITED

TUNED = tomllib.loads((files("pfedfair.paper") / "tuned.toml").read_text())


@pytest.mark.parametrize(("dataset", "method"), [(d, m) for d in TUNED for m in TUNED[d]])
def test_settings_are_a_trial_of_the_search(dataset, method):
    found = settings(dataset, method)
    more = {"logofair": 1, "transport": 1 + pff.Transport().agree}  # rounds after training
    if method in more:  # thresholds on the same base model as FedAvg's
        base = settings(dataset, "fedavg")
        assert found == {"rounds": base["rounds"] + more[method], "alpha": base["alpha"]}
    else:
        assert found in tune.trials(dataset, method)
    assert tuned(dataset, method, 0.5).alpha == found["alpha"]


def test_the_methods_of_every_table_are_tuned():
    tables = {*table1.METHODS, *many_clients.METHODS}.union(*curves.METHODS.values())
    for method in tables - {"constant", FRONTIER}:
        assert BASE.get(method, method) in TUNED["adult"]
        assert BASE.get(method, method) in TUNED["compas"]


def test_every_method_has_the_same_number_of_trials():
    for dataset in ("adult", "compas"):
        for method in set(pff.ALGORITHMS) - set(tune.UNTUNED):
            trials = tune.trials(dataset, method)
            assert len({str(t) for t in trials}) == len(trials) == tune.TRIALS


def test_a_target_is_put_on_a_methods_settings():
    for method, base in WITH_TARGET.items():
        found = tuned("adult", method, target_ddp=0.03, confidence=0.9, rounds=4)
        assert isinstance(found, Targeted)
        assert found.method == tuned("adult", base, rounds=4)
        assert (found.target_ddp, found.confidence) == (0.03, 0.9)


def test_options_have_the_last_word_and_own_data_a_default():
    assert tuned("compas", "pfedfair", rounds=7).rounds == 7
    assert isinstance(tuned("my table", "pfedfair"), pff.PFedFair)


def test_table1_uses_eta_09_and_the_papers_plan():
    specs = table1.specs(("compas",), seeds=2)
    assert len(specs) == 2 * len(table1.METHODS)
    assert {spec.algorithm.eta for spec in specs} == {0.0, 0.9}
    assert {spec.plan for spec in specs} == {pff.partition.fixed_shares()}


def test_small_clients_make_as_many_steps():
    assert as_many_steps("adult", "fedavg", 2400) == {}
    assert as_many_steps("adult", "fedavg", 600) == {"epochs": 4}
    assert as_many_steps("adult", "pfedfair", 600) == {"batch": 150}
    assert as_many_steps("adult", "kde-local", 240) == {"batch": 60}
    finish = settings("adult", "pfedfair")["prox_epochs"]
    passes = {"epochs": 4, "prox_epochs": 4 * finish}
    assert as_many_steps("adult", "pfedfair", 240, "passes") == passes
    assert as_many_steps("compas", "pfedfair", 60) == {}
    assert as_many_steps("my table", "pfedfair", 60) == {}


def test_scores_cover_every_method_and_walk_from_accurate_to_fair():
    specs = scores.specs(("adult", "compas"), seeds=1, protocol=None)
    assert {spec.name for spec in specs} == {*pff.ALGORITHMS, *WITH_TARGET, FRONTIER}
    assert {spec.plan.clients for spec in specs} == {None, 20, 50}
    assert all(spec.validated and spec.plan.validation for spec in specs)
    for levels in LIMITED.values():
        for name in levels[0]:
            values = [level[name] for level in levels]
            assert values == sorted(values, reverse=True)
