"""What a review found, each as a test that failed before."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import pfedfair as pff
from pfedfair import metrics
from pfedfair.engines.site.rows import make_plan


def test_a_blind_federation_refuses_a_network_that_looks_at_s(table):
    plan = pff.partition.by_column("site")
    blind = table.federate(plan, 0, sensitive_as_input=False)
    network = pff.MLP(blind.encoder.width, (4,), 1, groups=2)
    with pytest.raises(pff.InputError, match="this network looks at S: mlp 4"):
        pff.train(blind, pff.FedAvg(rounds=1), network=network)


@pytest.mark.filterwarnings("ignore::pfedfair.CollapseWarning")
def test_a_target_inside_a_base_trains(federation):
    settings = {"rounds": 8, "base": "fedavg-kde", "base.target_ddp": 0.1, "base.batch": 25}
    assert len(pff.train(federation, pff.make("transport", settings)).table()) == 3


def test_with_epsilon_a_base_sends_its_model_alone():
    pff.make("transport", {"epsilon": 1, "base": "fedprox"})
    with pytest.raises(pff.InputError, match="must send its model alone"):
        pff.make("transport", {"epsilon": 1, "base": "fa"})


class Hidden(nn.Module):
    """A linear layer and a buffer that its state does not show."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, 1)
        self.register_buffer("bias", torch.randn(1), persistent=False)

    def forward(self, x, s=None):
        return self.layer(x) + self.bias + (0 if s is None else s[:, None])


def test_hidden_buffers_are_kept_and_a_second_argument_is_s(federation, tmp_path):
    width = federation.encoder.width
    network = pff.Module(Hidden(width))
    assert network.takes_s
    run = pff.train(federation, pff.FedAvg(rounds=1), network=network)
    run.save(tmp_path)
    people = federation.data.frame.head(20)
    given = {"sensitive_features": people["sex"]}
    again = pff.load_model(tmp_path, 0, module=Hidden(width))
    expected = run.personal_model(0).predict_proba(people, **given)
    np.testing.assert_array_equal(again.predict_proba(people, **given), expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"base": "fedprox", "base.rounds": 9}, "Leave out base.rounds"),
        ({"penalty_options": "abc"}, "means nothing to transport"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(settings, message):
    with pytest.raises(pff.InputError, match=message):
        pff.make("transport", settings)


@pytest.mark.filterwarnings("ignore::pfedfair.CollapseWarning")
def test_options_of_penalties_are_read(federation):
    with pytest.raises(pff.InputError, match="penalty-options cannot be read from 'abc'"):
        pff.make("fedavg-kde", {"penalty_options": "abc"})
    algorithm = pff.make("fedavg-kde", {"penalty": "hgr", "penalty.points": "11", "rounds": 1})
    assert dict(algorithm.penalty_options) == {"points": 11}
    pff.train(federation, algorithm)
    assert pff.make("fedavg-kde", {"penalty.bandwidth": "inf"}).penalty_options[0][1] == np.inf


def test_accuracy_refuses_unequal_lengths():
    assert metrics.accuracy([1, 0, 1], [1, 1, 1]) == pytest.approx(2 / 3)
    with pytest.raises(pff.InputError, match="differ in number"):
        metrics.accuracy([1], [1, 0, 1])


def test_one_client_with_all_rows_is_a_site_too():
    plan = make_plan({"partition": "together"}, 1, pff.load("compas"))
    assert plan == pff.partition.together()


def test_compare_gives_settings_to_those_who_can_use_them(pfedfair, tmp_path):
    code, _, err = pfedfair(
        "compare", "compas", "--methods", "transport,pfedfair", "--set", "confidence=0.9", "--set",
        "rounds=8", "--etas", "0.9", "--seeds", 1, "--jobs", 1, "--out", "c",
    )  # fmt: skip
    assert code == 0, err
    results = pd.read_parquet(tmp_path / "c" / "results.parquet")
    rounds = {json.loads(config)["rounds"] for config in results["config"].unique()}
    assert rounds == {8}
