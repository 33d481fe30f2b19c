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


def test_table1_uses_eta_09_and_the_papers_plan():
    specs = table1.specs(("compas",), seeds=2)
    assert len(specs) == 2 * len(table1.METHODS)
    assert {spec.algorithm.eta for spec in specs} == {0.0, 0.9}
    assert {spec.plan for spec in specs} == {pff.partition.fixed_shares()}


def test_scores_cover_every_method_and_walk_from_accurate_to_fair():
    specs = scores.specs(("adult", "compas"), seeds=1, protocol=None)
    assert {spec.name for spec in specs} == {*pff.ALGORITHMS, *WITH_TARGET, FRONTIER}
    assert {spec.plan.clients for spec in specs} == {None, 20, 50}
    assert all(spec.validated and spec.plan.validation for spec in specs)
    for levels in LIMITED.values():
        for name in levels[0]:
            values = [level[name] for level in levels]
            assert values == sorted(values, reverse=True)
