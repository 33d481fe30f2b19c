import dataclasses

import numpy as np
import pytest
import torch
from play import clients, final, small_network

import pfedfair as pff
from pfedfair._util import seeds
from pfedfair.engines import local
from pfedfair.federation import stack
from pfedfair.methods import METHODS
from pfedfair.methods.defaults import make
from pfedfair.models import MLP, linear
from pfedfair.penalties.objective import Objective


def total_gradient(all_clients, algorithm, theta, w):
    """Gradient of L_fair(theta) + gamma/2 ||theta - w||^2 over all of a client's rows."""
    batch = stack(all_clients.table, all_clients.rows)
    grad = all_clients.gradient(algorithm.objective, theta, batch)
    return grad + algorithm.gamma * (theta - w)


@pytest.mark.parametrize("cls", [pff.methods.PFedMe, pff.methods.PFedFair, pff.methods.Ditto])
def test_prox_is_stationary_when_solved_to_convergence(federation, cls):
    """The personal model satisfies grad L(theta) + gamma (theta - w) = 0."""
    network = linear(federation.encoder.width, groups=2)
    algorithm = cls(
        rounds=2, batch=10_000, eta=0.6, gamma=0.5, K=3,
        inner="sgd", alpha_inner=0.5, prox_epochs=400,
    )  # fmt: skip
    fitted = local.fit(federation, algorithm, network, seed=0)
    all_clients = clients(federation, network)
    residual = total_gradient(all_clients, algorithm, fitted.theta, fitted.w)
    start = total_gradient(all_clients, algorithm, all_clients.replicate(fitted.w), fitted.w)
    assert residual.norm(dim=1).max() < 1e-4
    assert start.norm(dim=1).min() > 0.02


def test_both_forms_of_the_envelope_gradient_agree_at_the_exact_argmin(federation):
    network = linear(federation.encoder.width, groups=2)
    algorithm = pff.methods.PFedFair(
        eta=0.6, gamma=0.5, K=400, inner="sgd", alpha_inner=0.5, batch=10_000
    )
    all_clients = clients(federation, network)
    w = all_clients.replicate(network.init(np.random.default_rng(0)))
    batch = stack(all_clients.table, all_clients.rows)
    theta = algorithm.prox(algorithm.objective, w, all_clients, batch)
    point = all_clients.gradient(algorithm.objective, theta, batch)
    torch.testing.assert_close(point, algorithm.gamma * (w - theta), rtol=1e-3, atol=1e-5)


def test_pfedfair_round_is_lines_4_to_8_by_hand(federation):
    """One minibatch, one inner step, SGD: the new w written out with gradients only."""
    network = linear(federation.encoder.width, groups=2)
    lam, alpha, inner, eta = 0.4, 0.2, 0.1, 0.9
    algorithm = pff.methods.PFedFair(
        rounds=1, batch=10_000, lam=lam, gamma=0.7, K=1, eta=eta,
        optimiser="sgd", inner="sgd", alpha=alpha, alpha_inner=inner, prox_epochs=0,
    )  # fmt: skip
    fitted = local.fit(federation, algorithm, network, seed=0)
    w = network.init(seeds.generator(0, seeds.INIT))
    answers = []
    for rows in federation.partition.train:
        x, y, s = (t[rows] for t in federation.table[:3])

        def value(v, x=x, y=y, s=s, eta=0.0):
            logit = torch.cat([x, s[:, None]], dim=1) @ v[:-1] + v[-1]
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logit, y)
            rate = torch.special.ndtr((torch.sigmoid(logit) - 0.5) / 0.1)
            gaps = [rate[s == z].mean() - rate.mean() for z in (0, 1)]
            return (1 - eta) * loss + eta * sum(g**2 for g in gaps) / 2

        g = torch.func.grad(value)(w)
        theta = w - inner * torch.func.grad(value)(
            w, eta=eta
        )  # gamma (theta - w) is 0 at theta = w
        g_fair = torch.func.grad(value)(theta, eta=eta)
        answers.append(w - alpha * (g + lam * g_fair))
    torch.testing.assert_close(fitted.w, torch.stack(answers).mean(0), rtol=1e-4, atol=1e-6)
    assert torch.equal(fitted.theta, fitted.w.repeat(len(federation), 1))  # prox_epochs = 0


@pytest.mark.parametrize("method", METHODS)
def test_personal_weights_are_copies(federation, method):
    algorithm = make(method, {"rounds": 2, "batch": 10_000})
    network = algorithm.network(small_network(federation, algorithm), federation.table.task)
    all_clients = clients(federation, network)
    server, own = final(algorithm, all_clients)
    theta = algorithm.personalise(server, own, all_clients)
    known = (*server.values(), *own.values())
    memory = {tensor.untyped_storage().data_ptr() for tensor in known}
    assert theta.untyped_storage().data_ptr() not in memory
    before = server["w"].clone()
    theta.zero_()
    assert torch.equal(server["w"], before)


@pytest.mark.parametrize("method", ["pfedme", "pfedme-kde", "ditto-kde", "pfedfair"])
def test_personal_models_differ_from_the_global_one_and_from_each_other(federation, method):
    network = MLP(federation.encoder.width, (5,), groups=2)
    fitted = local.fit(federation, make(method, {"rounds": 2, "batch": 30}), network, seed=0)
    for i in range(len(federation)):
        assert not torch.allclose(fitted.theta[i], fitted.w, atol=1e-4)
        for j in range(i):
            assert not torch.allclose(fitted.theta[i], fitted.theta[j], atol=1e-4)


def test_lambda_zero_is_fedavg_with_a_fair_finish(federation):
    network = MLP(federation.encoder.width, (5,), groups=2)
    fair = local.fit(federation, pff.methods.PFedFair(lam=0.0, rounds=2, batch=30), network, seed=0)
    baseline = local.fit(federation, pff.methods.FedAvg(rounds=2, batch=30), network, seed=0)
    assert torch.equal(fair.w, baseline.w)
    assert not torch.allclose(fair.theta, baseline.theta, atol=1e-4)


def test_constant_is_each_clients_more_frequent_label(federation):
    algorithm = pff.methods.Constant()
    run = pff.train(federation, algorithm)
    for i, rows in enumerate(federation.partition.train):
        rate = federation.table.y[rows].mean().item()
        assert torch.sigmoid(run.fitted.theta[i, 0]).item() == pytest.approx(rate, rel=1e-5)
    table = run.table("own")
    assert (table["ddp"] == 0).all()


def test_one_client_is_centralised_training(table):
    """FedAvg of one client and local training do the same steps when a round is one step."""
    frame = table.frame.assign(site="all")
    data = pff.from_frame(frame, "hired", "sex", drop=["site"])
    one = data.federate(pff.partition.by_column("site"))
    options = {"rounds": 5, "batch": 10_000, "optimiser": "sgd", "alpha": 0.3}
    network = MLP(one.encoder.width, (6,), groups=2)
    a = local.fit(one, pff.methods.FedAvg(**options), network, seed=0)
    b = local.fit(one, pff.methods.Local(**options), network, seed=0)
    torch.testing.assert_close(a.theta, b.theta)


def test_a_client_with_one_class_and_one_group_trains(table):
    frame = table.frame
    odd = (frame["site"] == "site 1").to_numpy()
    frame = frame[~odd | ((table.y == 1) & (table.s == 1))]
    data = pff.from_frame(frame, "hired", "sex", drop=["site"], encoding="standard")
    lone = data.federate(pff.partition.by_column("site", min_rows=1))
    with pytest.warns(pff.CollapseWarning, match="client site 1"):
        run = pff.train(lone, pff.methods.FedAvg(rounds=2, batch=10, eta=0.9), network="mlp")
    assert torch.isfinite(run.fitted.theta).all()
    measured = run.table().set_index("client")
    assert np.isnan(measured.loc["site 1", "ddp"])  # no one of the other group to compare with
    assert 0 <= measured.loc["site 1", "accuracy"] <= 1


def test_fair_variants_are_the_same_class_with_another_objective():
    assert METHODS["fedavg"].kind is METHODS["fedavg-kde"].kind
    assert make("fedavg-kde", {"eta": 0.4}).objective == Objective(0.4)
    assert make("fedavg").objective == Objective(0.0)
    assert [METHODS[name].fair for name in ("fedavg", "fedavg-kde")] == [False, True]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make("fedsgd"), "Unknown method 'fedsgd': choose one of constant"),
        (lambda: pff.methods.FedAvg(rounds=0), "rounds must be at least 1, got 0"),
        (lambda: pff.methods.FedAvg(batch=0), "batch must be at least 1"),
        (lambda: pff.methods.FedAvg(alpha=-1), "alpha must be a positive number, got -1"),
        (lambda: pff.methods.FedAvg(optimiser="lion"), "Unknown optimiser 'lion'"),
        (lambda: pff.methods.FedAvg(weighting="loud"), "Unknown weighting 'loud'"),
        (lambda: pff.methods.FedAvg(eta=1.0), r"eta must be in \[0, 1\)"),
        (lambda: pff.methods.PFedMe(gamma=-1), "gamma must be a number >= 0"),
        (lambda: pff.methods.PFedMe(K=0), "K must be at least 1"),
        (
            lambda: pff.methods.PFedMe(inner="lion"),
            "Unknown inner optimiser 'lion': choose one of sgd, adam",
        ),
        (lambda: pff.methods.PFedMe(beta=0), "beta must be a positive number"),
        (lambda: pff.methods.PFedFair(lam=-0.1), "lam must be a number >= 0"),
        (lambda: pff.methods.PFedFair(envelope_gradient="no"), "Unknown envelope_gradient 'no'"),
    ],
)
def test_bad_hyper_parameters_are_refused(call, message):
    with pytest.raises(pff.InputError, match=message):
        call()


def test_algorithms_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        pff.methods.PFedFair().eta = 0.5
