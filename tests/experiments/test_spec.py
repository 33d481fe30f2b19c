import dataclasses
import hashlib
import json

import numpy as np
import pytest
from grids import PLAN, grid

import made_faces
import pfedfair as pff
from pfedfair.experiments import (
    FRONTIER,
    Source,
    Spec,
    load_source,
    prepare,
    run_experiment,
)


def test_descriptions_are_those_of_saved_experiments(tmp_path):
    """Their text is in the keys of runs: if it changes, saved experiments do not resume."""
    path, test = tmp_path / "loans.csv", tmp_path / "later.csv"
    path.write_text("y,s\n1,2\n")
    test.write_text("y,s\n2,1\n")
    of_path, of_test = (hashlib.sha256(one.read_bytes()).hexdigest() for one in (path, test))
    usual = (
        '"categorical": [], "drop": [], "encoder": null, "encoding": null, "folder": null, '
        '"keep": [], "label": "y", "merge_groups": false, "model": null, "name": "loans.csv", '
        f'"pixels": null, "scaling": null, "sensitive": "s", "sha256": "{of_path}", '
        '"skip_missing": false, "with_images": false'
    )
    assert text_of(Source(str(path), "y", "s")) == f"{{{usual}}}"
    rare = (
        '"bands": [["s", [30.0]]], "categorical": ["w"], "drop": ["site"], "encoder": null, '
        '"encoding": "piecewise", "folder": null, "keep": ["w"], "label": "y", '
        '"merge_groups": true, "model": "additive", "name": "loans.csv", "pixels": null, '
        f'"positive": "0", "scaling": null, "sensitive": "s", "sha256": "{of_path}", '
        f'"skip_missing": false, "test": "later.csv", "test_sha256": "{of_test}", "weight": "w", '
        '"with_images": false'
    )
    source = Source(
        str(path), "y", "s", ("site",), ("w",), True, model="additive", keep=("w",),
        encoding="piecewise", positive="0", bands=(("s", (30.0,)),), test=str(test), weight="w",
    )  # fmt: skip
    assert text_of(source) == f"{{{rare}}}"
    assert text_of(Source("compas")) == '{"name": "compas"}'
    assert text_of(Source("compas", sensitive="sex", model="additive")) == (
        '{"categorical": [], "drop": [], "encoder": null, "encoding": null, "folder": null, '
        '"keep": [], "label": null, "merge_groups": false, "model": "additive", '
        '"name": "compas", "pixels": null, "scaling": null, "sensitive": "sex", '
        '"skip_missing": false, "with_images": false}'
    )


def text_of(source):
    return json.dumps(source.describe(), sort_keys=True)


def test_every_hyper_parameter_is_part_of_the_key():
    spec = grid()[-1]
    for change in ({"K": 6}, {"gamma": 0.5}, {"alpha": 0.5}, {"eta": 0.1}):
        other = dataclasses.replace(spec, algorithm=dataclasses.replace(spec.algorithm, **change))
        assert other.key != spec.key
    assert dataclasses.replace(spec, seed=7).key != spec.key
    assert dataclasses.replace(spec, protocol="paper").key != spec.key
    assert dataclasses.replace(spec, frontier=True).key != spec.key


def test_a_frontier_has_its_own_name_in_the_results():
    spec = Spec(Source("compas"), PLAN, "fedavg", pff.methods.FedAvg(), 0, frontier=True)
    assert (spec.method, spec.name) == ("fedavg", FRONTIER)
    assert spec.key.startswith("compas-frontier-0-")
    assert json.loads(json.dumps(spec.describe()))["plan"] == PLAN.to_dict()


def test_a_bundled_data_set_has_its_own_columns():
    with pytest.raises(pff.InputError, match="'compas' has its own columns: leave out drop"):
        load_source(Source("compas", drop=("age",)))


def keys_of(*folders):
    """Keys of the same run, with the data in each of these folders."""
    specs = [
        Spec(Source("celeba", folder=str(folder)), PLAN, "fedavg", pff.methods.FedAvg(), 0)
        for folder in folders
    ]
    return [spec.key for spec in specs]


def test_a_key_knows_what_is_in_an_embeddings_file_not_where_it_is(tmp_path):
    table, array = made_faces.people()
    for name, changed in (("a", 0.0), ("b", 0.0), ("c", 1.0)):
        (tmp_path / name).mkdir()
        other = array.copy()
        other[17, 3] += changed
        made_faces.write(tmp_path / name / "embeddings-tiny.parquet", table, other)
    here, there, elsewhere = keys_of(*(tmp_path / name for name in "abc"))
    assert here == there != elsewhere
    assert here.startswith("celeba-fedavg-0-")


def test_a_key_knows_a_file_of_your_own_by_its_contents(tmp_path):
    table, array = made_faces.people()
    keys = []
    for name, plus in (("a", 0), ("b", 0), ("c", 1)):
        (tmp_path / name).mkdir()
        path = made_faces.write(tmp_path / name / "e.parquet", table, array + np.float16(plus))
        source = Source(str(path), "smiling", "male")
        keys.append(Spec(source, pff.partition.together(), "erm", pff.methods.FedAvg(), 0).key)
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize(
    "change",
    [
        {"scaling": "whiten"},
        {"pixels": 16},
        {"with_images": True},
        {"label": "Male", "sensitive": "Smiling"},
    ],
)
def test_a_key_knows_how_images_are_taken(change, tmp_path):
    source = Source("celeba", folder=str(made_faces.celeba(tmp_path)))
    plan = pff.partition.together()
    one, other = (
        Spec(each, plan, "erm", pff.methods.FedAvg(), 0)
        for each in (source, dataclasses.replace(source, **change))
    )
    assert one.key != other.key
    assert json.loads(json.dumps(one.describe()))["source"]["folder"] is None
    assert one.work > 0 < other.work


def test_results_say_what_the_inputs_were_and_how_many_parameters(tmp_path):
    source = Source("celeba", folder=str(made_faces.celeba(tmp_path)))
    spec = Spec(source, pff.partition.together(), "erm", pff.make("erm-local", {"rounds": 2}), 0)
    notes = ("celeba: the encoder is tiny, none of the paper's.",)
    run = prepare([spec], tmp_path / "out", 1, "table5", notes=notes)
    results = run(lambda work, runs: None)
    assert set(results["inputs"]) == {"tiny"}
    assert set(results["parameters"]) == {9}
    card = json.loads((tmp_path / "out" / "experiment.json").read_text())
    assert card["notes"] == list(notes)
    compas = Spec(Source("compas"), PLAN, "constant", pff.make("constant"), 0)
    assert set(run_experiment([compas], tmp_path / "compas", jobs=1)["inputs"]) == {""}
    assert "notes" not in json.loads((tmp_path / "compas" / "experiment.json").read_text())
