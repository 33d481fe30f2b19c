import numpy as np
import pytest
import torch

import pfedfair as pff
from pfedfair.engines import local
from pfedfair.methods import Clients
from pfedfair.methods.fairfed import FairFed, count
from pfedfair.models import MLP


def clients(federation, network):
    rows = list(federation.partition.train)
    return Clients(network, federation.table, rows, range(len(rows)), 0)


def messages(group, positive, right, w=None):
    rows = torch.eye(len(group)) if w is None else torch.tensor(w)
    return {
        "w": rows,
        "group": torch.tensor(group).double(),
        "positive": torch.tensor(positive).double(),
        "right": torch.tensor(right).double(),
    }


# Three clients of 10, 10 and 20 rows. F_1 = 4/5 - 1/5 = .6, F_2 = 2/4 - 3/6 = 0, F_3 = 1/10 - 3/10
# = -.2; over all rows (4+2+1)/19 - (1+3+3)/21 = 7/19 - 1/3 = 2/57.
THREE = messages([[5, 5], [4, 6], [10, 10]], [[4, 1], [2, 3], [1, 3]], [5, 5, 10])
DELTA = np.abs(np.array([0.6, 0.0, -0.2]) - 2 / 57)


def test_weights_by_hand():
    algorithm = FairFed(beta=0.5)
    server = algorithm.start_server({"w": torch.zeros(3)}, torch.tensor([10.0, 10.0, 20.0]))
    expected = np.array([0.25, 0.25, 0.5])
    assert server["weights"].numpy() == pytest.approx(expected)
    for _ in range(2):  # the second round starts where the first ended
        server = algorithm.server_round(server, THREE, torch.tensor([10.0, 10.0, 20.0]))
        expected = expected - 0.5 * (DELTA - DELTA.mean())
        expected = np.maximum(expected, 0) / np.maximum(expected, 0).sum()
        assert server["weights"].numpy() == pytest.approx(expected)
        assert server["w"].numpy() == pytest.approx(expected, rel=1e-6)  # rows are unit vectors
    assert expected[0] < 0.01 < 0.3 < expected[1]  # the one unlike the others has lost its say


def test_one_round_written_out_in_numbers():
    """Two clients of 4 rows: F_1 = 1, F_2 = 0, all: 3/4 - 1/4 = 1/2; both deviate by 1/2."""
    algorithm, sizes = FairFed(beta=1.0), torch.tensor([4.0, 4.0])
    server = algorithm.start_server({"w": torch.zeros(1)}, sizes)
    same = messages([[2, 2], [2, 2]], [[2, 0], [1, 1]], [4, 4], [[1.0], [3.0]])
    assert algorithm.server_round(server, same, sizes)["w"].item() == pytest.approx(2.0)
    # F_1 = 1/3, F_2 = -1, all: 1/4 - 3/4 = -1/2; deviations 5/6 and 1/2, mean 2/3.
    other = messages([[3, 1], [1, 3]], [[1, 0], [0, 3]], [4, 4], [[1.0], [3.0]])
    after = algorithm.server_round(server, other, sizes)
    assert after["weights"].tolist() == pytest.approx([1 / 3, 2 / 3])
    assert after["w"].item() == pytest.approx(1 / 3 * 1 + 2 / 3 * 3)


def test_without_a_group_accuracy_stands_in():
    """Client 2 has no row of group 1: |Acc_2 - Acc| = |.5 - 22/30| instead."""
    sent = messages([[5, 5], [10, 0], [5, 5]], [[3, 1], [2, 0], [1, 1]], [9, 5, 8])
    algorithm, sizes = FairFed(beta=0.3), torch.full((3,), 10.0)
    after = algorithm.server_round(
        algorithm.start_server({"w": torch.zeros(3)}, sizes), sent, sizes
    )
    overall = 6 / 20 - 2 / 10
    delta = np.array([abs(0.4 - overall), abs(0.5 - 22 / 30), abs(0.0 - overall)])
    assert after["weights"].numpy() == pytest.approx(1 / 3 - 0.3 * (delta - delta.mean()))


def test_without_a_group_at_any_client_all_go_by_accuracy():
    sent = messages([[5, 0], [5, 0]], [[3, 0], [2, 0]], [5, 2])
    algorithm, sizes = FairFed(beta=5.0), torch.full((2,), 5.0)
    after = algorithm.server_round(
        algorithm.start_server({"w": torch.zeros(2)}, sizes), sent, sizes
    )
    assert after["weights"].tolist() == pytest.approx([0.5, 0.5])  # both .3 from the mean


def test_weights_stay_a_distribution_when_beta_is_huge():
    algorithm, sizes = FairFed(beta=1e6), torch.tensor([10.0, 10.0, 20.0])
    server = algorithm.start_server({"w": torch.zeros(3)}, sizes)
    for _ in range(3):
        server = algorithm.server_round(server, THREE, sizes)
    assert server["weights"].min() >= 0
    assert server["weights"].sum().item() == pytest.approx(1)


@pytest.mark.parametrize("k", range(3))
def test_every_clients_weight_counts(k):
    """Moving client k's model by 1 moves the average by its own weight: no client is left out."""
    algorithm, sizes = FairFed(beta=0.05), torch.tensor([10.0, 10.0, 20.0])
    server = algorithm.start_server({"w": torch.zeros(3)}, sizes)
    after = algorithm.server_round(server, THREE, sizes)
    moved = {**THREE, "w": THREE["w"].clone()}
    moved["w"][k] += 1
    change = algorithm.server_round(server, moved, sizes)["w"] - after["w"]
    assert change.tolist() == pytest.approx([after["weights"][k].item()] * 3, rel=1e-5)
    assert change.min() > 0.05


def test_beta_zero_is_fedavg_by_size(federation):
    network = MLP(federation.encoder.width, (5,), groups=2)
    options = {"rounds": 4, "epochs": 2, "batch": 30, "alpha": 0.02, "eta": 0.4}
    fair = local.fit(federation, FairFed(beta=0.0, **options), network, seed=0)
    baseline = local.fit(
        federation, pff.methods.FedAvg(weighting="size", **options), network, seed=0
    )
    other = local.fit(federation, FairFed(beta=0.5, **options), network, seed=0)
    torch.testing.assert_close(fair.w, baseline.w, rtol=0, atol=1e-6)
    torch.testing.assert_close(fair.theta, baseline.theta, rtol=0, atol=1e-6)
    assert (other.w - baseline.w).abs().max() > 1e-3


def test_uniform_start_is_uniform_fedavg(federation):
    network = MLP(federation.encoder.width, (), groups=2)
    options = {"rounds": 2, "batch": 30, "alpha": 0.02, "weighting": "uniform"}
    fair = local.fit(federation, FairFed(beta=0.0, **options), network, seed=0)
    baseline = local.fit(federation, pff.methods.FedAvg(**options), network, seed=0)
    torch.testing.assert_close(fair.w, baseline.w, rtol=0, atol=1e-6)


def test_counts_are_those_of_the_rows(federation):
    """Clients of unequal size in one stack: padding counts for nothing."""
    network = MLP(federation.encoder.width, (5,), groups=2)
    all_clients = clients(federation, network)
    w = network.init(np.random.default_rng(1))
    tally = count(all_clients, all_clients.replicate(w))
    for i, rows in enumerate(all_clients.rows):
        x, y, s = (t[rows] for t in federation.table[:3])
        positive = network.logits(w[None], x[None], s[None])[0, :, 0] > 0
        assert tally["right"][i] == (positive == y.bool()).sum()
        for z in (0, 1):
            assert tally["group"][i, z] == (s == z).sum()
            assert tally["positive"][i, z] == (positive & (s == z)).sum()


def test_chunks_do_not_matter(federation):
    network = MLP(federation.encoder.width, (5,), groups=2)
    algorithm = FairFed(beta=0.3, rounds=3, batch=30, alpha=0.02)
    one = local.fit(federation, algorithm, network, seed=0, at_once=1)
    ten = local.fit(federation, algorithm, network, seed=0, at_once=10)
    torch.testing.assert_close(one.theta, ten.theta, rtol=1e-4, atol=1e-5)


def test_a_round_aliases_nothing_and_sends_counts_only(federation):
    network = MLP(federation.encoder.width, (5,), groups=2)
    algorithm, all_clients = FairFed(batch=40), clients(federation, network)
    w = network.init(np.random.default_rng(0))
    server = algorithm.start_server({"w": w}, torch.ones(3))
    before = {name: tensor.clone() for name, tensor in server.items()}
    sent, own = algorithm.client_round(server, {}, all_clients, t=0)
    after = algorithm.server_round(server, sent, torch.ones(3))
    assert own == {}
    assert {name: tuple(tensor.shape) for name, tensor in sent.items()} == {
        "w": (3, network.size), "group": (3, 2), "positive": (3, 2), "right": (3,),
    }  # fmt: skip
    for name, tensor in server.items():
        assert torch.equal(tensor, before[name])
    given = {t.untyped_storage().data_ptr() for t in (w, *server.values(), *sent.values())}
    assert len(given) == 1 + len(server) + len(sent)
    assert not given & {t.untyped_storage().data_ptr() for t in after.values()}


@pytest.mark.parametrize("beta", [-0.1, float("inf"), float("nan")])
def test_bad_beta_is_refused(beta):
    with pytest.raises(pff.InputError, match="beta must be a number >= 0"):
        FairFed(beta=beta)


@pytest.mark.parametrize(
    "change",
    [{"group": [0.0, 0.0], "positive": [0.0, 0.0], "right": 0.0}, {"positive": [7.0, 0.0]},
     {"right": 11.0}, {"group": [60.0, 60.0]}, {"positive": [-1.0, 0.0]}],
)  # fmt: skip
def test_counts_that_no_rows_have_are_impossible(change):
    """Without rows all weights would be NaN, and the run would end."""
    honest = {"w": [0.0], "group": [5.0, 5.0], "positive": [2.0, 3.0], "right": 8.0}
    method = pff.methods.FairFed()
    message = {name: torch.tensor(value) for name, value in honest.items()}
    assert method.impossible(message, {}, [10]) == ""
    message |= {name: torch.tensor(value) for name, value in change.items()}
    assert method.impossible(message, {}, [10])
