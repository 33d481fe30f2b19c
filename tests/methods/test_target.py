"""A target instead of eta: the multiplier of each client."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from play import clients, start

import pfedfair as pff
from pfedfair.engines import local
from pfedfair.federation import Batch, stack
from pfedfair.methods import METHODS
from pfedfair.methods.defaults import make
from pfedfair.methods.target import targeted
from pfedfair.models import MLP, linear


def held(counts):
    """One client's rows: `counts[z]` is (negative, positive) decisions in group z."""
    logits = [-1.0] * counts[0][0] + [1.0] * counts[0][1] + [-1.0] * counts[1][0]
    logits += [1.0] * counts[1][1]
    s = [0] * sum(counts[0]) + [1] * sum(counts[1])
    n = len(s)
    batch = Batch(
        x=torch.zeros(1, n, 1), y=torch.zeros(1, n), s=torch.tensor([s]),
        weight=torch.full((1, n), 1 / n),
    )  # fmt: skip
    return torch.tensor([logits]).unsqueeze(-1), batch


@pytest.mark.parametrize(
    ("counts", "confidence", "expected"),
    [
        ([(8, 2), (6, 4)], None, 0.2 - 0.05),
        ([(6, 4), (8, 2)], None, 0.2 - 0.05),
        ([(10, 0), (10, 0)], None, -0.05),  # one class for all rows: let it go
        ([(0, 10), (0, 10)], 0.95, -0.05),
        ([(5, 5), (0, 0)], None, 0.0),  # no row to compare with
        (
            [(8, 2), (6, 4)],
            0.975,
            0.2 + 1.95996 * (3 / 12 * 9 / 12 / 10 + 5 / 12 * 7 / 12 / 10) ** 0.5 - 0.05,
        ),
    ],
)
def test_excess_by_hand(counts, confidence, expected):
    algorithm = targeted(make("fedavg-kde"), target_ddp=0.05, confidence=confidence)
    found = algorithm.excess(*held(counts))
    assert found.item() == pytest.approx(expected, abs=1e-5)


def test_gradient_is_the_convex_mix_with_each_clients_own_eta(federation):
    network = linear(federation.encoder.width, groups=2)
    all_clients = clients(federation, network)
    algorithm = targeted(make("fedavg-kde", {"eta": 0.5}))
    (phase,) = algorithm.phases
    own = phase.start_clients({}, {}, all_clients)
    assert torch.equal(own["log_mu"], torch.zeros(len(all_clients), 1))
    etas = torch.linspace(0.1, 0.8, len(all_clients))[:, None]
    targeted_clients = algorithm.watch({"log_mu": torch.logit(etas)}, all_clients)
    targeted_clients.dual.gradients = 1  # no measurement at this one
    w = torch.from_numpy(np.random.default_rng(0).normal(size=(len(all_clients), network.size)))
    batch = stack(all_clients.table, all_clients.rows)
    found = targeted_clients.gradient(algorithm.method.objective, w.float(), batch)
    for i, eta in enumerate(etas[:, 0].tolist()):
        expected = all_clients.gradient(
            make("fedavg-kde", {"eta": eta}).objective, w.float(), batch
        )
        torch.testing.assert_close(found[i], expected[i], rtol=1e-4, atol=1e-6)
    baseline = pff.methods.FedAvg().objective
    torch.testing.assert_close(
        targeted_clients.gradient(baseline, w.float(), batch),
        all_clients.gradient(baseline, w.float(), batch),
    )


def test_the_multiplier_rises_above_the_target_and_falls_below(federation):
    network = linear(federation.encoder.width, groups=2)
    all_clients = clients(federation, network)
    own = {"log_mu": torch.zeros(len(all_clients), 1)}
    unfair = torch.zeros(len(all_clients), network.size)
    unfair[:, -2], unfair[:, -1] = 10.0, -5.0  # decides by S, the last input
    mild = torch.zeros(len(all_clients), network.size)
    mild[:, 0] = 10.0  # by the first input
    for target, model, sign in ((0.0, unfair, 1), (0.95, mild, -1)):
        algorithm = targeted(make("fedavg-kde"), target_ddp=target, confidence=0.0, dual_step=0.5)
        targeted_clients = algorithm.watch(own, all_clients)
        targeted_clients.dual.look(network, model)
        both = torch.tensor([0 < s.float().mean() < 1 for s in targeted_clients.dual.held.s])
        moved = targeted_clients.dual.log_mu[both]
        assert len(moved)
        assert (moved * sign > 0).all()
        assert (moved.abs() <= 0.5).all()
    collapsed = torch.zeros(len(all_clients), network.size)
    collapsed[:, -1] = -9.0
    targeted_clients = targeted(make("fedavg-kde"), target_ddp=0.05).watch(own, all_clients)
    for _ in range(400):
        targeted_clients.dual.look(network, collapsed)
    assert (targeted_clients.dual.log_mu == -3.5).all()


def test_clients_with_too_few_rows_to_set_some_aside():
    frame = pd.DataFrame({"x": np.arange(24.0), "g": list("abcdefghijkl") * 2, "y": [0, 1] * 12})
    frame = pd.concat([frame] * 16, ignore_index=True)
    frame["site"] = [f"site {i // 24}" for i in range(len(frame))]
    data = pff.from_frame(frame, "y", "g")
    federation = data.federate(pff.partition.by_column("site", test=0.0), seed=0)
    algorithm = targeted(make("fedavg-kde"), target_ddp=0.1)
    network = linear(federation.encoder.width, groups=2)
    fitted = local.fit(federation, algorithm, network, seed=0)
    assert torch.isfinite(fitted.theta).all()
    ones = clients(federation, network)
    ones = replace(ones, rows=[rows[:1] for rows in ones.rows])
    with pytest.raises(pff.InputError, match="clients of two rows or more"):
        algorithm.watch({"log_mu": torch.zeros(len(ones), 1)}, ones)


@pytest.mark.parametrize(
    "method", [m.name for m in METHODS.values() if m.fair and m.kind().supports.wrapping]
)
def test_every_penalised_method_takes_a_target(federation, method):
    network = MLP(federation.encoder.width, (5,), groups=2)
    algorithm = targeted(make(method, {"rounds": 2, "batch": 30}), target_ddp=0.05)
    fitted = local.fit(federation, algorithm, network, seed=0)
    assert fitted.theta.isfinite().all()
    one = local.fit(federation, algorithm, network, seed=0, at_once=1)
    torch.testing.assert_close(one.theta, fitted.theta, rtol=1e-3, atol=1e-4)


def test_the_multiplier_stays_at_the_client(federation):
    network = MLP(federation.encoder.width, (5,), groups=2)
    all_clients = clients(federation, network)
    sizes = torch.tensor(federation.sizes).float()
    algorithm = targeted(make("fedavg-kde", {"batch": 10_000}), target_ddp=0.0)
    (phase,) = algorithm.phases
    server = {"w": network.init(np.random.default_rng(0))}
    server, own = start(phase, server, {}, all_clients, sizes)
    sent, kept = phase.client_round(server, own, all_clients, 0)
    assert set(sent) == {"w"}
    assert set(kept) == {"log_mu"}
    assert not torch.equal(kept["log_mu"], own["log_mu"])


def test_a_stricter_target_gives_a_fairer_model(compas):
    """On the rows that it watches; loose, strict and no target at all."""
    gaps = []
    for target in (1.0, 0.15, 0.02):
        method = make("kde-local", {"eta": 0.5, "rounds": 40, "alpha": 0.002})
        run = pff.train(compas, targeted(method, target_ddp=target, confidence=0.0), seed=0)
        gaps.append(run.table()["ddp"].mean())
    assert gaps[0] > gaps[1] > gaps[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_ddp": 1.5}, "target_ddp must be in"),
        ({"target_ddp": float("nan")}, "target_ddp must be in"),
        ({"confidence": 0.2}, "confidence must be in"),
        ({"held": 1.0}, "held must be above"),
        ({"dual_step": 0.0}, "dual_step must be a positive"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(pff.InputError, match=message):
        targeted(make("pfedfair"), **options)


def test_a_method_without_penalty_has_no_target():
    with pytest.raises(pff.InputError, match="needs a method with a fairness penalty"):
        targeted(make("fedavg"))


def test_minibatches_are_the_methods(federation):
    """Clients are put in one stack by them, also where no row copied them."""
    direct = pff.methods.Targeted(method=pff.methods.FedAvg(eta=0.5, batch=30, rounds=2), rounds=2)
    assert direct.batch == 30
    network = linear(federation.encoder.width, groups=2)
    found = local.fit(federation, direct, network, seed=0)
    expected = local.fit(federation, targeted(direct.method), network, seed=0)
    assert torch.equal(found.w, expected.w)


def test_clients_of_unequal_numbers_of_steps_are_not_put_side_by_side(federation):
    """Their rows would be mixed up."""
    all_clients = clients(federation, linear(federation.encoder.width, groups=2))
    with pytest.raises(AssertionError, match="unequal numbers of steps"):
        next(all_clients.epoch(0, batch=20))
