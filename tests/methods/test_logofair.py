from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch
from play import clients, decided, numbers, rounds
from scipy.optimize import linprog

import pfedfair as pff
from pfedfair.engines import local
from pfedfair.methods import Clients
from pfedfair.methods.logofair import LoGoFair, narrow, score_margins, solve
from pfedfair.metrics import measure
from pfedfair.models import MLP, linear
from pfedfair.theory import rule

OPTIONS = {"epochs": 2, "batch": 30, "alpha": 0.02}
LOOSE = {"delta_local": 1.0, "delta_global": 1.0}


def offsets(fitted):
    """What is added to the logits of each client's groups: minus the thresholds."""
    low, high, chance, below = numbers(fitted.rules).double().numpy().transpose(2, 0, 1)
    assert (low == high).all()
    assert (chance == 0).all()
    assert (below == 0).all()
    return 0.0 - low


@cache
def fit(federation, seed=0, at_once=10, **options):
    algorithm = LoGoFair(**{"rounds": 6, **OPTIONS, **options})
    network = algorithm.network(
        MLP(federation.encoder.width, (5,), groups=2), federation.table.task
    )
    return network, local.fit(federation, algorithm, network, seed, at_once=at_once)


def measured(federation, network, fitted):
    counts = decided(federation, network, fitted)
    return counts, measure(counts), measure(counts.sum(0))


def eta_of(federation, network, w, client):
    """The base model's P(Y=1) and S on a client's own training rows."""
    rows = federation.partition.train[client]
    x, s = federation.table.x[rows], federation.table.s[rows]
    logits = network.logits(w[None], x[None], s[None])[0, :, 0]
    return torch.sigmoid(logits.double()).numpy(), s.numpy()


def test_loose_tolerances_leave_fedavg_as_it_is(federation):
    network, fitted = fit(federation, **LOOSE)
    baseline = local.fit(federation, pff.methods.FedAvg(rounds=6, **OPTIONS), network, seed=0)
    assert torch.equal(numbers(fitted.rules), torch.zeros(3, 2, 4))
    torch.testing.assert_close(fitted.theta, baseline.theta, rtol=0, atol=1e-6)
    ours, reference = (decided(federation, network, each) for each in (fitted, baseline))
    assert (ours == reference).all()


@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_every_client_is_within_its_local_tolerance(federation, delta):
    network, loose = fit(federation, **LOOSE)
    _, fitted = fit(federation, delta_local=delta, delta_global=1.0)
    assert (measured(federation, network, loose)[1]["ddp"] > 0.1).all()  # something to do
    counts, local, _ = measured(federation, network, fitted)
    one_person = 1 / counts.sum((2, 3)).min(1)
    assert (local["ddp"] <= delta + (one_person if delta == 0 else 1e-9)).all()


@pytest.mark.parametrize("delta", [0.0, 0.02, 0.1])
def test_local_thresholds_are_those_of_the_exact_rule(compas, delta):
    """Proposition 2's solver, on the client's own scores, finds the same thresholds."""
    network, fitted = fit(compas, batch=600, delta_local=delta, delta_global=1.0)
    for i in range(len(compas)):
        eta, s = eta_of(compas, network, fitted.w, i)
        tilt = rule.aware_tilt(s, s.mean())
        best = rule.fair_rule(eta, tilt, np.full(len(s), 1 / len(s)), delta)
        for a in (0, 1):
            threshold = 0.5 + best.t * (2 * a - 1) / (2 * (s.mean() if a else 1 - s.mean()))
            ours = 1 / (1 + np.exp(offsets(fitted)[i, a]))
            assert ours == pytest.approx(threshold, abs=0.01)
        positive = best.positive(eta, tilt)
        offset = offsets(fitted)[i, s]
        hard = np.log(eta / (1 - eta)) + offset > 0
        assert (hard != (positive > 0.5)).mean() < 0.02  # but for rows at the threshold


def test_global_tolerance_only_is_the_exact_rule_of_the_federation_as_one_client(compas):
    """All rows has the same offsets then."""
    network, fitted = fit(
        compas, batch=600, delta_local=1.0, delta_global=0.03, rounds=6, dual_rounds=2
    )
    assert measured(compas, network, fitted)[2]["ddp"] <= 0.03 + 0.005
    assert (offsets(fitted) == offsets(fitted)[0]).all()
    parts = [eta_of(compas, network, fitted.w, i) for i in range(len(compas))]
    eta, s = map(np.concatenate, zip(*parts, strict=True))
    tilt = rule.aware_tilt(s, s.mean())
    best = rule.fair_rule(eta, tilt, np.full(len(s), 1 / len(s)), 0.03)
    assert abs(best.t) > 0.01
    for a, share in ((0, 1 - s.mean()), (1, s.mean())):
        ours = 1 / (1 + np.exp(offsets(fitted)[0, a]))
        assert ours == pytest.approx(0.5 + best.t * (2 * a - 1) / (2 * share), abs=0.003)


@pytest.mark.parametrize(("local", "whole"), [(0.02, 0.02), (0.1, 0.0), (0.05, 0.05)])
def test_both_limits_reach_the_optimum_of_the_linear_program(federation, local, whole):
    """Among all randomised decisions on the same scores, by linear programming."""
    network, fitted = fit(federation, delta_local=local, delta_global=whole, dual_rounds=1)
    _, by_client, pooled = measured(federation, network, fitted)
    parts = [eta_of(federation, network, fitted.w, i) for i in range(3)]
    eta, s = map(np.concatenate, zip(*parts, strict=True))
    client = np.repeat(range(3), [len(p[0]) for p in parts])
    gaps = []
    for member, limit in [(client == c, local) for c in range(3)] + [(client >= 0, whole)]:
        row = [member & (s == a) for a in (0, 1)]
        gaps.append((row[1] / row[1].sum() - row[0] / row[0].sum(), limit))
    best = linprog(
        -(2 * eta - 1),
        A_ub=np.concatenate([[g for g, _ in gaps], [-g for g, _ in gaps]]),
        b_ub=[limit for _, limit in gaps] * 2,
        bounds=(0, 1),
    )
    offset = offsets(fitted)[client, s]
    h = np.log(eta / (1 - eta)) + offset > 0
    # Thresholds cannot split a row: each limit may be off by one, of a margin below 0.2.
    assert ((2 * eta - 1) * h).sum() == pytest.approx(-best.fun, abs=0.6)
    assert -best.fun < ((2 * eta - 1) * (eta > 0.5)).sum() - 0.5  # the limits cost something
    assert (by_client["ddp"] <= local + 1e-9).all()
    assert pooled["ddp"] <= whole + 0.03


def test_more_rounds_narrow_the_grid():
    """gap(lambda) = tanh(lambda - 0.3): the derivative meets delta = 0.1 at 0.3 - atanh(0.1)."""
    grid = 8 * torch.linspace(-1, 1, 129, dtype=torch.float64) ** 3
    for tolerance in (1e-3, 1e-5, 1e-8):
        grid, lam = narrow(grid, torch.tanh(grid - 0.3), 0.1)
        assert lam.item() == pytest.approx(0.3 - np.arctanh(0.1), abs=tolerance)
        assert grid[0] <= lam <= grid[-1]
    _, none = narrow(torch.linspace(-1, 1, 9), torch.linspace(-0.5, 0.5, 9) + 0.05, 0.1)
    assert none == 0  # within the tolerance without a pull


def test_extreme_scores_do_not_overflow(federation):
    """Logits up to 1e6: sigmoids are exactly 0 and 1, soft-plus in float32 would be inf."""
    algorithm = LoGoFair(rounds=2, delta_local=0.0, delta_global=0.0, batch=10_000)
    network = algorithm.network(linear(federation.encoder.width, groups=2), federation.table.task)
    all_clients = clients(federation, network)
    w = network.init(np.random.default_rng(0)) * 1e6
    _, _, search = algorithm.phases
    sizes = torch.ones(3)
    server = search.start_server({"w": w}, sizes)
    server["group"] = torch.tensor([100.0, 100.0], dtype=torch.float64)
    sent, own = search.client_round(server, {}, all_clients, t=0)
    after = search.server_round(server, sent, sizes)
    rules = algorithm.rules(after, own, all_clients)
    for tensor in (*sent.values(), *after.values(), numbers(rules)):
        assert torch.isfinite(tensor).all()
    x, s = federation.table.x, federation.table.s
    chances = rules[0].chances(network.logits(w[None], x[None], s[None])[0], s)
    assert ((chances == 0) | (chances == 1)).all()


def test_chunks_do_not_matter(federation):
    """But for one row: rounding may decide who stands just beyond a threshold."""
    network, one = fit(federation, at_once=1)
    _, ten = fit(federation, at_once=10)
    torch.testing.assert_close(one.w, ten.w, rtol=1e-4, atol=1e-5)
    counts, others = (measured(federation, network, f)[0] for f in (one, ten))
    assert np.abs(counts.sum(2) - others.sum(2)).max() <= 1

    algorithm, all_clients = LoGoFair(delta_global=1.0), clients(federation, network)
    _, _, search = algorithm.phases
    group = torch.ones(2, dtype=torch.float64)
    # the same model: the same answers
    server = search.start_server({"w": ten.w, "group": group}, torch.ones(3))
    sent, _ = search.client_round(server, {}, all_clients, t=0)
    rules = algorithm.rules(server, {}, all_clients)
    for i in range(3):
        single = Clients(network, federation.table, [all_clients.rows[i]], [i], 0)
        answer, _ = search.client_round(server, {}, single, t=0)
        torch.testing.assert_close(answer["positive"][0], sent["positive"][i], rtol=0, atol=0.01)
        (rule,) = algorithm.rules(server, {}, single)
        torch.testing.assert_close(rule.numbers, rules[i].numbers, rtol=0, atol=1e-5)


def test_a_client_without_a_group_follows_the_federation(table):
    frame = table.frame
    keep = (frame["site"] != "site 1").to_numpy() | (table.s == 1)
    data = pff.from_frame(frame[keep], "hired", "sex", drop=["site"])
    lone = data.federate(pff.partition.by_column("site", min_rows=1))
    _, fitted = fit(lone, delta_local=0.0, delta_global=1.0)
    assert torch.isfinite(numbers(fitted.rules)).all()
    assert (offsets(fitted)[1] == 0).all()  # nothing to compare there
    assert np.abs(offsets(fitted)[0]).min() > 0
    _, pulled = fit(lone, delta_local=1.0, delta_global=0.0)
    assert (offsets(pulled)[1] == offsets(pulled)[0]).all()


def test_messages_are_aggregates(federation):
    algorithm = LoGoFair(rounds=1, **OPTIONS | {"batch": 40})
    network = algorithm.network(
        MLP(federation.encoder.width, (5,), groups=2), federation.table.task
    )
    train, count, search = rounds(algorithm, clients(federation, network))
    shapes = [{name: tuple(tensor.shape) for name, tensor in one.sent.items()}
              for one in (train, count, search)]  # fmt: skip
    grid = len(search.server["grid"])
    assert shapes == [{"w": (3, network.size)}, {"group": (3, 2)}, {"positive": (3, grid, 2)}]
    assert train.kept == count.kept == search.kept == {}


def test_the_gap_at_a_client_falls_as_the_tolerance_does(federation):
    network, fitted = fit(federation, **LOOSE)
    server = {"w": fitted.w, "group": fitted.server["group"]}
    margins = score_margins(clients(federation, network), server)
    zero = torch.zeros((), dtype=torch.float64)
    mus = [solve(margins, zero, delta, smooth=0.0).abs() for delta in (0.3, 0.2, 0.1, 0.0)]
    for wide, tight in pairwise(mus):
        assert (wide <= tight).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta_local": -0.1}, r"delta_local must be in \[0, 1\], got -0.1"),
        ({"delta_global": 1.5}, r"delta_global must be in \[0, 1\]"),
        ({"dual_rounds": 0}, "at least 1"),
    ],
)
def test_bad_hyper_parameters_are_refused(options, message):
    with pytest.raises(pff.InputError, match=message):
        LoGoFair(**options)
