"""What a site prefers, by numbers made by hand, and what it measures, by a plain loop."""

import numpy as np
import pytest
import torch

import pfedfair as pff
from pfedfair.engines.site.votes import Measured, measure, prefers, vote
from pfedfair.methods import Clients
from pfedfair.runs import choose_network


def some(loss, gap, spread=0.0, rows=100):
    losses = np.full(rows, loss)
    losses[::2] += spread
    losses[1::2] -= spread
    return Measured(losses, gap)


@pytest.mark.parametrize(
    ("usual", "other", "better"),
    [
        (some(0.50, 0.10), some(0.40, 0.10), True),  # smaller losses
        (some(0.50, 0.10), some(0.496, 0.10), False),  # by less than 1 %
        (some(0.50, 0.10), some(0.60, 0.10), False),
        (some(0.69, 0.00), some(0.40, 0.30), True),  # a model that says nothing is fair
        (some(0.50, 0.10), some(0.50, 0.07), True),  # fairer
        (some(0.50, 0.10), some(0.50, 0.09), False),  # by less than .02
        (some(0.50, 0.10), some(0.60, 0.02), False),  # fairer by training less
        (some(0.50, 0.10), some(0.40, 0.10, spread=1.0), False),  # may be chance: 1 standard error
        (some(np.nan, np.nan), some(0.60, 0.10), True),  # not a model
        (some(np.inf, 0.10), some(np.nan, 0.10), False),
        (some(0.50, 0.10), some(np.nan, 0.00), False),
    ],
)
def test_a_site_prefers_what_is_clearly_better(usual, other, better):
    assert prefers(other, usual) is better


@pytest.fixture
def clients(federation) -> Clients:
    method = pff.methods.FedAvg()
    network = choose_network(federation, method)
    return Clients(network, federation.table, [federation.partition.train[0]], [0], 0)


def test_a_model_is_measured_on_the_sites_own_rows(clients):
    w = clients.network.init(np.random.default_rng(1))
    found = measure(pff.methods.FedAvg(), pff.methods.FedAvg(), {"w": w}, {}, clients)
    table, losses, positive = clients.table, [], {0: [], 1: []}
    for row in clients.rows[0]:
        z = clients.network.logits(w[None], table.inputs([row])[None], table.s[[row]][None])
        p = torch.sigmoid(z[0, 0, 0].double())
        losses.append(-float(torch.log(p if table.y[row] == 1 else 1 - p)))
        positive[int(table.s[row])].append(float(p > 0.5))
    np.testing.assert_allclose(found.losses, losses, atol=1e-6)
    assert found.gap == pytest.approx(abs(np.mean(positive[0]) - np.mean(positive[1])))


def test_a_vote_is_the_number_of_the_best_state(clients):
    method = pff.methods.FedAvg(rounds=30, alpha=0.05, batch=30)
    w = clients.network.init(np.random.default_rng(1))
    trained, _ = method.client_round({"w": w}, {}, clients, 0)
    for t in range(1, 30):
        trained, _ = method.client_round({"w": trained["w"][0]}, {}, clients, t)
    bad, good = {"w": -trained["w"][0]}, {"w": trained["w"][0]}
    fair = {"w": 0.5 * trained["w"][0]}
    assert vote(method, method, [bad, fair, good, bad], {}, clients) == 2
    assert vote(method, method, [good, bad, fair], {}, clients) == 0
