import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from play import clients, play

import pfedfair as pff
from pfedfair.engines import local
from pfedfair.federation import stack
from pfedfair.methods import Clients
from pfedfair.methods.fedavg import FedAvg
from pfedfair.methods.mmpf import MMPF
from pfedfair.models import MLP, Bias, linear
from pfedfair.penalties.objective import Objective, loss

GROUPS = ["clients", "sensitive", "both"]
FULL = {"batch": 10_000, "optimiser": "sgd"}


def rates(*positive, n=100, sexes=("m", "f")):
    """Clients whose labels are 1 with the given rates; every second one is of the first sex."""
    frames = [
        pd.DataFrame(
            {"x": 0.0, "site": f"site {i}", "sex": np.resize(sexes, n), "hired": 0},
        ).assign(hired=(np.arange(n) < round(p * n)).astype(int))
        for i, p in enumerate(positive)
    ]
    data = pff.from_frame(pd.concat(frames, ignore_index=True), "hired", "sex", drop=["site", "x"])
    return data.federate(pff.partition.by_column("site"))


def test_weights_step_by_hand():
    """Two clients; the worst risk improves, then does not, then improves again."""
    algorithm = MMPF(mu_step=0.5, K_min=2)
    sizes = torch.tensor([10.0, 30.0])
    server = algorithm.start_server({"w": torch.zeros(1)}, sizes)
    share = torch.ones(2, 1)

    def round_(server, risks, models):
        messages = {"v": torch.tensor(models), "risk": torch.tensor(risks), "share": share}
        return algorithm.server_round(server, messages, sizes)

    server = round_(server, [[0.4], [0.8]], [[1.0], [3.0]])
    assert server["v"].item() == pytest.approx(2.0)  # mu was 1/2, 1/2
    assert server["w"].item() == 0.0  # the model that had those risks
    torch.testing.assert_close(server["mu"], torch.tensor([[0.25], [0.75]]))  # K = 1
    assert (server["worst"].item(), server["K"].item()) == (pytest.approx(0.8), 1)

    server = round_(server, [[0.9], [0.7]], [[4.0], [8.0]])
    assert server["v"].item() == pytest.approx(7.0)  # 4 / 4 + 3 * 8 / 4
    assert server["w"].item() == 0.0  # 0.9 is worse than 0.8
    # K = 2: (1/8 + 1/4, 3/8) / (3/4)
    torch.testing.assert_close(server["mu"], torch.tensor([[0.5], [0.5]]))
    assert (server["worst"].item(), server["K"].item()) == (pytest.approx(0.8), 2)

    server = round_(server, [[0.9], [0.85]], [[4.0], [8.0]])  # both are above 0.8; K = 3
    torch.testing.assert_close(server["mu"], torch.tensor([[0.5], [0.5]]))
    server = round_(server, [[0.7], [0.5]], [[4.0], [8.0]])  # better: K is cut to 2
    assert (server["worst"].item(), server["K"].item()) == (pytest.approx(0.7), 2)
    assert server["w"].item() == pytest.approx(6.0)
    torch.testing.assert_close(server["mu"], torch.tensor([[2 / 3], [1 / 3]]))


def test_risks_of_groups_over_clients_by_hand():
    """S over all clients: shares and risks are pooled by rows, a missing group at a client too."""
    algorithm = MMPF(groups="sensitive", mu_step=0.5)
    sizes = torch.tensor([10.0, 30.0])
    server = algorithm.start_server({"w": torch.zeros(1)}, sizes)
    messages = {
        "v": torch.tensor([[1.0], [5.0]]),
        "risk": torch.tensor([[0.2, 0.6], [0.4, 0.0]]),
        "share": torch.tensor([[0.5, 0.5], [1.0, 0.0]]),
    }
    server = algorithm.server_round(server, messages, sizes)
    assert server["v"].item() == pytest.approx(4.0)  # by size: group sizes were not known
    torch.testing.assert_close(server["count"], torch.tensor([[35.0, 5.0]]))
    assert server["worst"].item() == pytest.approx(0.6)  # against (5 * 0.2 + 30 * 0.4) / 35
    torch.testing.assert_close(server["mu"], torch.tensor([[0.25, 0.75]]))
    server = algorithm.server_round(server, messages, sizes)
    # Client 0 has 5/35 of the first group's 1/4 and all of the second's 3/4.
    part = 0.25 / 7 + 0.75
    assert server["v"].item() == pytest.approx(part * 1 + (1 - part) * 5, rel=1e-6)


def test_a_group_that_a_client_does_not_have_gets_no_weight():
    algorithm = MMPF(groups="both")
    messages = {
        "v": torch.zeros(2, 1),
        "risk": torch.tensor([[0.2, 0.6], [0.9, 0.0]]),
        "share": torch.tensor([[0.5, 0.5], [1.0, 0.0]]),
    }
    server = algorithm.server_round(
        algorithm.start_server({"w": torch.zeros(1)}, torch.ones(2)), messages, torch.ones(2)
    )
    expected = torch.tensor([[1 / 8, 1 / 8], [5 / 8, 0.0]])
    torch.testing.assert_close(server["mu"], expected / expected.sum())


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("eta", [0.0, 0.6])
def test_a_round_is_one_gradient_step_on_the_weighted_risks(federation, groups, eta):
    """One minibatch, SGD: v moves by -alpha times autograd's gradient of sum mu_g r_g(v)."""
    network = linear(federation.encoder.width, groups=2)
    algorithm = MMPF(groups=groups, alpha=0.3, eta=eta, **FULL)
    before, after = play(federation, algorithm, network, 3)[-2:]
    whole = stack(federation.table, federation.partition.train)
    sizes = torch.from_numpy(federation.sizes).float()
    objective = Objective(eta)

    def risks(v):
        logits = network.logits(v.repeat(len(federation), 1), whole.x, whole.s)
        one = loss(logits, whole)
        penalty = objective.value(logits, whole) - (1 - eta) * one
        if groups == "clients":
            return ((1 - eta) * one + penalty)[:, None]
        cells, rows = [], []
        for z in (0, 1):
            weight = whole.weight * (whole.s == z)
            cell = loss(logits, whole._replace(weight=weight)) / weight.sum(1)
            cells.append((1 - eta) * cell + penalty)
            rows.append(weight.sum(1) * sizes)
        cell, row = torch.stack(cells, 1), torch.stack(rows, 1)
        return cell if groups == "both" else (cell * row).sum(0, keepdim=True) / row.sum(0)

    assert before["mu"].max() > 1.2 * before["mu"].min()  # the weights have moved
    v = before["v"].clone().requires_grad_()
    torch.testing.assert_close(before["mu"].sum(), torch.tensor(1.0))
    (gradient,) = torch.autograd.grad((before["mu"] * risks(v)).sum(), v)
    torch.testing.assert_close(after["v"], before["v"] - 0.3 * gradient, rtol=1e-4, atol=1e-6)
    best = min(before["worst"].item(), risks(before["v"]).max().item())
    assert after["worst"].item() == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("weighting", ["uniform", "size"])
@pytest.mark.parametrize("eta", [0.0, 0.6])
def test_fixed_client_weights_are_fedavg(federation, weighting, eta):
    network = MLP(federation.encoder.width, (5,), groups=2)
    options = {"batch": 40, "eta": eta, "weighting": weighting}
    fedavg = FedAvg(**options)
    states = play(federation, MMPF(mu_step=0.0, **options), network, 3)
    w, sizes = states[0]["v"], torch.from_numpy(federation.sizes).float()
    for t, state in enumerate(states[1:]):
        sent, _ = fedavg.client_round({"w": w}, {}, clients(federation, network), t)
        w = fedavg.server_round({"w": w}, sent, sizes)["w"]
        torch.testing.assert_close(state["v"], w, rtol=1e-5, atol=1e-6)


def test_the_minimax_model_of_two_clients_is_known():
    """One bias, label rates 0.9 and 0.3: the worst cross-entropy is least at p = 1/2."""
    lone = rates(0.9, 0.3)
    options = {"rounds": 150, "alpha": 0.2, **FULL}
    fair = local.fit(lone, MMPF(**options), Bias(), seed=0)
    baseline = local.fit(lone, FedAvg(**options), Bias(), seed=0)
    assert torch.sigmoid(baseline.w).item() == pytest.approx(0.6, abs=0.01)
    assert torch.sigmoid(fair.w).item() == pytest.approx(0.5, abs=0.02)
    assert torch.equal(fair.theta, fair.w.repeat(2, 1))


@pytest.mark.parametrize("groups", GROUPS)
def test_the_worst_group_is_better_off_than_under_fedavg(groups):
    """The label's dependence on x has opposite signs in the large and in the small group."""
    rng = np.random.default_rng(0)
    n = 600
    s = rng.random(n) < 0.25
    x = rng.normal(size=n)
    y = rng.random(n) < 1 / (1 + np.exp(-np.where(s, -2, 2) * x - 1))
    site = np.where(s ^ (rng.random(n) < 0.1), "small", "large")
    frame = pd.DataFrame(
        {"x": x, "site": site, "sex": np.where(s, "m", "f"), "hired": y.astype(int)}
    )
    data = pff.from_frame(frame, "hired", "sex", drop=["site"])
    federation = data.federate(pff.partition.by_column("site"), sensitive_as_input=False)
    network = linear(federation.encoder.width)
    options = {"rounds": 60, "alpha": 0.5, "weighting": "size", **FULL}
    fair = local.fit(federation, MMPF(groups=groups, **options), network, seed=0)
    baseline = local.fit(federation, FedAvg(**options), network, seed=0)
    judge = MMPF(groups=groups, **options)

    def worst(w):
        start = judge.start_server({"w": w}, torch.from_numpy(federation.sizes).float())
        sent, _ = judge.client_round(start, {}, clients(federation, network), 0)
        sizes = torch.from_numpy(federation.sizes).float()
        return judge.server_round(start, sent, sizes)["worst"].item()

    assert worst(fair.w) < worst(baseline.w) - 0.1


@pytest.mark.parametrize("groups", GROUPS)
def test_weights_stay_on_the_simplex_and_the_best_model_never_gets_worse(federation, groups):
    network = MLP(federation.encoder.width, (5,), groups=2)
    algorithm = MMPF(groups=groups, alpha=0.05, eta=0.5, batch=40)
    states = play(federation, algorithm, network, 25)
    for before, after in itertools.pairwise(states):
        assert after["mu"].min() >= 0
        assert after["mu"].sum().item() == pytest.approx(1, abs=1e-5)
        assert after["worst"] <= before["worst"]
        assert after["K"] >= 1
    all_clients = clients(federation, network)
    sent, _ = algorithm.client_round(states[-1] | {"v": states[-1]["w"]}, {}, all_clients, 99)
    again = algorithm.server_round(
        states[-1], sent, torch.from_numpy(federation.sizes).float()
    )  # the kept model has the kept risk
    assert again["worst"].item() == pytest.approx(states[-1]["worst"].item(), rel=1e-5)


@pytest.mark.parametrize("groups", GROUPS)
def test_chunks_do_not_matter(federation, groups):
    network = MLP(federation.encoder.width, (5,), groups=2)
    algorithm = MMPF(groups=groups, rounds=6, eta=0.4, batch=30, alpha=0.01)
    one = local.fit(federation, algorithm, network, seed=0, at_once=1)
    ten = local.fit(federation, algorithm, network, seed=0, at_once=10)
    torch.testing.assert_close(one.theta, ten.theta, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("groups", GROUPS)
def test_no_aliases_and_nothing_changed_that_was_given(federation, groups):
    network = MLP(federation.encoder.width, (5,), groups=2)
    algorithm, all_clients = MMPF(groups=groups, batch=40), clients(federation, network)
    sizes = torch.from_numpy(federation.sizes).float()
    server = play(federation, algorithm, network, 1)[-1]
    before = {k: v.clone() for k, v in server.items()}
    sent, own = algorithm.client_round(server, {}, all_clients, 1)
    received = {k: v.clone() for k, v in sent.items()}
    new = algorithm.server_round(server, sent, sizes)
    assert own == {}
    assert all(torch.equal(server[k], before[k]) for k in before)
    assert all(torch.equal(sent[k], received[k]) for k in sent)
    given = {v.untyped_storage().data_ptr() for v in (*server.values(), *sent.values())}
    assert not given & {v.untyped_storage().data_ptr() for v in new.values()}


def test_messages_hold_aggregates_only(federation):
    network = linear(federation.encoder.width, groups=2)
    for groups, k in zip(GROUPS, (1, 2, 2), strict=True):
        algorithm = MMPF(groups=groups)
        state = play(federation, algorithm, network, 1)[-1]
        sent, _ = algorithm.client_round(state, {}, clients(federation, network, [2, 0]), 1)
        shapes = {name: tuple(rows.shape) for name, rows in sent.items()}
        assert shapes == {"v": (2, network.size), "risk": (2, k), "share": (2, k)}


def test_a_client_without_one_group_trains():
    lone = rates(0.9, 0.3)
    keep = lone.partition.train[0][lone.table.s[lone.partition.train[0]].numpy() == 0]
    all_clients = Clients(Bias(), lone.table, [keep, lone.partition.train[1]], [0, 1], seed=0)
    algorithm, sizes = MMPF(groups="both", eta=0.5), torch.tensor([float(len(keep)), 100.0])
    server = algorithm.start_server({"w": torch.zeros(1)}, sizes)
    for t in range(5):
        sent, _ = algorithm.client_round(server, {}, all_clients, t)
        server = algorithm.server_round(server, sent, sizes)
    assert all(torch.isfinite(value).all() for value in server.values())
    assert server["mu"][0, 1] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": "everyone"}, "Unknown groups 'everyone'"),
        ({"mu_step": 1.0}, r"mu_step must be in \[0, 1\), got 1"),
        ({"K_min": 0}, "K_min must be at least 1, got 0"),
    ],
)
def test_bad_hyper_parameters_are_refused(options, message):
    with pytest.raises(pff.InputError, match=message):
        MMPF(**options)
