"""Transport on the scores of a federated Newton method."""

from itertools import islice

import numpy as np
import pandas as pd
import pytest
import torch
from play import rounds
from sklearn.linear_model import LogisticRegression

import pfedfair as pff
from pfedfair.methods.clients import Clients
from pfedfair.methods.transport.counts import split


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(4), [300, 500, 250, 400])
    s = rng.random(len(site)) < np.array([0.3, 0.5, 0.6, 0.4])[site]
    x = rng.normal(size=(len(site), 3)) + 0.8 * s[:, None]
    own = np.array([-1.5, -0.4, 0.4, 1.5])[site]
    y = rng.random(len(site)) < 1 / (1 + np.exp(-(x.sum(1) - 1 + own)))
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(
        site=[f"site {i}" for i in site], s=s.astype(int), y=y.astype(int)
    )
    return pff.from_frame(frame, "y", "s", drop=["site"], encoding="standard")


def test_its_rounds_are_the_messages_of_both(samples):
    algorithm = pff.make("transport", {"base": "newton"}, "adult")
    assert [phase.rounds for phase in algorithm.phases] == [10, 1, 5]
    assert algorithm.supports.linear_only
    assert pff.make("transport", {"base": "newton", "rounds": 12}).trainer.rounds == 12
    federation = samples.federate(pff.partition.by_column("site"))
    run = pff.train(federation, algorithm)
    assert run.network.words == "linear"
    baseline = pff.train(federation, pff.methods.Newton())
    assert run.table()["ddp"].mean() < baseline.table()["ddp"].mean() / 2
    with pytest.raises(pff.InputError, match="is not linear in its parameters"):
        pff.train(federation, algorithm, network=pff.MLP(3, (5,), groups=2))


def test_where_s_is_unknown_the_head_learns_it(samples):
    """Both parts of the model are the pooled optimum, each with a ridge of its own."""
    federation = samples.federate(pff.partition.by_column("site"), sensitive_as_input=False)
    run = pff.train(federation, pff.make("transport", {"base": "newton", "base.ridge": 0.01}))
    clients = Clients(run.network, federation.table, federation.partition.train, range(4), 0)
    rows = np.concatenate(split(clients, 0.2, private=False)[0].rows)
    x = federation.table.x.double().numpy()[rows]
    parts = np.split(run.fitted.w.numpy(), 2)
    for found, labels in zip(parts, (federation.table.y, federation.table.s), strict=True):
        model = LogisticRegression(C=1 / (0.01 * len(rows)), tol=1e-10, solver="newton-cholesky")
        model.fit(x, labels.numpy()[rows])
        np.testing.assert_allclose(found[:-1], model.coef_[0], atol=1e-5)
        np.testing.assert_allclose(found[-1], model.intercept_[0], atol=1e-5)
    assert np.isfinite(run.table()["ddp"]).all()


def test_the_ridge_of_the_head_is_chosen_too(samples):
    federation = samples.federate(pff.partition.by_column("site"), sensitive_as_input=False)
    run = pff.train(federation, pff.make("newton"))
    assert run.fitted.server["ridges"].shape == (1,)
    algorithm = pff.make("transport", {"base": "newton"})
    network = algorithm.network(run.network, federation.table.task)
    clients = Clients(network, federation.table, federation.partition.train, range(4), 0)
    server = [*islice(rounds(algorithm, clients), 10)][-1].after
    assert server["ridges"].shape == (2,)
    assert server["stage"] == -1


@pytest.mark.parametrize("aware", [True, False], ids=["aware", "blind"])
def test_clients_count_by_the_scores_of_their_own_intercepts(samples, aware):
    federation = samples.federate(pff.partition.by_column("site"), sensitive_as_input=aware)
    settings = {
        "base": "newton",
        "base.intercepts": "personal",
        "base.ridge": 0.01,
        "target_ddp": 0.2,
    }
    run = pff.train(federation, pff.make("transport", settings))
    assert run.fitted.server["tau"] > 0.3
    apart = run.fitted.theta - run.fitted.w
    place = federation.encoder.width + aware  # of the intercept
    assert apart[:, place].abs().min() > 0.01
    assert apart[:, place].diff().min() > 0.1  # as the clients were made
    apart[:, place] = 0
    assert apart.abs().max() == 0
    again = run.retarget(target_ddp=0.2)
    for one, other in zip(run.fitted.rules, again.fitted.rules, strict=True):
        assert torch.equal(one.numbers, other.numbers)
