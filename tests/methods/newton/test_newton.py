"""Federated Newton against scikit-learn on the pooled rows."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from play import clients, play
from sklearn.linear_model import LogisticRegression

import pfedfair as pff
from pfedfair.methods.newton.intercepts import TAUS, evidence, solve
from pfedfair.methods.newton.sums import fold_rows
from pfedfair.models import linear

SIZES = (400, 35, 160)


def made(classes=2, groups=2, seed=0, sizes=SIZES, encoding="standard"):
    """Unlike clients of unequal size: other rows, other shares of S, other labels."""
    rng = np.random.default_rng(seed)
    site = np.repeat(np.arange(len(sizes)), sizes)
    s = (rng.random(len(site)) * groups + 0.5 * site).astype(int) % groups
    x = rng.normal(size=(len(site), 4)) * [1, 3, 0.2, 1] + 0.8 * site[:, None] + 0.5 * s[:, None]
    score = x @ [1.0, -0.3, 2.0, 0.0] - site + rng.logistic(size=len(site))
    cuts = np.quantile(score, np.arange(1, classes) / classes)
    frame = pd.DataFrame(x, columns=list("abcd")).assign(
        site=[f"site {i}" for i in site],
        group=[f"g{k}" for k in s],
        label=[f"y{k}" for k in np.digitize(score, cuts)],
        colour=rng.choice(["red", "green", "blue"], len(site)),
    )
    return pff.from_frame(frame, "label", "group", drop=["site"], encoding=encoding)


def federated(classes=2, groups=2, aware=True, **options):
    plan = pff.partition.by_column("site")
    return made(classes, groups, **options).federate(plan, sensitive_as_input=aware)


def inputs(federation):
    """What a model sees of each row."""
    table = federation.table
    x, s = table.inputs(slice(None)).double().numpy(), table.s.numpy()
    if not table.task.aware:
        return x
    group = s[:, None] if table.task.groups == 2 else np.eye(table.task.groups)[s]
    return np.hstack([x, group])


def pooled(federation, C):
    """scikit-learn's coefficients, as a network's row has them, and its log-odds on all rows."""
    table, x = federation.table, inputs(federation)
    rows = np.concatenate(federation.partition.train)
    model = LogisticRegression(C=C, tol=1e-10, solver="newton-cholesky")
    model.fit(x[rows], table.y.numpy()[rows])
    scores = model.decision_function(x).reshape(len(x), -1)
    return np.concatenate([model.coef_.ravel(), model.intercept_]), scores


def row_count(federation):
    return sum(map(len, federation.partition.train))


@pytest.mark.parametrize("aware", [True, False], ids=["aware", "blind"])
@pytest.mark.parametrize(("classes", "groups"), [(2, 2), (3, 2), (2, 3), (4, 3)])
@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
def test_it_is_the_optimum_of_the_pooled_rows(classes, groups, aware, C):
    federation = federated(classes, groups, aware)
    run = pff.train(federation, pff.methods.Newton(ridge=1 / (C * row_count(federation))))
    expected, scores = pooled(federation, C)
    np.testing.assert_allclose(run.fitted.w, expected, atol=1e-5)
    found = run.predictors[0].logits(federation.table.inputs(slice(None)), federation.table.s)
    np.testing.assert_allclose(found, scores, atol=2e-5)
    assert run.fitted.server["stage"] == -1
    assert run.fitted.server["useful"] <= 10


def test_it_is_the_optimum_of_an_additive_model():
    federation = federated(encoding="piecewise")
    run = pff.train(federation, pff.methods.Newton())
    n = row_count(federation)
    expected, _ = pooled(federation, 1 / (n * float(run.fitted.server["ridges"][0])))
    np.testing.assert_allclose(run.fitted.w, expected, atol=2e-5)
    assert run.fitted.server["useful"] <= 10
    assert federation.encoder.width > 60


def test_with_too_long_steps_it_still_arrives():
    """Separable rows and almost no ridge: Newton's full steps run away from zero."""
    federation = federated(sizes=(60, 24))
    table = federation.table
    apart = table._replace(y=(table.x[:, 0] > 0).float())
    federation = replace(federation, table=apart)
    for C in (1.0, 1e4):
        run = pff.train(
            federation, pff.methods.Newton(rounds=40, ridge=1 / (C * row_count(federation)))
        )
        expected, _ = pooled(federation, C)
        np.testing.assert_allclose(run.fitted.w, expected, rtol=1e-5, atol=1e-5)
        assert run.fitted.server["stage"] == -1


def test_a_step_that_goes_too_far_is_taken_back():
    federation = federated()
    algorithm = pff.methods.Newton(ridge=1e-3)
    all_clients = clients(federation, linear(federation.encoder.width, groups=2))
    sizes = torch.tensor(federation.sizes).float()
    server = algorithm.start_server({"w": torch.zeros(all_clients.network.size)}, sizes)
    far = 400 * torch.randn(all_clients.network.size, generator=torch.manual_seed(0)).double()
    server["points"][0] = far
    sent, _ = algorithm.client_round(server, {}, all_clients, 0)
    after = algorithm.server_round(server, sent, sizes)
    part = after["points"][0] / far
    torch.testing.assert_close(part, part[0].expand_as(part))
    assert part[0] in 0.5 ** torch.arange(1, 8).double()
    assert torch.equal(after["points"][1], server["points"][1])
    assert after["stage"] == 0


def test_clients_alike_whatever_their_size():
    federation = federated()
    algorithm = pff.methods.Newton(ridge=0.01, weighting="uniform")
    run = pff.train(federation, algorithm)
    w = run.fitted.w.double().requires_grad_()
    total = 0.0
    for rows in federation.partition.train:
        x, y, s = (tensor[rows].double() for tensor in federation.table[:3])
        z = torch.cat([x, s[:, None]], dim=1) @ w[:-1] + w[-1]
        total = total + torch.nn.functional.binary_cross_entropy_with_logits(z, y) / 3
    (total + 0.005 * (w[:-1] ** 2).sum()).backward()
    assert w.grad.abs().max() < 1e-6


def folds_of(federation, all_clients):
    return [
        np.concatenate(parts)
        for parts in zip(
            *(fold_rows(all_clients, i, 5) for i in range(len(all_clients))), strict=True
        )
    ]


@pytest.mark.parametrize("aware", [True, False], ids=["aware", "blind"])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_ridge_is_the_best_of_cross_validation(classes, aware):
    """scikit-learn, trained to the end without each of the same folds, agrees on the losses."""
    federation = federated(classes, aware=aware)
    run = pff.train(federation, pff.methods.Newton())
    server, n = run.fitted.server, row_count(federation)
    assert server["stage"] == -1
    assert server["useful"] <= 10
    chosen = n * float(server["ridges"][0])
    expected, _ = pooled(federation, 1 / chosen)
    np.testing.assert_allclose(run.fitted.w, expected, atol=1e-5)
    x, y = inputs(federation), federation.table.y.numpy()
    folds = folds_of(federation, clients(federation, run.network))

    def held_loss(ridge):
        total = 0.0
        for fold in folds:
            rest = np.concatenate([other for other in folds if other is not fold])
            model = LogisticRegression(C=n / (len(rest) * ridge), solver="newton-cholesky")
            chance = model.fit(x[rest], y[rest]).predict_proba(x[fold])
            total -= np.log(chance[np.arange(len(fold)), y[fold].astype(int)]).sum()
        return total / n

    grid = np.array([held_loss(ridge) for ridge in 10.0 ** np.arange(-2, 4.1, 0.25)])
    assert held_loss(chosen) < grid.min() + 6e-4
    assert grid.max() > grid.min() + 2e-2


@pytest.mark.parametrize("rounds", range(1, 9))
def test_few_rounds_do_what_they_can(rounds):
    federation = federated()
    run = pff.train(federation, pff.methods.Newton(rounds=rounds))
    y = federation.table.y
    rows = np.concatenate(federation.partition.train)
    z = run.predictors[0].logits(federation.table.inputs(slice(None)), federation.table.s)[:, 0]
    loss = torch.nn.functional.binary_cross_entropy_with_logits(z[rows], y[rows])
    assert loss < 0.53  # 0.51 at the end, 0.69 before
    assert run.fitted.server["useful"] >= rounds - 1


def test_nothing_is_asked_for_once_it_has_arrived():
    federation = federated()
    algorithm = pff.methods.Newton(ridge=0.01, rounds=30)
    network = linear(federation.encoder.width, groups=2)
    states = play(federation, algorithm, network, 30)
    done = int(states[-1]["useful"])
    assert done < 8
    sent, _ = algorithm.client_round(states[-1], {}, clients(federation, network), 30)
    assert list(sent) == ["rows"]
    assert torch.equal(states[done]["w"], states[-1]["w"])


# --- a client's own intercept ------------------------------------------------------------------


def many(tau, classes=2, number=25, seed=1):
    """Clients whose intercepts scatter by tau."""
    rng = np.random.default_rng(seed)
    site = np.repeat(np.arange(number), rng.integers(40, 200, number))
    x = rng.normal(size=(len(site), 2))
    own = tau * rng.normal(size=(number, classes))
    score = np.outer(x[:, 0], np.arange(classes)) + own[site] + rng.gumbel(size=own[site].shape)
    frame = pd.DataFrame(x, columns=["a", "b"]).assign(
        site=[f"site {i}" for i in site], s=rng.integers(0, 2, len(site)), y=score.argmax(1)
    )
    data = pff.from_frame(frame, "y", "s", drop=["site"], encoding="standard")
    return data.federate(pff.partition.by_column("site"))


@pytest.mark.parametrize("classes", [2, 3])
def test_own_intercepts_are_the_optimum_with_their_prior(classes):
    """In scikit-learn: a column for each client, scaled so that the ridge is the prior."""
    federation = many(0.8, classes)
    C, n = 0.5, row_count(federation)
    run = pff.train(federation, pff.methods.Newton(ridge=1 / (C * n), intercepts="personal"))
    tau = float(run.fitted.server["tau"])
    assert 0.8 / 1.6 < tau < 0.8 * 1.6 * (np.sqrt(2) if classes == 2 else 1)
    assert run.fitted.server["stage"] == -1
    rows = np.concatenate(federation.partition.train)
    site = np.repeat(np.arange(len(federation)), federation.sizes)
    scale = tau / np.sqrt(C)
    x = np.hstack([inputs(federation)[rows], scale * np.eye(len(federation))[site]])
    model = LogisticRegression(C=C, tol=1e-10, solver="newton-cholesky")
    model.fit(x, federation.table.y.numpy()[rows])
    width = x.shape[1] - len(federation)
    k = len(model.coef_)
    common = np.concatenate([model.coef_[:, :width].ravel(), model.intercept_])
    np.testing.assert_allclose(run.fitted.w, common, atol=2e-5)
    own = run.fitted.theta.numpy()[:, -k:] - run.fitted.w.numpy()[-k:]
    np.testing.assert_allclose(own, scale * model.coef_[:, width:].T, atol=2e-5)


def test_clients_that_do_not_differ_have_no_intercept_of_their_own():
    run = pff.train(many(0.0), pff.methods.Newton(intercepts="personal"))
    assert run.fitted.server["tau"] < 0.15
    assert run.fitted.server["useful"] <= 10
    own = run.fitted.theta - run.fitted.w
    assert own[:, :-1].abs().max() == 0
    assert own[:, -1].abs().max() < 0.2


def test_the_likelihood_of_tau_is_the_integral_over_intercepts():
    rng = np.random.default_rng(0)
    z, y = torch.from_numpy(rng.normal(size=(300, 1))), torch.from_numpy(rng.integers(0, 2, 300))
    u = solve(z, y, torch.tensor(0.5))
    chance = torch.sigmoid(z + u)
    found = evidence(
        (chance * (1 - chance)).sum().view(1, 1), (chance - y[:, None]).sum().view(1), u
    )
    at = torch.linspace(-6, 6, 24001, dtype=torch.float64)[:, None]
    loss = torch.nn.functional.softplus(z.T + at) - y * (z.T + at)
    fit = torch.exp(loss.sum(1).min() - loss.sum(1))
    for k, tau in enumerate(TAUS.tolist()[1:], 1):
        prior = torch.exp(-(at[:, 0] ** 2) / (2 * tau**2)) / tau
        whole = (fit * prior).sum() * (at[1] - at[0]) / np.sqrt(2 * np.pi)
        none = fit[len(at) // 2]
        assert float(found[k]) == pytest.approx(float(torch.log(whole / none)), abs=0.02)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pff.methods.Newton(eta=0.5), "cross-entropy only: leave out eta"),
        (lambda: pff.methods.Newton(folds=1), "folds must be at least 2, got 1"),
        (lambda: pff.methods.Newton(intercepts="own"), "Unknown intercepts 'own'"),
        (
            lambda: pff.train(
                federated(), pff.methods.Newton(), network=pff.MLP(7, (64, 64), groups=2)
            ),
            "mlp 64-64 is not linear in its parameters: take model='linear' or additive",
        ),
    ],
)
def test_what_it_cannot_do_is_refused(call, message):
    with pytest.raises(pff.InputError, match=message):
        call()


def test_that_it_has_not_arrived_is_reported(pfedfair, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=400), "sex": np.arange(400) % 2, "site": "a"})
    frame["y"] = (frame["x"] > 0.3).astype(int)  # without exception
    data = pff.from_frame(frame.assign(site=np.where(frame.index < 200, "a", "b")), "y", "sex")
    federation = data.federate(pff.partition.by_column("site"))
    few = pff.train(federation, pff.methods.Newton(rounds=3, ridge=1e-9))
    assert "has not converged after 3 messages" in few.doubts
    many = pff.train(federation, pff.methods.Newton(rounds=30, ridge=1e-2))
    assert many.doubts == ""
    data.frame.to_csv(tmp_path / "sure.csv", index=False)
    asked = ("--label", "y", "--sensitive", "sex", "--client", "site", "--set", "ridge=1e-9")
    code, out, _ = pfedfair("train", "sure.csv", *asked, "--method", "newton", "--rounds", 3)
    assert code == 0
    assert "Note: Newton's method has not converged" in " ".join(out.split())
