import json
import tomllib
from importlib.resources import files

import pandas as pd
import pytest

import pfedfair as pff
from pfedfair.experiments import Source, run_experiment
from pfedfair.methods import METHODS
from pfedfair.methods.defaults import as_many_steps, make, settings, space
from pfedfair.studies import tune

TUNED = tomllib.loads((files("pfedfair.methods.defaults") / "tuned.toml").read_text())
BUNDLED = [(d, m) for d in ("adult", "compas") for m in TUNED[d]]


@pytest.mark.parametrize(("dataset", "method"), BUNDLED)
def test_settings_are_a_trial_of_the_search(dataset, method):
    found = settings(dataset, method)
    assert found in tune.trials(dataset, method)
    assert make(method, data=dataset).alpha == found["alpha"]


def test_every_method_has_the_same_number_of_trials():
    untuned = set(METHODS) - set(tune.tuned_methods())
    assert untuned == {
        "constant", "logofair", "transport", "pooled", "threshold-local", "fedfact",
        "duan", "newton",
    }  # fmt: skip
    for dataset in ("adult", "compas", "own"):
        for method in tune.tuned_methods():
            trials = tune.trials(dataset, method)
            assert len({str(t) for t in trials}) == len(trials)
            assert len(trials) == tune.TRIALS or dataset == "own"
            assert space(dataset, method).keys() == trials[0].keys()


def test_small_clients_make_as_many_steps():
    assert as_many_steps("adult", "fedavg", 2400) == {}
    assert as_many_steps("adult", "fedavg", 600) == {"epochs": 4}
    assert as_many_steps("adult", "pfedfair", 600) == {"batch": 150}
    assert as_many_steps("compas", "pfedfair", 60) == {}
    ways = tune.small("adult", ["pfedfair"])[2:]
    assert [trial.get("batch") for _, trial, _ in ways] == [60, None]
    finish = settings("adult", "pfedfair")["prox_epochs"]
    assert ways[1][1]["prox_epochs"] == 4 * finish


def test_one_change_at_a_time():
    first, *others = (trial for _, trial, _ in tune.changes("adult"))
    for other in others:
        assert len(set(other.items()) - set(first.items())) == 1


def test_a_table_of_your_own_is_tuned(csv, tmp_path, monkeypatch):
    monkeypatch.setattr(tune, "TRIALS", 3)
    source, plan = Source(str(csv), "hired", "sex"), pff.partition.by_column("site")
    each = tune.searched(source, plan, ["fedavg", "kde-local"])
    short = [(method, trial | {"rounds": 2}, plan) for method, trial, plan in each]
    table = tune.score(run_experiment(tune.specs(source, short, 1), tmp_path / "out", 1))
    assert list(table.groupby("method").size()) == [3, 3]
    assert table.groupby("method")["score"].is_monotonic_decreasing.all()
    found = tomllib.loads(tune.toml("own", table))["own"]
    assert set(found) == {"fedavg", "kde-local"}
    best = json.loads(table.set_index("method").loc["fedavg", "config"].iloc[0])
    assert found["fedavg"] == {k: best[k] for k in ("rounds", "alpha", "ridge")}
    with pytest.raises(pff.InputError, match="nothing to tune"):
        tune.searched(source, plan, ["constant"])


def test_a_trial_that_ends_in_one_decision_for_a_client_comes_last():
    rows = [
        {"method": "pfedfair", "config": config, "partition": "p", "seed": 100, "role": role,
         "accuracy": accuracy, "ddp": ddp, "collapsed": collapsed}
        for config, accuracy, ddp, collapsed in (("a", 0.80, 0.1, False), ("b", 0.78, 0.0, True),
                                                 ("c", 0.81, 0.1, False))
        for role in ("underrepresented", "overrepresented")
    ]  # fmt: skip
    table = tune.score(pd.DataFrame(rows))
    assert list(table["config"]) == ["c", "a", "b"]  # by score: b, c, a
    assert table["score"].tolist() == pytest.approx([0.71, 0.70, 0.78])
