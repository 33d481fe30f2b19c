"""What methods declare is what they do: states of all phases and their marks, sums, supports."""

import itertools
import json
from typing import NotRequired, get_origin, get_type_hints

import pytest
import torch
from play import clients, rounds, small_network

import pfedfair as pff
from pfedfair.methods import METHODS, REGISTRY, from_dict
from pfedfair.methods.defaults import make
from pfedfair.methods.phases import (
    Model,
    adds_noise,
    keeps_clients,
    marked,
    sends_models_only,
)
from pfedfair.methods.target import targeted

WEIGHTS = ("eta", "lam", "mu", "share")  # the more, the fairer
SHORT = {"rounds": 3, "batch": 40}  # one minibatch for each client
LATER = {  # settings of phases after training
    "transport": {"agree": 2, "bins": 20},
    "logofair": {"dual_rounds": 2},
}
CASES = {name: make(name, SHORT | LATER.get(name, {})) for name in METHODS}
CASES["newton"] = pff.methods.Newton(rounds=8, intercepts="personal")  # all that it ever sends
CASES |= {
    f"mmpf {groups}": pff.methods.MMPF(**SHORT, groups=groups) for groups in ("sensitive", "both")
}
CASES |= {f"{name}, target": targeted(CASES[name], target_ddp=0.1)
          for name in ("fedavg-kde", "ditto-kde", "fairfed", "kde-local")}  # fmt: skip
ON_BASE = {"rounds": 3, **LATER["transport"]}
CASES |= {f"transport on {base}": make("transport", ON_BASE | {"base": base})
          for base in ("fedprox", "mmpf", "fedavg-kde", "ditto", "newton")}  # fmt: skip
CASES |= {f"{name} on {base}": make(name, {"rounds": 3, "base": base, "base.batch": 40})
          for name in ("threshold-local", "fedfact", "duan")
          for base in ("mmpf", "ditto")}  # fmt: skip
CASES["transport, private"] = make("transport", SHORT | LATER["transport"] | {"epsilon": 1.0})
FEDERATED = [name for name, algorithm in CASES.items() if algorithm.place == "federated"]
HGR = {"penalty": "hgr", "penalty_options": (("points", 9), ("bandwidth", 1.0))}
OTHER_SETTINGS = {
    "infinite": pff.methods.Transport(kappa=float("inf"), confidence=0.9, criterion="eo"),
    "options": pff.methods.FedAvg(eta=0.4, **HGR),
}


def names(keys):
    """Names that must be in a state, and those that may be."""
    hints = get_type_hints(keys, include_extras=True)
    optional = {name for name, hint in hints.items() if get_origin(hint) is NotRequired}
    return set(hints) - optional, set(hints)


@pytest.fixture(scope="module")
def play_once(federation):
    done = {}

    def get(name):
        if name not in done:
            algorithm = CASES[name]
            network = algorithm.network(small_network(federation, algorithm), federation.table.task)
            all_clients = clients(federation, network)
            done[name] = all_clients, [*rounds(algorithm, all_clients)]
        return done[name]

    return get


def memory(*states):
    """The storages of all tensors of some states."""
    return {tensor.untyped_storage().data_ptr() for state in states for tensor in state.values()}


@pytest.mark.parametrize("name", FEDERATED)
def test_all_phases_are_played(play_once, name):
    _, played = play_once(name)
    for phase, some in itertools.groupby(played, lambda one: one.phase):
        assert [one.t for one in some] == list(range(phase.rounds))
    assert len({one.phase.name for one in played}) == len(CASES[name].phases)
    assert played[0].phase.rounds == CASES[name].rounds  # of training


@pytest.mark.parametrize("name", CASES)
def test_states_have_the_keys_that_are_declared(play_once, name):
    _, played = play_once(name)
    used: dict = {}
    for one in played:
        states = one.phase.states
        sides = {
            states.server: (one.server, one.after), states.message: (one.sent,),
            states.own: (one.own, one.kept),
        }  # fmt: skip
        for keys, found in sides.items():
            must, may = names(keys)
            if keys is states.own and one.t == 0:  # a client may keep nothing before
                assert set(one.own) <= may, one.phase.name
                found = (one.kept,)
            for state in found:
                assert must <= set(state) <= may, (one.phase.name, keys)
                used.setdefault((one.phase.name, keys), set()).update(state)
    for (_, keys), found in used.items():  # nothing is declared in vain
        unused = names(keys)[1] - found  # of more groups; where S is unknown; with noise
        assert unused <= {"count", "guess", "sent_held", "sent_trained", *_of_newton(name)}


def _of_newton(name):
    """What Newton's method only has with more rounds, or with personal intercepts."""
    return {"tau", "evidence", "starts", "left_gradient"} if "newton" in name else ()


@pytest.mark.parametrize("name", FEDERATED)
def test_a_round_changes_nothing_that_it_was_given(federation, name):
    algorithm = CASES[name]
    network = algorithm.network(small_network(federation, algorithm), federation.table.task)
    for one in rounds(algorithm, clients(federation, network)):
        before = {key: tensor.clone() for key, tensor in (one.server | one.own).items()}
        all_clients = clients(federation, network)
        sent, kept = one.phase.client_round(one.server, one.own, all_clients, one.t)
        sizes = torch.tensor([float(len(rows)) for rows in all_clients.rows])
        received = {key: tensor.clone() for key, tensor in sent.items()}
        after = one.phase.server_round(one.server, sent, sizes)
        for key, tensor in (one.server | one.own).items():
            assert torch.equal(tensor, before[key]), (one.phase.name, key)
        for key, tensor in sent.items():
            assert torch.equal(tensor, received[key]), (one.phase.name, key)
        shared = [memory(one.server, one.own), memory(sent), memory(kept), memory(after)]
        for one_side, other in itertools.combinations(shared, 2):
            assert not one_side & other, one.phase.name


@pytest.mark.parametrize("name", FEDERATED)
def test_a_phase_begins_with_memory_of_its_own(play_once, name):
    all_clients, played = play_once(name)
    sizes = torch.tensor([float(len(rows)) for rows in all_clients.rows])
    server, own = {"w": torch.zeros(all_clients.network.size)}, {}
    for phase, some in itertools.groupby(played, lambda one: one.phase):
        begun = phase.start_server(server, sizes)
        kept = phase.start_clients(begun, own, all_clients)
        assert not memory(server, own) & memory(begun, kept), phase.name
        *_, last = some
        server, own = last.after, last.kept


@pytest.mark.parametrize("name", FEDERATED)
def test_models_are_what_has_a_models_shape(play_once, name):
    all_clients, played = play_once(name)
    for one in played:
        shaped = {key for state in (one.server, one.after) for key, tensor in state.items()
                  if tensor.shape == (all_clients.network.size,)}  # fmt: skip
        assert set(one.phase.states.models) == shaped
        assert "w" in shaped
        states = one.phase.states
        assert set(marked(states.message, Model)) == set(states.sent_models), (
            "a model in a message has the name of the server's, and is where steps from that ended;"
            " send a change of a model as Averaged"
        )


@pytest.mark.parametrize("name", FEDERATED)
def test_a_server_keeps_something_of_each_client_or_not(play_once, name):
    _, played = play_once(name)
    found = False
    for phase, some in itertools.groupby(played, lambda one: one.phase):
        before = next(some).server
        given = {key: before[key] for key in before} | {"w": before["w"]}
        try:
            sides = [phase.start_server(given, torch.ones(n)) for n in (3, 5)]
        except KeyError:
            continue
        found |= any(sides[0][key].shape != sides[1][key].shape for key in sides[0])
    assert keeps_clients(CASES[name].phases) == found


@pytest.mark.parametrize("name", FEDERATED)
def test_messages_are_models_only_or_not(play_once, name):
    all_clients, played = play_once(name)
    models = all(
        key in one.phase.states.models and tensor.shape == (3, all_clients.network.size)
        for one in played
        for key, tensor in one.sent.items()
    )
    declared = sends_models_only(CASES[name].phases)
    sent = sorted({key for one in played for key in one.sent})
    assert declared == models, f"it declares that it sends models only, or not; it sent {sent}"


def added(phase, messages, sizes):
    """What one client would send for all, by the sums that a phase declares, or by equal means."""
    found = {}
    for key, rows in messages.items():
        how = phase.sums.get(key, "uniform")
        weights = sizes.double() if how == "size" else torch.ones(len(sizes)).double()
        total = torch.tensordot(weights, rows.double(), dims=1)
        found[key] = (total if how == "sum" else total / weights.sum()).to(rows.dtype)[None]
    return found


@pytest.mark.parametrize("name", FEDERATED)
def test_sums_are_all_that_a_server_needs_where_they_are_declared(play_once, federation, name):
    sizes = torch.from_numpy(federation.sizes).float()
    _, played = play_once(name)
    for phase, some in itertools.groupby(played, lambda one: one.phase):
        if phase.states.keeps_clients:  # it has something of each
            assert not phase.sums
            continue
        same = True
        for one in some:
            message = added(phase, one.sent, sizes)
            found = phase.server_round(one.server, message, sizes.sum()[None])
            same &= set(found) == set(one.after) and all(
                found[key].shape == one.after[key].shape
                and torch.allclose(
                    found[key].double(), one.after[key].double(), rtol=1e-4, atol=1e-5
                )
                for key in one.after
            )
        assert bool(phase.sums) == same, phase.name


@pytest.mark.parametrize("name", FEDERATED)
def test_what_honest_clients_send_is_possible(play_once, federation, name):
    """Each one's message, and the sums; not with a tenth of the rows, if rows are counted."""
    sizes = torch.from_numpy(federation.sizes)
    _, played = play_once(name)
    for one in played:
        for i, n in enumerate(sizes.tolist()):
            message = {key: rows[i] for key, rows in one.sent.items()}
            assert one.phase.impossible(message, one.server, [n]) == ""
            if set(one.phase.states.grow_with_rows) & {"rows", "group", "held"} and not (
                one.phase.noise
            ):
                assert "count" in one.phase.impossible(message, one.server, [n // 10])
        if one.phase.sums:
            total = {
                key: rows[0] for key, rows in added(one.phase, one.sent, sizes.float()).items()
            }
            assert one.phase.impossible(total, one.server, sizes.tolist()) == ""


@pytest.mark.parametrize("name", FEDERATED)
def test_rules_follow_from_a_state_that_is_to_decide(play_once, name):
    all_clients, played = play_once(name)
    for one in played:
        if one.phase.decides:
            assert len(CASES[name].rules(one.after, one.kept, all_clients)) == len(all_clients)
    last = played[-1].phase if played else None
    assert last is None or last.trains or last.decides


def test_newton_with_equal_weights_needs_each_clients_sums():
    assert pff.methods.Newton().sums["hessian"] == "sum"
    assert not pff.methods.Newton(weighting="uniform").sums
    assert pff.methods.FedAvg(weighting="size").sums == {"w": "size"}


@pytest.mark.parametrize("name", FEDERATED)
def test_a_phase_trains_or_leaves_the_model_only(play_once, name):
    _, played = play_once(name)
    for phase, some in itertools.groupby(played, lambda one: one.phase):
        some = list(some)
        trained = phase.states.models[-1]  # the one in training
        moved = not torch.equal(some[0].server[trained], some[-1].after[trained])
        assert moved == phase.trains, phase.name


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
        (pff.methods.Transport(confidence=0.0), "≤ 0.05"),
        (pff.methods.Transport(jointly=True), "≤ 0.05 95% jointly"),
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
        (pff.methods.Transport(kappa=0.0), "≤ 0.05 own 95%"),
        (targeted(pff.methods.PFedFair(), target_ddp=0.05, confidence=0.0), "≤ 0.05"),
        (targeted(pff.methods.PFedFair(), target_ddp=0.05), "≤ 0.05 95%"),
    ],
)
def test_a_level_is_a_few_characters(algorithm, level):
    assert algorithm.level == level


def test_only_private_counts_are_noised():
    noised = [name for name, algorithm in CASES.items() if adds_noise(algorithm.phases)]
    assert noised == ["transport, private"]


def test_centralised_methods_take_no_eta_and_no_target():
    central = [name for name in METHODS if CASES[name].place == "centralised"]
    assert central == ["irm", "fair-dummies", "reweigh", "dro", "gaussian-swap"]
    for name in central:
        assert not METHODS[name].fair
        assert not CASES[name].supports.wrapping


def test_only_pooled_requires_all_rows_in_one_place():
    assert [name for name in METHODS if CASES[name].place == "pooled"] == ["pooled"]


def test_every_class_is_an_attribute():
    for _, class_name, *_ in REGISTRY:
        assert getattr(pff.methods, class_name).__name__ == class_name
        assert class_name in dir(pff.methods)


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_declared_is_refused(name):
    """A target takes effect, or is refused: never in silence without effect."""
    algorithm = CASES[name]
    if not algorithm.supports.wrapping and not isinstance(algorithm, pff.methods.Targeted):
        with pytest.raises(pff.InputError, match="it takes no target"):
            pff.methods.Targeted(method=algorithm)


def test_options_of_a_penalty_may_be_a_list():
    listed = pff.methods.FedAvg(eta=0.5, penalty_options=[["bandwidth", 0.2]])
    same = pff.methods.FedAvg(eta=0.5, penalty_options=(("bandwidth", 0.2),))
    assert {listed: "runs of one kind are found by their method"}.keys() == {same}
    assert listed.objective == same.objective
