"""One factory: what a method takes, how texts are read, and what is refused in a sentence."""

import numpy as np
import pytest

import pfedfair as pff
from pfedfair.methods.defaults import OF_PENALTY, OF_TARGET, make, takes
from pfedfair.penalties.objective import Objective


def refused(name, settings, message):
    with pytest.raises(pff.InputError, match=message) as error:
        make(name, settings)
    text = str(error.value)
    assert "\n" not in text
    assert text.endswith(".")


@pytest.mark.parametrize("name", pff.methods.METHODS)
def test_without_settings_it_is_the_class_and_eta_09_if_fair(name):
    method = pff.methods.METHODS[name]
    expected = method.kind(eta=0.9) if method.fair else method.kind()
    assert make(name) == expected
    assert make(name).eta == (0.9 if method.fair else 0.0)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("fedavg", {"eta": 0.5}, "'eta' means nothing to fedavg: leave it out, or take fedavg-kde"),
        ("erm-local", {"penalty": "mi"}, "'penalty' means .* erm-local: .* or take kde-local"),
        ("fedavg", {"penalty.bandwidth": 1}, "means nothing to fedavg: .* or take fedavg-kde"),
        ("fedavg", {"target_ddp": 0.1}, "'target_ddp' means nothing to fedavg: .* fedavg-kde"),
        ("transport", {"eta": 0.5}, "'eta' means nothing to transport: leave it out"),
        ("transport", {"mix": "additive"}, "'mix' means nothing to transport: leave it out"),
        ("logofair", {"target_ddp": 0.1}, "'target_ddp' means nothing to logofair: leave it out"),
        ("constant", {"eta": 0.5}, "'eta' means nothing to constant: leave it out"),
        ("pfedfair", {"beta": 1.0}, "'beta' means nothing to pfedfair: leave it out"),
        ("fedavg", {"base": "fedprox"}, "'base' means nothing to fedavg: leave it out"),
        ("pfedfair", {"lamm": 1}, "Unknown setting 'lamm' of pfedfair: did you mean 'lam'"),
        ("fedavg", {"etta": 1}, "Unknown setting 'etta' of fedavg: "),
        ("pfedfair", {"kind": "x"}, "Unknown setting 'kind' of pfedfair"),
        ("pfedfiar", {}, "Unknown method 'pfedfiar': did you mean 'pfedfair'"),
        ("pfedfair", {"rounds": "many"}, "rounds must be a whole number, got 'many'"),
        ("pfedfair", {"rounds": "2.5"}, "rounds must be a whole number, got '2.5'"),
        ("pfedfair", {"rounds": "inf"}, "rounds must be a whole number, got 'inf'"),
        ("pfedfair", {"rounds": None}, "rounds must be a whole number, got 'None'"),
        ("pfedfair", {"alpha_inner": "fast"}, "alpha_inner must be a number, got 'fast'"),
        ("pfedfair", {"alpha": "nan"}, "alpha must be a positive number, got nan"),
        ("pfedfair", {"penalty.bandwidth": "wide"}, "penalty.bandwidth must be a number"),
        ("pfedfair", {"penalty.h": 1}, "Unknown option of kde 'h'"),
        ("pfedfair", {"confidence": 0.9}, "confidence needs target_ddp"),
        ("pfedfair", {"target_ddp": "no"}, "target_ddp must be a number, got 'no'"),
        ("mmpf", {"target_ddp": 0.1}, "MMPF makes its own gradients: it takes no target"),
        ("transport", {"base.mu": 0.1}, "base.mu needs base, the name of a method"),
        ("transport", {"base": "fedavg", "base.mu": 0.1}, "'mu' means nothing to fedavg"),
        ("transport", {"base": "fedsgd"}, "Unknown method 'fedsgd'"),
        ("transport", {"base": "fedprox", "alpha": 0.1}, "say base.alpha instead of alpha"),
    ],
)
def test_what_a_method_does_not_take_is_refused(name, settings, message):
    refused(name, settings, message)


@pytest.mark.parametrize("name", ["constant", "erm-local"])
def test_a_base_must_be_federated(name):
    refused("transport", {"base": name}, "cannot be the base of Transport: take a federated")


@pytest.mark.parametrize("name", pff.methods.METHODS)
def test_what_it_takes_can_be_given(name):
    """A method takes its class's settings, those of the penalty and a target only if fair."""
    method, usual = pff.methods.METHODS[name], make(name)
    for key in method.settings:
        assert takes(name, key) == (method.fair or key not in OF_PENALTY)
        if takes(name, key) and key != "base":
            assert make(name, {key: getattr(usual, key)}) == usual
    for key in OF_TARGET:
        assert takes(name, key) == (method.fair or key in method.settings)
    assert not takes(name, "nonsense")
    assert takes(name, "penalty.bandwidth") == method.fair


def test_texts_are_read_as_what_the_setting_is():
    made = make("pfedfair", {"lam": "0.2", "rounds": "1e1", "inner": "sgd", "eta": "0.5"})
    assert made == pff.methods.PFedFair(lam=0.2, rounds=10, inner="sgd", eta=0.5)
    assert type(made.rounds) is int
    assert type(make("pfedfair", {"gamma": 1}).gamma) is float
    for text, kappa in (("inf", float("inf")), ("0", 0.0), ("none", None), ("", None)):
        assert make("transport", {"kappa": text}).kappa == kappa
    assert make("transport", {"epsilon": "none", "base": "None"}) == pff.methods.Transport()
    assert make("transport", {"jointly": "true"}).jointly is True
    assert make("transport", {"base": "none"}) == make("transport", {"base": ""}) == make(
        "transport"
    )  # fmt: skip


def test_options_of_the_penalty():
    made = make("fedavg-kde", {"eta": 0.3, "penalty.bandwidth": "0.2", "penalty.delta": 2})
    assert made.objective == Objective(0.3, penalty_options=(("bandwidth", 0.2), ("delta", 2.0)))
    listed = make("fedavg-kde", {"penalty_options": [["bandwidth", 0.2]]})  # as JSON has it
    assert listed.penalty_options == (("bandwidth", 0.2),)


def test_a_base_has_settings_of_its_own():
    made = make("transport", {"base": "fedprox", "base.mu": "0.5", "rounds": 9})
    assert made.base == pff.methods.FedProx(mu=0.5)
    assert made.trainer == pff.methods.FedProx(mu=0.5, rounds=9)
    tuned = make("transport", {"base": "fedprox"}, "adult")
    assert tuned.base == make("fedprox", data="adult")
    assert tuned.rounds == make("transport", data="adult").rounds
    fair = make("transport", {"base": "fedavg-kde", "base.eta": 0.4, "base.batch": 50})
    assert (fair.trainer.eta, fair.eta, fair.batch) == (0.4, 0.0, 50)
    assert make("transport", {"base": pff.methods.FedProx()}).base == pff.methods.FedProx()


@pytest.mark.parametrize("name", ["fedavg-kde", "pfedfair", "fairfed", "kde-local"])
def test_a_target_in_the_place_of_eta(name):
    settings = {"target_ddp": "0.03", "confidence": "0.9", "held": 0.1, "dual_step": 1, "rounds": 4}
    made = make(name, settings, "adult")
    assert isinstance(made, pff.methods.Targeted)
    assert made.method == make(name, {"rounds": 4}, "adult")
    assert (made.target_ddp, made.confidence, made.held, made.dual_step) == (0.03, 0.9, 0.1, 1.0)
    assert (made.rounds, made.alpha) == (4, made.method.alpha)
    assert (made.target, made.level) == (0.03, "≤ 0.03 90%")


def test_transports_target_is_its_own():
    made = make("transport", {"target_ddp": "0.1", "confidence": 0.9, "held": 0.3})
    assert made == pff.methods.Transport(target_ddp=0.1, confidence=0.9, held=0.3)
    assert (made.target, made.level) == (0.1, "≤ 0.1 90%")


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
    with pytest.raises(pff.InputError, match="penalty_options cannot be read from 'abc'"):
        pff.make("fedavg-kde", {"penalty_options": "abc"})
    algorithm = pff.make("fedavg-kde", {"penalty": "hgr", "penalty.points": "11", "rounds": 1})
    assert dict(algorithm.penalty_options) == {"points": 11}
    pff.train(federation, algorithm)
    assert pff.make("fedavg-kde", {"penalty.bandwidth": "inf"}).penalty_options[0][1] == np.inf
