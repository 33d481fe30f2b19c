import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from torch.nn.functional import binary_cross_entropy_with_logits

import pfedfair as pff
from pfedfair.engines import local
from pfedfair.federation import Batch
from pfedfair.methods import Clients
from pfedfair.methods.fcfl import FCFL, descent, parity_gap, restoring
from pfedfair.models import MLP, linear


def tensor(*rows):
    return torch.tensor(rows)


def clients(federation, network):
    rows = list(federation.partition.train)
    return Clients(network, federation.table, rows, range(len(rows)), seed=0)


def measure(federation, network, w):
    """Losses, gaps and their gradients at w, all clients."""
    return FCFL().client_round({"w": w}, {}, clients(federation, network), 0)[0]


def by_hand(federation, network, client, w):
    """Loss and gap of one client from the definitions, for autograd."""
    x, y, s = (t[federation.partition.train[client]] for t in federation.table[:3])
    logit = network.logits(w[None], x[None], s[None])[0, :, 0]
    rate = torch.special.ndtr((torch.sigmoid(logit) - 0.5) / 0.1)
    return binary_cross_entropy_with_logits(logit, y), rate[s == 1].mean() - rate[s == 0].mean()


# The linear program


def test_single_goal_or_without_conflict_is_followed_as_it_is():
    goal = torch.tensor([3.0, 4.0])
    torch.testing.assert_close(descent(goal, torch.empty(0, 2)), goal)
    torch.testing.assert_close(descent(goal, tensor([10.0, 0.0], [0.0, 0.1])), goal)


def test_conflict_is_projected_away_by_hand():
    """Goal (1, 1)/sqrt 2 against (0, -1): d = (a/sqrt 2, a/sqrt 2 - (1 - a)) with d_2 = 0."""
    goal, other = torch.tensor([1.0, 1.0]), torch.tensor([0.0, -5.0])
    a = 1 / (1 + 0.5**0.5)
    torch.testing.assert_close(descent(goal, other[None]), torch.tensor([a, 0.0]))


def test_three_gradients_by_hand():
    """Both neighbours of the goal oppose it in y: only the component along x harms no row.

    Units u = (0, 1), (c, -h), (-c, -h): every d of the hull with d @ u_2 >= 0 and d @ u_3 >= 0
    has d_y <= 0, so d @ goal <= 0 and the best is 0: a Pareto-stationary point. With the third
    gradient gone, the best is the goal less its part along u_2.
    """
    goal = torch.tensor([0.0, 1.0])
    keep = tensor([0.6, -0.8], [-0.6, -0.8])
    torch.testing.assert_close(descent(goal, keep), torch.zeros(2), atol=1e-6, rtol=0)
    d = descent(goal, keep[:1])
    projected = goal - (goal @ keep[0]) * keep[0]  # direction known, length from the hull
    torch.testing.assert_close(d / d.norm(), projected / projected.norm())
    assert d @ goal == pytest.approx(1 - 0.8)  # 1 - |cosine|


gradients = arrays(
    np.float32,
    st.tuples(st.integers(1, 6), st.integers(1, 5)),
    elements=st.floats(-4, 4, width=32).map(lambda v: round(v, 2)),
)


@settings(max_examples=100, deadline=None)
@given(gradients)
def test_the_direction_harms_no_client_and_none_of_the_hull_is_better(rows):
    rows = torch.from_numpy(rows)
    goal, keep = rows[0], rows[1:]
    d = descent(goal, keep)
    size = float(goal.norm() * rows.norm(dim=1).max()) + 1e-12
    assert torch.isfinite(d).all()
    assert (rows @ d >= -1e-5 * size).all()
    assert d.norm() <= goal.norm() * (1 + 1e-5)
    units = rows[rows.norm(dim=1) > 0]
    units = units / units.norm(dim=1, keepdim=True) * goal.norm()
    some = np.random.default_rng(0).dirichlet(np.full(max(len(units), 1), 0.3), 200)
    others = torch.from_numpy(some[:, : len(units)]).float() @ units
    allowed = others[(others @ keep.T >= 0).all(1)]
    assert (allowed @ goal <= d @ goal + 1e-5 * size).all()
    if (keep @ goal >= 0).all():
        torch.testing.assert_close(d, goal, rtol=1e-4, atol=1e-5)


def test_the_shortest_vector_of_the_hull_stands_in_for_a_failed_solver(monkeypatch):
    monkeypatch.setattr(
        "scipy.optimize.linprog", lambda *args, **kwargs: type("Failed", (), {"status": 4})
    )
    d = descent(torch.tensor([2.0, 0.0]), tensor([-0.6, 0.8]))
    torch.testing.assert_close(d, torch.tensor([0.4, 0.8]))  # the middle of (2, 0), (-1.2, 1.6)


def test_vanished_and_broken_gradients_do_not_crash():
    zero, one = torch.zeros(3), torch.ones(3)
    assert torch.equal(descent(zero, one[None]), zero)
    assert torch.equal(descent(one, zero[None]), one)
    assert descent(one * float("nan"), one[None]).isnan().all()


def test_fifty_clients_with_fifty_limits():
    torch.manual_seed(0)
    keep = torch.randn(100, 40) + 0.3
    d = descent(keep[:50].mean(0), keep)
    assert (keep @ d >= -1e-5).all()
    assert d @ keep[:50].mean(0) > 0


def test_a_broken_limit_is_restored_at_the_cost_of_a_loss_only_if_it_must():
    gap, aside, against = tensor([1.0, 0.0]), tensor([-0.5, 1.0]), tensor([-1.0, 0.01])
    d = restoring(gap[0], gap, aside)
    assert (aside @ d >= -1e-6).all()
    assert gap[0] @ d > 0.1
    torch.testing.assert_close(restoring(gap[0], gap, against), gap[0])
    torch.testing.assert_close(restoring(gap[0], torch.cat([gap, -gap]), against), gap[0])


# What the clients send


@pytest.mark.parametrize("hidden", [(), (5,)])
def test_losses_gaps_and_gradients_against_autograd(federation, hidden):
    network = MLP(federation.encoder.width, hidden, groups=2)
    w = 2 * network.init(np.random.default_rng(1))
    sent = measure(federation, network, w)
    for client in range(len(federation)):
        leaf = w.clone().requires_grad_()
        values = by_hand(federation, network, client, leaf)
        for name, value in zip(("loss", "gap"), values, strict=True):
            (grad,) = torch.autograd.grad(value, leaf, retain_graph=True)
            torch.testing.assert_close(sent[name][client], value.detach())
            torch.testing.assert_close(sent[f"g_{name}"][client], grad, rtol=1e-4, atol=1e-6)
            assert grad.norm() > 1e-3


def test_a_client_with_one_group_has_no_gap():
    batch = Batch(
        torch.zeros(2, 3, 1), torch.zeros(2, 3), tensor([1, 1, 0], [1, 1, 1]), torch.ones(2, 3) / 3
    )
    logits = tensor([9.0, 9.0, -9.0], [9.0, 9.0, -9.0])[..., None].requires_grad_()
    gap = parity_gap(logits, batch)
    (slope,) = torch.autograd.grad(gap.sum(), logits)
    torch.testing.assert_close(gap.detach(), torch.tensor([1.0, 0.0]), atol=1e-5, rtol=0)
    assert torch.isfinite(slope).all()
    assert (slope[1] == 0).all()


# The whole method, on a convex problem


def test_the_worst_client_is_better_off_than_with_fedavg(federation):
    """FedAvg is run to the minimum of the mean loss, FCFL to the smoothed min-max."""
    network = linear(federation.encoder.width, groups=2)
    average = pff.methods.FedAvg(rounds=300, batch=10_000, alpha=1.0, optimiser="sgd")
    mean = local.fit(federation, average, network, 0)
    worst = local.fit(federation, FCFL(rounds=300, epsilon=1.0, pareto=0.0), network, 0)
    a, b = (measure(federation, network, fitted.w)["loss"] for fitted in (mean, worst))
    assert b.max() < a.max() - 0.003
    assert b.max() - b.min() < 0.5 * (a.max() - a.min())
    assert b.mean() > a.mean()


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_stage_one_ends_where_a_general_solver_cannot_improve(federation, epsilon):
    """SLSQP on: minimise u such that l_k(w) <= u and |g_k(w)| <= epsilon, from FCFL's answer."""
    network = linear(federation.encoder.width, groups=2)
    fitted = local.fit(federation, FCFL(rounds=300, epsilon=epsilon, pareto=0.0), network, 0)

    def conditions(v):
        sent = measure(federation, network, torch.from_numpy(v[1:]).float())
        gap = sent["gap"]
        return torch.cat([v[0] - sent["loss"], epsilon - gap, epsilon + gap]).double().numpy()

    def slopes(v):
        sent = measure(federation, network, torch.from_numpy(v[1:]).float())
        rows = torch.cat([-sent["g_loss"], -sent["g_gap"], sent["g_gap"]]).double().numpy()
        return np.column_stack([np.repeat([1.0, 0, 0], len(federation)), rows])

    found = measure(federation, network, fitted.w)["loss"].max().item()
    answer = minimize(
        lambda v: v[0],
        np.r_[found, fitted.w.double().numpy()],
        jac=lambda v: np.eye(len(v))[0],
        constraints={"type": "ineq", "fun": conditions, "jac": slopes},
        method="SLSQP",
        options={"maxiter": 60},
    )
    assert conditions(answer.x).min() > -1e-3  # the solver's own answer is one
    assert found < answer.x[0] + 0.01  # delta_min ln m = 0.011


@pytest.mark.parametrize("hidden", [(), (8,)])
def test_every_client_ends_within_its_limit(federation, hidden):
    network = MLP(federation.encoder.width, hidden, groups=2)
    gaps = {}
    for limit in (0.02, 0.1, 1.0):
        fitted = local.fit(federation, FCFL(epsilon=limit), network, 0)
        sent = measure(federation, network, fitted.w)
        gaps[limit] = sent["gap"].abs().max()
        assert sent["loss"].max() < 0.69  # it learned something: a coin has ln 2
    for epsilon in (0.02, 0.1):
        assert gaps[epsilon] <= 1.1 * epsilon
        assert gaps[1.0] > 2 * epsilon  # the limit mattered


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_a_pareto_step_lowers_the_mean_and_raises_no_loss(federation, epsilon):
    network = linear(federation.encoder.width, groups=2)
    algorithm = FCFL(rounds=100, epsilon=epsilon, alpha=0.3)
    sizes = torch.ones(len(federation))
    first = local.fit(federation, FCFL(rounds=5, epsilon=epsilon, pareto=0.0), network, 0)
    server = algorithm.start_server({"w": first.w}, sizes) | {"t": torch.tensor(50)}
    start = before = measure(federation, network, first.w)
    for _ in range(50):
        server = algorithm.server_round(server, before, sizes)
        after = measure(federation, network, server["w"])
        kept = bool((before["gap"].abs() <= epsilon).all())  # else the limit comes first
        slack = 1e-4 if kept else 5e-3
        assert (after["loss"] <= before["loss"] + slack).all()
        assert (after["gap"].abs() <= 1.1 * epsilon).all()
        before = after
    assert after["loss"].mean() < start["loss"].mean() - 1e-3


def test_pareto_stationary_stays(federation):
    """At the minimum of one client's loss nothing may move."""
    sent = {
        "loss": torch.tensor([0.3, 0.6]),
        "gap": torch.zeros(2),
        "g_loss": tensor([1.0, 0.0], [-2.0, 0.0]),
        "g_gap": torch.zeros(2, 2),
    }
    algorithm = FCFL(rounds=2, pareto=1.0)
    server = algorithm.start_server({"w": torch.tensor([5.0, 5.0])}, torch.ones(2))
    after = algorithm.server_round(server, sent, torch.ones(2))
    torch.testing.assert_close(after["w"], server["w"], atol=1e-6, rtol=0)


def test_chunks_do_not_matter(federation):
    network = MLP(federation.encoder.width, (5,), groups=2)
    algorithm = FCFL(rounds=20, epsilon=0.05)
    one, ten = (local.fit(federation, algorithm, network, 0, at_once=n) for n in (1, 10))
    torch.testing.assert_close(one.w, ten.w, rtol=1e-3, atol=1e-4)
    assert torch.equal(ten.theta, ten.w.repeat(len(federation), 1))


def test_nothing_is_aliased_or_changed(federation):
    network = linear(federation.encoder.width, groups=2)
    w, sizes = network.init(np.random.default_rng(0)), torch.ones(len(federation))
    algorithm = FCFL()
    server = algorithm.start_server({"w": w}, sizes)
    sent, own = algorithm.client_round(server, {}, clients(federation, network), 0)
    given = {k: v.clone() for k, v in (server | sent).items()}
    after = algorithm.server_round(server, sent, sizes)
    assert own == {}
    for name, value in (server | sent).items():
        assert torch.equal(value, given[name])
    before = {t.untyped_storage().data_ptr() for t in (w, *server.values(), *sent.values())}
    assert len(before) == 1 + len(server) + len(sent)
    assert not before & {t.untyped_storage().data_ptr() for t in after.values()}


def test_compas_is_learned_within_the_limit(compas):
    network = MLP(compas.encoder.width, (16,), groups=2)
    fitted = local.fit(compas, FCFL(rounds=100, epsilon=0.05), network, 0)
    sent = measure(compas, network, fitted.w)
    assert sent["gap"].abs().max() <= 0.055
    assert sent["loss"].max() < 0.65


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimiser": "adam"}, "optimiser must be sgd"),
        ({"epsilon": 0.0}, r"epsilon must be in \(0, 1\], got 0"),
        ({"pareto": 1.5}, r"pareto must be in \[0, 1\], got 1.5"),
        ({"delta_min": 0.5}, "0 < delta_min <= delta"),
        ({"decay": 0.0}, "0 < decay <= 1"),
        ({"bandwidth": 0.0}, "bandwidth must be a positive number, got 0"),
    ],
)
def test_bad_hyper_parameters_are_refused(options, message):
    with pytest.raises(pff.InputError, match=message):
        FCFL(**options)
