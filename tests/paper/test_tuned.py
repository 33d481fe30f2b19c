import pytest

import pfedfair as pff
from pfedfair.paper import as_many_steps, settings, table1, tune, tuned


@pytest.mark.parametrize("dataset", ["adult", "compas"])
@pytest.mark.parametrize("method", [m for m in pff.ALGORITHMS if m != "constant"])
def test_every_method_has_settings_that_its_search_contains(dataset, method):
    found = settings(dataset, method)
    assert found in tune.trials(dataset, method)
    assert tuned(dataset, method, 0.5).alpha == found["alpha"]


def test_every_method_has_the_same_number_of_trials():
    for dataset in ("adult", "compas"):
        for method in set(pff.ALGORITHMS) - {"constant"}:
            trials = tune.trials(dataset, method)
            assert len({str(t) for t in trials}) == len(trials) == tune.TRIALS


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
    finish = settings("adult", "pfedfair")["prox_epochs"]
    assert as_many_steps("adult", "pfedfair", 240) == {"epochs": 4, "prox_epochs": 4 * finish}
    assert as_many_steps("compas", "pfedfair", 60) == {}
    assert as_many_steps("my table", "pfedfair", 60) == {}
