"""pfedfair itself."""

from types import SimpleNamespace

import numpy as np
import task
import torch

import pfedfair as pff
from pfedfair.engines import local
from pfedfair.federation import Table
from pfedfair.models import MLP

torch.set_num_threads(1)


class Start(MLP):
    """The network, from everybody's first weights."""

    def init(self, rng):
        return torch.cat([torch.from_numpy(np.append(w.T.ravel(), b)) for w, b in task.start()])


class Rows(SimpleNamespace):
    """What the engine needs to know of a federation."""

    def __len__(self):
        return len(self.sizes)


def make(x, y):
    clients, rows = y.shape
    own = np.arange(clients * rows).reshape(clients, rows)
    flat = torch.from_numpy(x.reshape(-1, x.shape[-1]))
    told, s = flat[:, :-1].contiguous(), flat[:, -1].long()
    sizes = np.full(clients, rows)
    table = Table(told, torch.from_numpy(y.ravel()), s)
    federation = Rows(
        sizes=sizes, masses=sizes, table=table, partition=SimpleNamespace(train=list(own))
    )
    network = Start(told.shape[1], task.WIDTHS[1:-1], groups=2)
    sgd = {"rounds": 1, "batch": task.BATCH, "alpha": task.LR, "optimiser": "sgd"}
    fedavg = pff.methods.FedAvg(epochs=task.EPOCHS, **sgd)
    pfedme = pff.methods.PFedMe(
        K=task.K, gamma=task.GAMMA, alpha_inner=task.INNER_LR, inner="sgd", prox_epochs=0, **sgd
    )

    def layers(w):
        found = []
        for start, i, o in network.layers:
            weight, bias = w[start:][: i * o], w[start + i * o :][:o]
            found.append((weight.view(o, i).T.numpy(), bias.numpy()))
        return found

    def play(algorithm, steps):
        return lambda: (layers(local.fit(federation, algorithm, network, 0).w), steps)

    return {
        "fedavg": play(fedavg, task.EPOCHS * task.STEPS),
        "pfedme": play(pfedme, task.K * task.STEPS),
    }


if __name__ == "__main__":
    task.answer(make)
