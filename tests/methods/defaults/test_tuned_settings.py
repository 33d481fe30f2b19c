"""The settings that were tuned: whose they are, and what they say."""

import tomllib
from importlib.resources import files

import pytest

import pfedfair as pff
from made_people import people
from pfedfair.methods.defaults import (
    as_many_steps,
    make,
    of_few_rows,
    section,
    settings,
    sized,
    takes,
    words,
)
from pfedfair.studies import tune

TUNED = tomllib.loads((files("pfedfair.methods.defaults") / "tuned.toml").read_text())
ANY = "any"  # what methods without settings of their own have
ONE_STEP = "any-one-step"  # and those to which a round is one step
EACH = [(d, method) for d in TUNED for method in TUNED[d] if method not in (ANY, ONE_STEP)]


LIKE = {"own": "compas-additive", "own-mlp": "compas"}


@pytest.mark.parametrize(("dataset", "method"), EACH)
def test_settings_are_a_trial_of_the_search(dataset, method):
    found = settings(dataset, method)
    if method == "newton":
        assert found == {"rounds": 10}
    elif not pff.methods.METHODS[method].kind.tuning.tuned:  # rules on FedAvg's model
        assert found == settings(dataset, "fedavg")
    elif (dataset, method) == ("own", "pfedfair"):  # good on two kinds of tables
        assert found in tune.trials("compas-additive", method)
        assert found == settings("acs", method)
    elif dataset in LIKE:  # no row has tuned these
        assert found == settings(LIKE[dataset], method)
    else:
        assert found in tune.trials(dataset, method)
    made = make(method, data=dataset)
    assert {name: getattr(made, name) for name in found} == found
    assert all(takes(method, name) for name in found)


def test_every_method_for_clients_is_tuned_for_every_kind_of_data():
    images = {"celeba", "utkface", "fairface", "images", "pixels"}
    small = {"adult-600", "adult-240", "adult-additive-600", "adult-additive-240"}
    additive = {"adult-additive", "compas-additive", "own", "acs"}
    assert set(TUNED) == {"adult", "compas", "own-mlp"} | images | small | additive
    of_tables = {"fedavg", "fedavg-kde", "kde-local", "pfedme-kde", "pfedfair"}
    for dataset in small:
        assert {"fedavg", "kde-local"} <= set(TUNED[dataset])
        assert of_tables <= set(TUNED[dataset]) or "additive" not in dataset
    kinds = {name: method.kind for name, method in pff.methods.METHODS.items()}
    tuned = {name for name in TUNED["compas"] if kinds[name].tuning.tuned}
    for dataset, methods in TUNED.items():
        assert ("newton" in methods) == ("additive" in dataset or dataset in additive)
        if ANY not in methods and dataset not in {*small, "adult-additive", "acs"}:
            assert {name for name in methods if kinds[name].tuning.tuned} == tuned
        assert (ANY in methods) == (dataset in images)


@pytest.mark.parametrize("dataset", [dataset for dataset in TUNED if ANY in TUNED[dataset]])
def test_a_method_that_was_not_tuned_has_the_settings_of_any_that_it_takes(dataset):
    for name, method in pff.methods.METHODS.items():
        usual = TUNED[dataset][ONE_STEP if method.kind.tuning.one_step else ANY]
        found = settings(dataset, name)
        if name in TUNED[dataset]:
            continue
        if name in ("constant", "newton", "pooled"):
            assert found == {}
        elif not method.kind.tuning.tuned:  # rules on FedAvg's model
            assert found == settings(dataset, "fedavg")
        else:
            assert found == {key: usual[key] for key in usual if takes(name, key)}
        made = make(name, data=dataset)
        assert {key: getattr(made, key) for key in found} == found
        assert "rounds" in tune.space(dataset, name)


def test_small_clients_have_sections_of_their_own():
    assert [sized("adult", rows) for rows in (3000, 600, 300, 50)] == [
        "adult", "adult-600", "adult-240", "adult-240",
    ]  # fmt: skip
    assert section("adult-240") == "adult-240"
    small = of_few_rows("adult-additive", "fedavg-kde", 240)
    assert small == TUNED["adult-additive-240"]["fedavg-kde"]
    assert of_few_rows("adult-additive", "transport", 240) == {"rounds": 10, "base": "newton"}
    assert of_few_rows("adult", "fedavg", 240) == TUNED["adult-240"]["fedavg"]
    for method in ("fedprox", "pfedfair"):  # of which the one was not tuned, the other in vain
        assert of_few_rows("adult", method, 240) == as_many_steps("adult", method, 240)
    assert sized("my table", 100) == "own"


def test_sections_by_data_set(table):
    assert [section(name) for name in ("adult", "compas", "own")] == ["adult", "compas", "own"]
    assert section("compas-two-races") == "compas"
    assert section("my table") == section(table) == "own"
    assert section(pff.load("compas")) == "compas"
    assert settings(table, "fedavg") == TUNED["own"]["fedavg"]
    assert make("pfedfair", data=table) == make("pfedfair", data="own")
    assert make("pfedfair", data=table) != make("pfedfair")


def test_words_say_whose_settings_they_are(table):
    def text(data, name, **given):
        return words(data, name, make(name, given, data))

    assert (
        text("adult", "fedavg") == "Settings, as tuned for adult or given: rounds 10, alpha 0.01."
    )
    given = "Settings, as tuned for adult or given: rounds 3, epochs 4, alpha 0.01."
    assert text("adult", "fedavg", rounds=3, epochs=4) == given
    assert "rounds 80, alpha 0.002" in text(pff.load("compas"), "fedavg")
    own = text(table, "pfedfair", target_ddp=0.05)
    assert own.startswith("Settings for tables of your own (they suit clients of some hundred row")
    assert "envelope_gradient point" in own
    assert own.endswith("pfedfair tune finds better ones for yours.")
    assert "Settings for images of your own" in text("images", "fedavg")
    assert "Settings for networks on pixels" in text("pixels", "fedavg")
    assert text(table, "constant") == "constant has no settings to tune."
    assert "alpha 0.5" in text("adult", "transport", **{"base": "fedprox", "base.alpha": 0.5})


def test_settings_have_the_last_word():
    assert make("pfedfair", {"rounds": 7}, "compas").rounds == 7
    assert make("pfedfair", {"rounds": 7}, "compas").gamma == TUNED["compas"]["pfedfair"]["gamma"]


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


def test_a_file_that_is_called_adult_is_a_table_of_your_own(tmp_path):
    people().to_csv(tmp_path / "adult.csv", index=False)
    data = pff.load(tmp_path / "adult.csv", "hired", "sex", drop=["site"])
    assert section(data) == section(str(tmp_path / "adult.csv")) == "own"
    assert section(pff.load("adult", sensitive="race")) == section("adult") == "adult"
    assert section(pff.load("compas-two-races")) == section("compas-two-races") == "compas"
