"""Python takes what the command line takes: names, lists, and NumPy's numbers."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import pfedfair as pff
from made_people import people
from pfedfair.experiments import Source, Spec


def test_a_method_by_its_name_is_as_tuned(federation):
    named = pff.train(federation, "pfedfair", eta=0.5, rounds=3)
    made = pff.make("pfedfair", {"eta": 0.5, "rounds": 3}, federation.data)
    assert named.algorithm == made
    assert torch.equal(named.fitted.theta, pff.train(federation, made).fitted.theta)
    with pytest.raises(pff.InputError, match="did you mean 'pfedfair'"):
        pff.train(federation, "pfedfiar")
    with pytest.raises(pff.InputError, match="eta: settings go with the name of a method; FedAvg"):
        pff.train(federation, pff.methods.FedAvg(rounds=1), eta=0.5)


@pytest.mark.parametrize("clients", [None, 20])
def test_as_the_command_line_makes_it(pfedfair, clients):
    """Also for small clients, which have settings of their own."""
    plan = pff.partition.fixed_shares(clients)
    run = pff.train(pff.load("compas").federate(plan), "kde-local", rounds=2)
    more = () if clients is None else ("--clients", clients)
    asked = ("train", "compas", "--method", "kde-local", "--rounds", 2, *more)
    code, _, err = pfedfair(*asked, "--out", "run", "--quiet")
    assert code == 0, err
    about = json.loads(Path("run/run.json").read_text())["algorithm"]
    assert about == json.loads(json.dumps(run.algorithm.to_dict()))


def test_a_column_is_a_plan(table):
    one = table.federate("site", seed=1)
    two = table.federate(pff.partition.by_column("site"), seed=1)
    assert one.partition.names == two.partition.names
    assert all(map(np.array_equal, one.partition.train, two.partition.train))
    assert pff.load("compas").federate().partition.names == ("1", "2", "3", "4", "5")
    with pytest.raises(pff.InputError, match="no column 'town' to make clients of"):
        table.federate("town")


def test_lists_of_columns(csv):
    frame = people().assign(old=np.arange(260) % 2)
    texts = pff.from_frame(frame, "hired", "sex,old", drop="site,c", categorical="old", keep="b")
    lists = pff.from_frame(
        frame, "hired", ["sex", "old"], drop=["site", "c"], categorical=["old"], keep=("b",)
    )
    assert texts.group_names == lists.group_names == ("f x 0", "f x 1", "m x 0", "m x 1")
    assert texts.numeric == lists.numeric == ("a", "b")
    frame.to_csv(csv, index=False)
    loaded = pff.load(csv, "hired", ["sex", "old"])
    assert loaded.sensitive_column == "sex,old"
    compas = pff.load("compas")
    by = [compas.by(columns, True).group_names for columns in ("race,male", ["race", "male"])]
    asked = {"sensitive": ["race", "male"], "merge_groups": True}
    assert by[0] == by[1] == pff.load("compas", **asked).group_names
    with pytest.raises(pff.InputError, match="has a comma: rename it"):
        pff.from_frame(frame.rename(columns={"sex": "s,x"}), "hired", ["s,x"])


@pytest.mark.filterwarnings("ignore::pfedfair.CollapseWarning")
def test_numpys_numbers_everywhere(table, tmp_path):
    one, i = np.int64(1), np.int32
    plan = pff.partition.by_column("site", min_rows=i(20), test=np.float64(0.25))
    assert type(plan.min_rows) is int
    federation = table.federate(plan, seed=one)
    algorithm = pff.methods.PFedFair(rounds=i(2), eta=np.float32(0.5), K=one)
    network = pff.MLP(i(federation.encoder.width), (i(4), one * 3), groups=i(2))
    run = pff.train(federation, algorithm, seed=one, network=network, measure_every=one)
    expected = pff.train(
        table.federate("site", seed=1), "pfedfair", 1, pff.MLP(6, (4, 3), groups=2),
        **{k: v for k, v in algorithm.to_dict().items() if k not in ("kind", "format")},
    )  # fmt: skip
    assert torch.equal(run.fitted.theta, expected.fitted.theta)
    run.save(tmp_path / "run")
    model = pff.load_model(tmp_path / "run", i(2))
    assert torch.equal(model.predictor.theta, run.personal_model(one * 2).predictor.theta)
    spec = Spec(
        Source("compas"), pff.partition.fixed_shares(i(3)), "fedavg", pff.methods.FedAvg(), one
    )
    assert spec.key == Spec(
        Source("compas"), pff.partition.fixed_shares(3), "fedavg", pff.methods.FedAvg(), 1
    ).key  # fmt: skip
    with pytest.raises(pff.InputError, match=r"seed must be a whole number, got 0\.5"):
        pff.train(federation, algorithm, seed=0.5)
    with pytest.raises(pff.InputError, match="seed must be at least 0"):
        pff.train(federation, algorithm, seed=-1)
