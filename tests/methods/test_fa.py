import numpy as np
import pandas as pd
import pytest
import torch
from play import clients, play
from scipy.optimize import linprog

import pfedfair as pff
from pfedfair._util import seeds
from pfedfair.engines import local
from pfedfair.federation import stack
from pfedfair.methods.fa import FA, worst_weights
from pfedfair.methods.fedavg import FedAvg
from pfedfair.models import MLP, linear
from pfedfair.penalties.objective import Objective, loss

FREE = {"tau": float("inf")}  # no constraint
FULL = {"batch": 10_000, "optimiser": "sgd"}


def covariance(federation, network, w):
    """Of S and the logit over all training rows."""
    rows = np.concatenate(federation.partition.train)
    x, s = federation.table.x[rows], federation.table.s[rows]
    z, s = network.logits(w[None], x[None], s[None])[0, :, 0], s.float()
    return ((s - s.mean()) * z).mean().item()


@pytest.mark.parametrize("bound", [1.0, 1.7, 5.0, 100.0])
def test_the_servers_program_is_solved_as_linprog_solves_it(bound):
    rng = np.random.default_rng(1)
    for bases in (1, 2, 7, 30):
        mass = rng.dirichlet(np.ones(bases))
        losses = mass * rng.random(bases)
        alpha = worst_weights(torch.tensor(losses), torch.tensor(mass), bound).numpy()
        best = linprog(-losses, A_eq=mass[None], b_eq=[1], bounds=(0, bound))
        assert best.success
        assert alpha @ losses == pytest.approx(-best.fun)
        assert alpha @ mass == pytest.approx(1)
        assert alpha.min() >= 0
        assert alpha.max() <= bound


def test_a_server_round_by_hand():
    """Two clients, two bases, numbers that a pencil can follow."""
    algorithm = FA(bases=2, tau=0.1, dual_step=2.0, ascent=0.5, bound=1.5)
    sizes = torch.tensor([10.0, 30.0])
    server = algorithm.start_server({"w": torch.zeros(1)}, sizes) | {
        "alpha": torch.tensor([1.5, 0.5])
    }
    moments = torch.tensor(
        [
            # K,           K loss,     K s,        K s z
            [[0.6, 0.4], [0.1, 0.5], [0.2, 0.2], [0.5, 0.1]],
            [[0.4, 0.6], [0.1, 0.3], [0.2, 0.6], [0.3, 0.1]],
        ]
    )
    messages = {
        "w": torch.tensor([[1.0], [2.0]]),
        "moments": moments,
        "score": torch.tensor([0.2, 0.6]),
    }
    new = algorithm.server_round(server, messages, sizes)
    # Mean weights: 0.9 + 0.2 = 1.1 and 0.6 + 0.3 = 0.9.
    assert new["w"].item() == pytest.approx((1.1 * 1 + 0.9 * 2) / 2)
    # C = 1.5 * 0.4 + 0.5 * 0.1 - (1.5 * 0.2 + 0.5 * 0.4) * 0.4 = 0.65 - 0.2
    torch.testing.assert_close(new["dual"], torch.tensor([2 * (0.45 - 0.1), 0.0]))
    # The second base has the higher loss: alpha = 1.5 there (mass 0.75), 0.25 / 0.5 at the other.
    torch.testing.assert_close(new["alpha"], torch.tensor([1.0, 1.0]))
    assert new["s"].item() == pytest.approx(0.2 + 0.4)


@pytest.mark.parametrize("weighting", ["uniform", "size"])
@pytest.mark.parametrize("eta", [0.0, 0.6])
def test_a_round_is_one_gradient_step_on_the_lagrangian(federation, weighting, eta):
    """One minibatch, SGD: autograd through the reweighted loss, nu C and rho C_i^2."""
    network = linear(federation.encoder.width, groups=2)
    algorithm = FA(
        alpha=0.2, eta=eta, tau=0.02, rho=1.5, dual_step=4.0, ascent=0.5, width=0.3,
        weighting=weighting, **FULL,
    )  # fmt: skip
    before, after = play(federation, algorithm, network, 6)[-2:]
    nu = before["dual"][0] - before["dual"][1]
    assert nu.abs() > 0.01
    whole = stack(federation.table, federation.partition.train)
    q = algorithm.kernels(clients(federation, network), whole) @ before["alpha"]
    sizes = torch.from_numpy(federation.sizes).float()
    c = sizes / sizes.sum() if weighting == "size" else torch.full((len(sizes),), 1 / len(sizes))
    weight = whole.weight * c[:, None]
    assert (weight * q).sum().item() == pytest.approx(1, abs=1e-5)
    assert q[whole.weight > 0].std() > 0.05

    def value(w):
        logits = network.logits(w.repeat(len(federation), 1), whole.x, whole.s)
        z, one = logits[..., 0], loss(logits, whole)
        reweighted = (whole.weight * q * (torch.nn.functional.softplus(z) - whole.y * z)).sum(1)
        C = (weight * (q * whole.s - (weight * q * whole.s).sum()) * z).sum()
        mass = (whole.weight * q).sum(1)  # of each client: its part in the mean
        centred = q * whole.s - (whole.weight * q * whole.s).sum(1, keepdim=True)
        C_i = (whole.weight * centred * z).sum(1) / mass
        fair = Objective(eta).value(logits, whole) - (1 - eta) * one
        own = fair + 1.5 * (C_i.abs() - 0.02).clamp(min=0) ** 2
        return (c * ((1 - eta) * reweighted + mass * own)).sum() + nu * C

    w = before["w"].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(value(w), w)
    torch.testing.assert_close(after["w"], before["w"] - 0.2 * gradient, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("weighting", ["uniform", "size"])
def test_without_reweighting_and_constraint_it_is_fedavg(federation, weighting):
    network = MLP(federation.encoder.width, (5,), groups=2)
    options = {"rounds": 4, "batch": 30, "eta": 0.4, "weighting": weighting}
    fair = local.fit(federation, FA(ascent=0.0, **FREE, **options), network, seed=0)
    baseline = local.fit(federation, FedAvg(**options), network, seed=0)
    torch.testing.assert_close(fair.theta, baseline.theta, rtol=1e-5, atol=1e-6)


def test_kernels_are_gaussians_divided_by_their_sum(federation):
    network = linear(federation.encoder.width, groups=2)
    algorithm = FA(bases=4, width=0.4)
    all_clients, six = clients(federation, network), stack(federation.table, [np.arange(6)])
    x = torch.cat([six.x, six.s[..., None]], dim=-1)  # S is behind the inputs
    points = seeds.generator(0, seeds.INIT, 1).standard_normal((4, x.shape[-1]))
    squares = ((x[0, :, None].numpy() - points) ** 2).sum(-1)
    K = np.exp(-squares / (2 * 0.4**2 * x.shape[-1]))
    expected = torch.from_numpy(K / K.sum(1, keepdims=True)).float()
    torch.testing.assert_close(
        algorithm.kernels(all_clients, six)[0], expected, rtol=1e-4, atol=1e-6
    )


def test_weights_keep_their_mean_and_bounds(federation):
    network = MLP(federation.encoder.width, (5,), groups=2)
    algorithm = FA(ascent=0.7, bound=1.5, alpha=0.05, batch=40, width=0.3)
    whole = stack(federation.table, federation.partition.train)
    K = algorithm.kernels(clients(federation, network), whole)
    for state in play(federation, algorithm, network, 12):
        q = K @ state["alpha"]
        assert state["alpha"].min() >= 0
        assert state["alpha"].max() <= 1.5 + 1e-5
        assert (whole.weight * q).sum(1).mean().item() == pytest.approx(1, abs=1e-5)
        assert state["dual"].min() >= 0


def test_the_covariance_ends_below_fedavgs_and_near_tau(compas):
    network = linear(compas.encoder.width, groups=2)
    options = {"rounds": 80, "alpha": 0.5, "weighting": "size", **FULL}
    baseline = local.fit(compas, FedAvg(**options), network, seed=0)
    free = covariance(compas, network, baseline.w)
    assert abs(free) > 0.1
    for tau in (0.05, 0.0):  # without an adversary C is the simple covariance
        algorithm = FA(tau=tau, ascent=0.0, **options)
        fair = local.fit(compas, algorithm, network, seed=0)
        assert abs(covariance(compas, network, fair.w)) == pytest.approx(tau, abs=0.01)
    fair = local.fit(compas, FA(tau=0.0, ascent=0.1, **options), network, seed=0)
    assert abs(covariance(compas, network, fair.w)) < 0.3 * abs(free)


def test_the_adversarys_region_is_better_off_than_under_fedavg():
    """In a corner of the x-plane (one row in eight) the label turns around: FedAvg gives it up."""
    rng = np.random.default_rng(0)
    n = 800
    odd = rng.random(n) < 0.125
    x = rng.normal(size=(n, 2)) + np.where(odd, 3.0, 0.0)[:, None] * [0.0, 1.0]
    y = rng.random(n) < 1 / (1 + np.exp(-np.where(odd, -3, 3) * x[:, 0]))
    frame = pd.DataFrame(x, columns=["a", "b"]).assign(
        site=rng.choice(["one", "two"], n), sex=rng.choice(["m", "f"], n), hired=y.astype(int)
    )
    data = pff.from_frame(frame, "hired", "sex", drop=["site"], encoding="standard")
    federation = data.federate(pff.partition.by_column("site"), sensitive_as_input=False)
    network = linear(federation.encoder.width)
    options = {"rounds": 60, "alpha": 0.5, **FULL}
    algorithm = FA(ascent=0.1, width=0.4, bases=30, bound=10.0, **FREE, **options)
    fair = play(federation, algorithm, network, 60)[-1]
    baseline = local.fit(federation, FedAvg(**options), network, seed=0)
    all_clients = clients(federation, network)

    def worst(w):
        """The highest loss that weights within the bounds can make."""
        sent, _ = algorithm.client_round(fair | {"w": w}, {}, all_clients, 0)
        mass, losses = sent["moments"].mean(0)[:2]
        return (worst_weights(losses, mass, 10.0) @ losses).item()

    assert worst(fair["w"]) < worst(baseline.w) - 0.1


def test_chunks_do_not_matter(federation):
    network = MLP(federation.encoder.width, (5,), groups=2)
    algorithm = FA(rounds=6, eta=0.4, batch=30, alpha=0.01, ascent=0.5, dual_step=3.0)
    one = local.fit(federation, algorithm, network, seed=0, at_once=1)
    ten = local.fit(federation, algorithm, network, seed=0, at_once=10)
    torch.testing.assert_close(one.theta, ten.theta, rtol=1e-4, atol=1e-5)


def test_no_aliases_and_nothing_changed_that_was_given(federation):
    network = MLP(federation.encoder.width, (5,), groups=2)
    algorithm, all_clients = FA(batch=40), clients(federation, network)
    sizes = torch.from_numpy(federation.sizes).float()
    w = network.init(np.random.default_rng(0))
    start = algorithm.start_server({"w": w}, sizes)
    assert start["w"].untyped_storage().data_ptr() != w.untyped_storage().data_ptr()
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
    shapes = {name: tuple(rows.shape) for name, rows in sent.items()}  # means only
    assert shapes == {"w": (3, network.size), "moments": (3, 4, 30), "score": (3,)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tau": -1.0}, "tau must be a number >= 0 or infinity, got -1"),
        ({"tau": float("nan")}, "tau must be a number"),
        ({"rho": -1.0}, "rho must be a number >= 0, got -1"),
        ({"dual_step": float("inf")}, "dual_step must be a number >= 0, got inf"),
        ({"ascent": 1.5}, r"ascent must be in \[0, 1\], got 1.5"),
        ({"bound": 0.5}, "bound must be a number >= 1, got 0.5"),
        ({"bases": 0}, "bases must be at least 1"),
        ({"width": 0.0}, "width must be a positive number"),
    ],
)
def test_bad_hyper_parameters_are_refused(options, message):
    with pytest.raises(pff.InputError, match=message):
        FA(**options)
