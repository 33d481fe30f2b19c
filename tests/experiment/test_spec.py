import dataclasses
import json

import pytest
from grids import PLAN, grid

import pfedfair as pff
from pfedfair.experiment import FRONTIER, Source, Spec, load_source


def test_every_hyper_parameter_is_part_of_the_key():
    spec = grid()[-1]
    for change in ({"K": 6}, {"gamma": 0.5}, {"alpha": 0.5}, {"eta": 0.1}):
        other = dataclasses.replace(spec, algorithm=dataclasses.replace(spec.algorithm, **change))
        assert other.key != spec.key
    assert dataclasses.replace(spec, seed=7).key != spec.key
    assert dataclasses.replace(spec, protocol="paper").key != spec.key
    assert dataclasses.replace(spec, frontier=True).key != spec.key


def test_a_frontier_has_its_own_name_in_the_results():
    spec = Spec(Source("compas"), PLAN, "fedavg", pff.FedAvg(), 0, frontier=True)
    assert (spec.method, spec.name) == ("fedavg", FRONTIER)
    assert spec.key.startswith("compas-frontier-0-")
    assert json.loads(json.dumps(spec.describe()))["plan"] == PLAN.to_dict()


def test_a_bundled_data_set_has_its_own_columns():
    with pytest.raises(pff.InputError, match="'compas' has its own columns: leave out drop"):
        load_source(Source("compas", drop=("age",)))
