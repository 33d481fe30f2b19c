"""Attacks whose numbers are published: the scripts that measure them, and what they find."""

import sys
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import pfedfair as pff


def script(name, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "scripts"))
    monkeypatch.delitem(sys.modules, name, raising=False)
    return import_module(name)


def test_an_advantage_is_that_of_the_best_limit(monkeypatch):
    """Losses of two normal distributions a standard deviation apart: 2 Phi(1/2) - 1."""
    advantage = script("measure_membership", monkeypatch).advantage
    rng = np.random.default_rng(0)
    members, others = rng.normal(0, 1, 40_000), rng.normal(1, 1, 40_000)
    assert advantage(members, others, rng) == pytest.approx(0.383, abs=0.015)
    assert advantage(members, rng.normal(0, 1, 40_000), rng) == pytest.approx(0, abs=0.015)


def test_others_have_the_shares_of_the_rows(monkeypatch):
    alike = script("measure_membership", monkeypatch).alike
    s = np.repeat([0, 1], [700, 300])
    rows = np.r_[0:10, 700:790]  # a tenth of group 0, nine of group 1
    chosen = alike(np.arange(1000), rows, s)
    assert np.bincount(s[chosen]).tolist() == [33, 300]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_models_losses_hardly_tell_who_was_trained_on(monkeypatch, record_property):
    measure = script("measure_membership", monkeypatch).measure
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pff.CollapseWarning)
        for method in ("fedavg", "pfedfair", "kde-local", "transport"):
            found[method] = np.mean(list(measure(method, seeds=2)))
    record_property("default", ", ".join(f"{name} {a:+.3f}" for name, a in found.items()))
    assert found["fedavg"] < 0.02
    assert found["pfedfair"] < 0.03
    assert found["transport"] < 0.02
    assert found["kde-local"] < 0.06  # few rows, learnt well


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_crafted_weights_get_few_rows_under_the_default_policy(
    monkeypatch, tmp_path, record_property
):
    rows = script("measure_rows", monkeypatch)
    rows.people_of_adult(tmp_path)
    found = {}
    for name, policy, units in (("open", rows.OPEN, 16384), ("default", "", 128)):
        found[name] = rows.attack(tmp_path, units, policy, {})
        record_property(name, found[name])
    number = {name: int(text.split()[0].replace(",", "")) for name, text in found.items()}
    assert number["open"] > 2000  # the attack is a real one
    assert number["default"] < 100
    assert "refused" in rows.attack(tmp_path, 16384, "", {})
