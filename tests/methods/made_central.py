"""Made-up rows and minibatches, for the methods that are meant for all rows together."""

import numpy as np
import torch
from play import clients

from pfedfair.data.task import Task
from pfedfair.engines import local
from pfedfair.federation import Batch, Table
from pfedfair.methods import Clients
from pfedfair.models import MLP, linear


def some(rows=3, n=11, outputs=1, groups=2, d=4, seed=0, padded=True):
    """Logits and a minibatch of several clients; the last rows of some are padding."""
    rng = np.random.default_rng(seed)
    classes = max(2, outputs)
    size = [n - (k % 3 if padded else 0) for k in range(rows)]
    weight = np.array([[1 / m] * m + [0.0] * (n - m) for m in size], dtype=np.float32)
    batch = Batch(
        x=torch.from_numpy(rng.normal(size=(rows, n, d)).astype(np.float32)),
        y=torch.from_numpy(rng.integers(classes, size=(rows, n)).astype(np.float32)),
        s=torch.from_numpy(rng.integers(groups, size=(rows, n))),
        weight=torch.from_numpy(weight),
    )
    return torch.from_numpy(rng.normal(size=(rows, n, outputs)).astype(np.float32)), batch


def single(batch, k):
    """One client's minibatch without its padding."""
    there = batch.weight[k] > 0
    return Batch(*(tensor[k : k + 1, there] for tensor in batch))


def table(x, y, s, groups=2, classes=2, aware=False):
    x, y = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y, dtype=torch.float32)
    return Table(x, y, torch.as_tensor(s, dtype=torch.int64), Task(groups, classes, aware))


def trained(algorithm, rows, network=None):
    """Train on a table as one client; return the weights and the network."""
    network = network or linear(rows.x.shape[1])
    all_clients = Clients(network, rows, [np.arange(len(rows.y))], [0], seed=0)
    start = {"w": torch.zeros(network.size)}
    return algorithm.personalise(start, {}, all_clients), network


def unfair(n=4000, seed=0, shift=1.2):
    """Two groups, one with more positive labels, and an input that tells S.

    The first input tells the label, the second one the group, the third is noise.
    """
    rng = np.random.default_rng(seed)
    s = rng.integers(2, size=n)
    y = rng.random(n) < np.where(s == 1, 0.8, 0.2)
    x = rng.normal(size=(n, 3))
    x[:, 0] += 1.4 * y - 0.7
    x[:, 1] += shift * (2 * s - 1)
    return table(x, y, s)


def decisions(theta, network, rows):
    return (network.logits(theta, rows.x[None], rows.s[None])[0, :, 0] > 0).double()


def ddp(theta, network, rows):
    decided = decisions(theta, network, rows)
    return abs(decided[rows.s == 1].mean() - decided[rows.s == 0].mean()).item()


def odds(theta, network, rows):
    """The larger of the two labels' gaps between groups."""
    decided, gaps = decisions(theta, network, rows), []
    for label in (0, 1):
        rates = [decided[(rows.s == z) & (rows.y == label)].mean() for z in (0, 1)]
        gaps.append(abs(rates[1] - rates[0]).item())
    return max(gaps)


def accuracy(theta, network, rows):
    return (decisions(theta, network, rows) == rows.y).double().mean().item()


def same_in_a_stack_and_single(federation, algorithm, atol=2e-5):
    """Clients in one stack train as each does on its own, by minibatches of unequal size."""
    network = MLP(federation.encoder.width, (5,), groups=2)
    one = local.fit(federation, algorithm, network, seed=0, at_once=1)
    ten = local.fit(federation, algorithm, network, seed=0, at_once=10)
    assert torch.isfinite(one.theta).all()
    torch.testing.assert_close(one.theta, ten.theta, rtol=0, atol=atol)
    moved = (one.theta - one.w).abs().amax(1)
    assert (moved > 1e-3).all()
    three = clients(federation, network)  # of unequal size: padded if all are one minibatch
    whole = type(algorithm)(**{**vars(algorithm), "batch": 10_000})
    start = {"w": one.w}
    stacked = whole.personalise(start, {}, three)
    for i in range(len(federation)):
        single = whole.personalise(start, {}, clients(federation, network, [i]))
        torch.testing.assert_close(stacked[i : i + 1], single, rtol=0, atol=atol)
