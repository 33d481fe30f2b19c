"""What methods declare is what they do: keys of their states, models, clients, closing rounds."""

import json
from typing import NotRequired, get_origin, get_type_hints

import numpy as np
import pytest
import torch
from play import clients, small_network

import pfedfair as pff
from pfedfair.methods import METHODS, REGISTRY, from_dict
from pfedfair.methods.defaults import make
from pfedfair.methods.target import targeted

WEIGHTS = ("eta", "lam", "mu", "share")  # the more, the fairer
SHORT = {"rounds": 4, "batch": 40}  # one minibatch for each client
CLOSED = {
    "transport": {"rounds": 5, "agree": 2, "bins": 20},
    "logofair": {"rounds": 4, "dual_rounds": 2},
    "fedfact": {"rounds": 4},
    "duan": {"rounds": 4},
}
CASES = {name: make(name, SHORT | CLOSED.get(name, {})) for name in METHODS}
CASES["newton"] = pff.methods.Newton(rounds=8, intercepts="personal")  # all that it ever sends
CASES |= {
    f"mmpf {groups}": pff.methods.MMPF(**SHORT, groups=groups) for groups in ("sensitive", "both")
}
CASES |= {f"{name}, target": targeted(CASES[name], target_ddp=0.1)
          for name in ("fedavg-kde", "ditto-kde", "fairfed", "kde-local")}  # fmt: skip
CASES |= {f"transport on {base}": make("transport", CLOSED["transport"] | {"base": base})
          for base in ("fedprox", "mmpf", "fedavg-kde", "ditto", "newton")}  # fmt: skip
CASES |= {f"{name} on {base}": make(name, {"rounds": 4, "base": base, "base.batch": 40})
          for name in ("threshold-local", "fedfact", "duan")
          for base in ("mmpf", "ditto")}  # fmt: skip
CASES["transport, private"] = make("transport", CLOSED["transport"] | {"epsilon": 1.0})
FEDERATED = [name for name, algorithm in CASES.items() if algorithm.federated]
HGR = {"penalty": "hgr", "penalty_options": (("points", 9), ("bandwidth", 1.0))}
OTHER_SETTINGS = {
    "infinite": pff.methods.Transport(kappa=float("inf"), confidence=0.9, criterion="eo"),
    "options": pff.methods.FedAvg(eta=0.4, **HGR),
}


def wrapped(algorithm):
    """The method inside another, if there is one."""
    return [inner for name in ("method", "trainer")
            if isinstance(inner := getattr(algorithm, name, None), pff.methods.Method)]  # fmt: skip


def declared(algorithm, which):
    """Names that must be in a state, and those that may be."""
    hints = get_type_hints(getattr(algorithm, which), include_extras=True)
    optional = {name for name, hint in hints.items() if get_origin(hint) is NotRequired}
    if not getattr(algorithm, which).__total__:
        optional = set(hints)
    may = set(hints).union(*(declared(inner, which)[1] for inner in wrapped(algorithm)))
    return set(hints) - optional, may


def played(federation, algorithm):
    """The states of all rounds: what the server has, and what clients send and keep."""
    network = algorithm.network(small_network(federation, algorithm), federation.table.task)
    everyone = clients(federation, network)
    sizes = torch.from_numpy(federation.sizes).float()
    servers = [algorithm.start_server(network.init(np.random.default_rng(0)), sizes)]
    owned, sent = [algorithm.start(servers[0], everyone)], []
    for t in range(algorithm.rounds if algorithm.federated else 0):
        messages, own = algorithm.client_round(servers[-1], owned[-1], everyone, t)
        owned.append(own)
        sent.append(messages)
        servers.append(algorithm.server_round(servers[-1], messages, sizes))
    return network, servers, sent, owned


@pytest.fixture(scope="module")
def play_once(federation):
    done = {}

    def get(name):
        if name not in done:
            done[name] = played(federation, CASES[name])
        return done[name]

    return get


@pytest.mark.parametrize("name", CASES)
def test_states_have_the_keys_that_are_declared(play_once, name):
    algorithm = CASES[name]
    _, servers, sent, owned = play_once(name)
    for which, states in (("server_keys", servers), ("message_keys", sent), ("own_keys", owned)):
        must, may = declared(algorithm, which)
        for state in states:
            if which != "own_keys" or not wrapped(algorithm):
                assert must <= set(state), which
            assert set(state) <= may, which
    if not wrapped(algorithm) and algorithm.federated:  # nothing is declared in vain
        for which, states in (("server_keys", servers), ("message_keys", sent)):
            unused = declared(algorithm, which)[1].difference(*states)
            assert unused <= {"count", "guess"}  # of other groups; where S is not known


@pytest.mark.parametrize("name", CASES)
def test_models_are_what_has_a_models_shape(play_once, name):
    network, servers, _, _ = play_once(name)
    shaped = {key for server in servers for key, tensor in server.items()
              if tensor.shape == (network.size,)}  # fmt: skip
    assert set(CASES[name].models) == shaped
    assert "w" in CASES[name].models


@pytest.mark.parametrize("name", CASES)
def test_a_server_keeps_something_of_each_client_or_not(name):
    w = torch.zeros(7)
    shapes = [
        {key: tensor.shape for key, tensor in CASES[name].start_server(w, torch.ones(n)).items()}
        for n in (3, 5)
    ]
    assert CASES[name].keeps_clients == (shapes[0] != shapes[1])


@pytest.mark.parametrize("name", FEDERATED)
def test_messages_are_models_only_or_not(play_once, name):
    algorithm = CASES[name]
    network, _, sent, _ = play_once(name)
    models = all(
        key in algorithm.models and tensor.shape == (3, network.size)
        for messages in sent
        for key, tensor in messages.items()
    )
    assert algorithm.sends_models_only == models


def added(algorithm, messages, sizes):
    """What one client would send for all, by the sums that a method declares, or by plain means."""
    found = {}
    for key, rows in messages.items():
        how = algorithm.sums.get(key, "uniform")
        weights = sizes.double() if how == "size" else torch.ones(len(sizes)).double()
        total = torch.tensordot(weights, rows.double(), dims=1)
        found[key] = (total if how == "sum" else total / weights.sum()).to(rows.dtype)[None]
    return found


@pytest.mark.parametrize("name", FEDERATED)
def test_sums_are_all_that_a_server_needs_where_they_are_declared(play_once, federation, name):
    algorithm = CASES[name]
    if algorithm.keeps_clients:  # it has something of each
        assert not algorithm.sums
        return
    sizes = torch.from_numpy(federation.sizes).float()
    _, servers, sent, _ = play_once(name)
    same = True
    for before, messages, after in zip(servers[:-1], sent, servers[1:], strict=True):
        found = algorithm.server_round(before, added(algorithm, messages, sizes), sizes.sum()[None])
        same &= set(found) == set(after) and all(
            found[key].shape == after[key].shape
            and torch.allclose(found[key].double(), after[key].double(), rtol=1e-4, atol=1e-5)
            for key in after
        )
    assert bool(algorithm.sums) == same


def test_newton_with_equal_weights_needs_each_clients_sums():
    assert pff.methods.Newton().sums["hessian"] == "sum"
    assert not pff.methods.Newton(weighting="uniform").sums
    assert pff.methods.FedAvg(weighting="size").sums == {"w": "size"}


@pytest.mark.parametrize("name", FEDERATED)
def test_closing_rounds_train_nothing(play_once, name):
    algorithm, servers = CASES[name], play_once(name)[1]
    last = algorithm.rounds - algorithm.closing
    for before, after in zip(servers[last:], servers[last + 1 :], strict=False):
        assert torch.equal(before["w"], after["w"])
    trained = algorithm.models[-1]  # the one in training
    assert not torch.equal(servers[last][trained], servers[0][trained])


@pytest.mark.parametrize("name", METHODS)
def test_defaults_say_how_many_rounds_are_closing(name):
    assert METHODS[name].closing == METHODS[name].kind().closing
    assert (METHODS[name].closing > 0) == (name in CLOSED)


# --- in files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES | OTHER_SETTINGS)
def test_what_an_algorithm_says_of_itself_makes_it_again(name):
    algorithm = (CASES | OTHER_SETTINGS)[name]
    about = json.loads(json.dumps(algorithm.to_dict()))
    again = from_dict(about)
    assert again == algorithm
    assert type(again) is type(algorithm)
    assert hash(again) == hash(algorithm)
    assert json.loads(json.dumps(again.to_dict())) == about


def test_a_wrapped_method_makes_a_difference():
    inner = [
        pff.methods.FedAvg(eta=0.5),
        pff.methods.FedProx(eta=0.5),
        pff.methods.FedProx(eta=0.5, mu=0.3),
    ]
    each = [targeted(method) for method in inner]
    each += [pff.methods.Transport(base=method) for method in inner] + [pff.methods.Transport()]
    texts = [json.dumps(algorithm.to_dict(), sort_keys=True) for algorithm in each]
    assert len(set(texts)) == len(set(each)) == len(each)
    assert json.loads(texts[1])["method"]["kind"] == "FedProx"
    assert json.loads(texts[5])["base"]["mu"] == 0.3


def test_what_another_version_saved_is_refused():
    with pytest.raises(pff.InputError, match="Unknown saved algorithm 'FedSGD'"):
        from_dict({"kind": "FedSGD"})
    with pytest.raises(pff.InputError, match="FedAvg has no setting 'momentum': it was saved by"):
        from_dict({"kind": "FedAvg", "momentum": 0.9})


# --- trade-off curves --------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_levels_walk_from_accurate_to_fair(name):
    method = METHODS[name]
    levels = method.levels([0.0, 0.5, 0.9])
    made = [make(name, level) for level in levels]
    assert len({algorithm.level for algorithm in made}) == len(levels)
    for key in levels[0]:  # limits fall, weights rise
        values = [level[key] for level in levels]
        assert values == sorted(values, reverse=key not in WEIGHTS)


@pytest.mark.parametrize(
    ("algorithm", "level"),
    [
        (pff.methods.Constant(), ""),
        (pff.methods.FedAvg(), "0"),
        (pff.methods.PFedFair(eta=0.9), "0.9"),
        (pff.methods.FA(tau=0.1), "tau 0.1"),
        (pff.methods.FCFL(epsilon=0.02), "epsilon 0.02"),
        (pff.methods.LoGoFair(delta_local=0.03), "delta 0.03"),
        (pff.methods.Transport(), "≤ 0.05"),
        (pff.methods.IRM(lam=1e3), "lam 1000"),
        (pff.methods.Pooled(target_ddp=0.1), "≤ 0.1"),
        (pff.methods.ThresholdLocal(), "≤ 0.05"),
        (pff.methods.FedFACT(), "≤ 0.05"),
        (pff.methods.FedFACTIn(), "≤ 0.05"),
        (pff.methods.Duan(target_ddp=0.0), "≤ 0"),
        (pff.methods.FairDummies(mu=0.8), "mu 0.8"),
        (pff.methods.Reweigh(), ""),
        (pff.methods.DRO(tail=0.3), "tail 0.3"),
        (pff.methods.GaussianSwap(), "share 0.5"),
        (pff.methods.Transport(confidence=0.95, kappa=0.0), "≤ 0.05 own 95%"),
        (targeted(pff.methods.PFedFair(), target_ddp=0.05), "≤ 0.05"),
        (targeted(pff.methods.PFedFair(), target_ddp=0.05, confidence=0.95), "≤ 0.05 95%"),
    ],
)
def test_a_level_is_a_few_characters(algorithm, level):
    assert algorithm.level == level


def test_only_private_counts_need_a_secret():
    secret = [name for name, algorithm in CASES.items() if algorithm.secret]
    assert secret == ["transport, private"]


def test_what_is_for_all_rows_together_is_not_federated_and_takes_no_eta():
    central = [name for name, method in METHODS.items() if method.kind.central]
    assert central == ["irm", "fair-dummies", "reweigh", "dro", "gaussian-swap"]
    for name in central:
        assert not CASES[name].federated
        assert not METHODS[name].fair
        assert not CASES[name].wrappable


def test_what_needs_all_rows_in_one_place_has_no_rounds():
    assert [name for name, method in METHODS.items() if method.kind.gathers] == ["pooled"]
    assert not CASES["pooled"].federated


def test_every_class_is_exported():
    for _, class_name, *_ in REGISTRY:
        assert class_name in pff.__all__


def test_options_of_a_penalty_may_be_a_list():
    listed = pff.methods.FedAvg(eta=0.5, penalty_options=[["bandwidth", 0.2]])
    same = pff.methods.FedAvg(eta=0.5, penalty_options=(("bandwidth", 0.2),))
    assert {listed: "runs of one kind are found by their method"}.keys() == {same}
    assert listed.objective == same.objective
