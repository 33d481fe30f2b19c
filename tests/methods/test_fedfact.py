"""FedFACT in both forms: limits that are kept, the linear program's optimum, costs by autograd."""

import numpy as np
import pytest
import torch
from play import clients, play
from scipy.optimize import linprog

import pfedfair as pff
from pfedfair.federation import Batch
from pfedfair.methods.clients import hold_out
from pfedfair.methods.fedfact_in import with_costs
from pfedfair.models import linear
from pfedfair.penalties.objective import loss
from pfedfair.runs.predictor import count

OPTIONS = {"rounds": 5, "batch": 120, "alpha": 0.02}


def trained(federation, algorithm):
    return pff.train(federation, algorithm, network=linear(federation.table.width, groups=2))


@pytest.fixture(scope="module")
def compas():
    return pff.load("compas").federate(pff.partition.fixed_shares(), 0)


def on_held_rows(run):
    """Of all held-out rows: eta, chance of a positive decision, group and client."""
    table = run.federation.table
    _, held = hold_out(clients(run.federation, run.network), 0.2)
    found = []
    for i, (rows, predictor) in enumerate(zip(held.rows, run.predictors, strict=True)):
        s = table.s[rows]
        logits = predictor.logits(table.inputs(rows), s)
        chance = predictor.rule.chances(logits, s)[:, 1]
        eta = torch.sigmoid(logits[:, 0].double())
        found.append([each.double().numpy() for each in (eta, chance, s, 0 * eta + i)])
    return [np.concatenate(each) for each in zip(*found, strict=True)]


def gap(chance, s):
    return chance[s == 1].mean() - chance[s == 0].mean()


@pytest.mark.parametrize(("local", "whole"), [(0.05, None), (0.1, 0.01), (0.0, 1.0)])
@pytest.mark.parametrize("tau", [0.02, 0.1])
def test_both_limits_are_kept_on_the_held_rows(compas, local, whole, tau):
    algorithm = pff.methods.FedFACT(**OPTIONS, target_ddp=local, target_global=whole, tau=tau)
    run = trained(compas, algorithm)
    eta, chance, s, client = on_held_rows(run)
    assert abs(gap((eta > 0.5).astype(float), s)) > 0.1  # something to do
    for i in range(len(compas)):
        assert abs(gap(chance[client == i], s[client == i])) <= local + 0.01  # rules are in cells
    assert abs(gap(chance, s)) <= (local if whole is None else whole) + 0.01


def test_a_small_temperature_reaches_the_optimum_of_the_linear_program(compas):
    algorithm = pff.methods.FedFACT(**OPTIONS, target_ddp=0.05, target_global=0.01, tau=0.002)
    eta, chance, s, client = on_held_rows(trained(compas, algorithm))
    rows = []
    for member in [client == i for i in range(len(compas))] + [client >= 0]:
        one, zero = member & (s == 1), member & (s == 0)
        rows.append(one / one.sum() - zero / zero.sum())
    limits = [0.05] * len(compas) + [0.01]
    best = linprog(-(2 * eta - 1), A_ub=np.concatenate([rows, -np.array(rows)]), b_ub=limits * 2,
                   bounds=(0, 1))  # fmt: skip
    assert ((2 * eta - 1) * chance).sum() == pytest.approx(-best.fun, abs=0.5)
    assert -best.fun < ((2 * eta - 1) * (eta > 0.5)).sum() - 1.0  # the limits cost something


def test_the_higher_the_temperature_the_more_is_left_to_lots(compas):
    draws = []
    for tau in (0.005, 0.05, 0.2):
        run = pff.train(
            compas,
            pff.methods.FedFACT(**OPTIONS, tau=tau),
            network=linear(compas.table.width, groups=2),
        )
        _, chance, _, _ = on_held_rows(run)
        draws.append((chance * (1 - chance)).mean())
    assert draws == sorted(draws)
    with pytest.raises(pff.InputError, match="tau must be a positive number"):
        pff.methods.FedFACT(tau=0.0)


# --- in training -------------------------------------------------------------------------------


def test_costs_are_a_softened_label():
    """The loss of the docstring, written out."""
    torch.manual_seed(0)
    n, lift = 40, torch.tensor([[0.3, -0.7], [-0.2, 0.0]], dtype=torch.float64)
    y, s = torch.randint(2, (2, n)).double(), torch.randint(2, (2, n))
    batch = Batch(torch.zeros(2, n, 1), y, s, torch.full((2, n), 1 / n, dtype=torch.float64))
    z = torch.randn(2, n, 1, dtype=torch.float64)
    one = torch.sigmoid(z[..., 0])
    cost = lift.gather(1, s)
    b = torch.stack([(-cost).clamp(min=0), cost.clamp(min=0)])  # the smaller one is 0
    written = -((1 - y + b[0]) * (1 - one).log() + (y + b[1]) * one.log()).mean(1)
    torch.testing.assert_close(loss(z, with_costs(batch, lift)), written)
    assert torch.equal(with_costs(batch, 0 * lift).y, y)


def test_the_best_score_by_costs_is_the_larger_calibrated_chance():
    """Rows of one kind, P(Y=1) = 0.4: from which lift on does the minimum say 1?"""
    y = (torch.arange(10) < 4).double()[None]
    batch = Batch(y[..., None], y, torch.ones(1, 10).long(), torch.full((1, 10), 0.1).double())
    for lift in (0.0, 0.19, 0.21, -0.5):
        made = with_costs(batch, torch.tensor([[0.0, lift]], dtype=torch.float64))
        best = (made.weight * made.y).sum() / made.weight.sum()  # of cross-entropy: the mean
        assert (best > 0.5) == (2 * 0.4 - 1 + lift > 0)


def test_multipliers_take_steps_of_the_dual(federation):
    algorithm = pff.methods.FedFACTIn(
        rounds=2, batch=10_000, target_ddp=0.03, target_global=0.01, dual_step=0.5, alpha=0.1
    )
    network = linear(federation.encoder.width, groups=2)
    all_clients = clients(federation, network)
    server = algorithm.start_server({"w": network.init(np.random.default_rng(0))}, torch.ones(3))
    own = algorithm.start_clients(server, {}, all_clients)
    sent, kept = algorithm.client_round(server, own, all_clients, 0)
    rate = sent["positive"] / sent["group"]
    gaps = (rate[:, 1] - rate[:, 0]).numpy()
    expected = -np.sign(gaps) * 0.5 * np.maximum(np.abs(gaps) - 0.03, 0)
    np.testing.assert_allclose(kept["mu"], expected)
    assert np.abs(gaps).max() > 0.05
    after = algorithm.server_round(server, sent, torch.ones(3))
    whole = sent["positive"].sum(0) / sent["group"].sum(0)
    excess = max(abs(float(whole[1] - whole[0])) - 0.01, 0)
    assert abs(float(after["lam"])) == pytest.approx(0.5 * excess)


def test_without_limits_it_is_fedavg_with_a_last_epoch(federation):
    network = linear(federation.encoder.width, groups=2)
    free = pff.methods.FedFACTIn(rounds=3, batch=40, target_ddp=1.0)
    w = play(federation, pff.methods.FedAvg(rounds=3, batch=40), network, 3)[-1]["w"]
    all_clients = clients(federation, network)
    server = free.start_server({"w": network.init(np.random.default_rng(0))}, torch.ones(3))
    own = free.start_clients(server, {}, all_clients)
    for t in range(3):
        sent, own = free.client_round(server, own, all_clients, t)
        server = free.server_round(server, sent, torch.ones(3))
    assert (own["mu"] == 0).all()
    torch.testing.assert_close(server["w"], w)
    assert not torch.allclose(free.personalise(server, own, all_clients)[0], w, atol=1e-5)


def test_training_brings_the_gaps_down(compas):
    gaps = {}
    for target in (1.0, 0.02):
        algorithm = pff.methods.FedFACTIn(rounds=40, batch=120, alpha=0.02, target_ddp=target)
        run = trained(compas, algorithm)
        counts = count(run.predictors, compas.table, compas.partition.train)
        gaps[target] = pff.metrics.measure(counts)["ddp"].mean()
    assert gaps[1.0] > 0.15
    assert gaps[0.02] < 0.06


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eta": 0.5}, "leave out eta"),
        ({"dual_step": 0.0}, "dual_step must be a positive number"),
        ({"target_ddp": 1.5}, r"target_ddp must be in \[0, 1\]"),
        ({"target_global": -1.0}, r"target_global must be in \[0, 1\]"),
    ],
)
def test_bad_hyper_parameters_are_refused(options, message):
    with pytest.raises(pff.InputError, match=message):
        pff.methods.FedFACTIn(**options)


def test_costs_need_s(federation):
    blind = federation.data.federate(pff.partition.by_column("site"), 0, sensitive_as_input=False)
    with pytest.raises(pff.InputError, match="FedFACTIn has a rule for each group"):
        pff.train(blind, pff.methods.FedFACTIn())
