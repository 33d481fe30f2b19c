"""fluke's own FedAvg and pFedMe: its clients and server, round by round.

fluke imports torchvision, for networks and pictures that are not in this race, and torchvision is
not built for every torch: an empty one stands in for it.
"""

import sys
from copy import deepcopy
from types import ModuleType
from unittest.mock import MagicMock

import torchmetrics  # noqa: F401  (looks for torchvision, and must not find this one)


class Empty(ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()


for name in ("", ".models", ".datasets", ".transforms", ".transforms.functional"):
    sys.modules[f"torchvision{name}"] = Empty(f"torchvision{name}")

import task  # noqa: E402
import torch  # noqa: E402
from fluke import DDict  # noqa: E402
from fluke.algorithms import CentralizedFL  # noqa: E402
from fluke.algorithms.pfedme import (  # noqa: E402
    PFedMe,
    PFedMeClient,
    PFedMeOptimizer,
    PFedMeServer,
)
from fluke.client import Client  # noqa: E402
from fluke.config import OptimizerConfigurator  # noqa: E402
from fluke.data import FastDataLoader  # noqa: E402
from fluke.server import Server  # noqa: E402
from loop import layers_of, sequential  # noqa: E402

torch.set_num_threads(1)


def make(x, y):
    people = [
        (torch.from_numpy(a), torch.from_numpy(b)[:, None]) for a, b in zip(x, y, strict=True)
    ]
    batches = -(-task.ROWS // task.BATCH)

    def play(kind, client_kind, server_kind, optimiser, settings, told):
        loaders = [FastDataLoader(a, b, num_labels=2, batch_size=task.BATCH, shuffle=True)
                   for a, b in people]  # fmt: skip
        clients = [
            client_kind(
                index=i, train_set=loader, test_set=None, loss_fn=torch.nn.BCEWithLogitsLoss(),
                optimizer_cfg=OptimizerConfigurator(DDict(**optimiser)), **settings,
            )
            for i, loader in enumerate(loaders)
        ]  # fmt: skip
        server = server_kind(model=sequential(), test_set=None, clients=clients, **told)
        whole = kind(len(clients), None, DDict(), clients=clients, server=server)
        whole.server.broadcast_model(clients)
        for client in clients:
            client.local_update(1)
        models = whole.server.receive_client_models(clients, state_dict=False)
        whole.server.aggregate(clients, models)
        return layers_of(deepcopy(whole.server.model))

    def fedavg():
        layers = play(
            CentralizedFL, Client, Server,
            {"name": "SGD", "lr": task.LR}, {"local_epochs": task.EPOCHS}, {},
        )  # fmt: skip
        return layers, task.EPOCHS * batches

    def pfedme():
        layers = play(
            PFedMe, PFedMeClient, PFedMeServer,
            {"name": PFedMeOptimizer, "lr": task.INNER_LR, "lamda": task.GAMMA, "mu": 0.0},
            {"local_epochs": 1, "k": task.K}, {"beta": 1.0},
        )  # fmt: skip
        return layers, task.K * batches

    return {"fedavg": fedavg, "pfedme": pfedme}


if __name__ == "__main__":
    task.answer(make)
